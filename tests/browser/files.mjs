// A file that is made is shown and downloaded; a file of one's own is sent, shown and read.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(said.chat);
  const thread = page.locator("#thread-list");
  await page.locator("#ideas button", { hasText: "file csv" }).click();
  const made = thread.getByRole("link", { name: /\.csv 64 B$/ });
  await made.waitFor();
  await thread.locator(".preview th", { hasText: "amount" }).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), made.click()]);
  assert.match(download.suggestedFilename(), /\.csv$/);
  const text = readFileSync(await download.path(), "utf8");
  assert.match(text, /name,amount/);
  await look(page, "playground-file");
  await page.keyboard.press("Escape");

  const rows = Array.from({ length: 12 }, (_, at) => `${at + 1}月,${(at + 1) * 100}`);
  writeFileSync("売上.csv", `月,金額\n${rows.join("\n")}\n`);
  writeFileSync("sunset.png", Buffer.from(await painted(page), "base64"));
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.locator("#main-form .attach").click()]);
  await chooser.setFiles(["売上.csv", "sunset.png"]);
  await page.locator("#main-form .picked li").nth(1).waitFor();
  await page.locator("#main-input:focus").waitFor();
  await page.keyboard.type("echo what is this?");
  await page.keyboard.press("Enter");

  // What was sent stands in the question, what was read of it in the answer.
  const [question, answer] = [thread.locator(".message").nth(0), thread.locator(".message").nth(1)];
  await answer.locator(".body").filter({ hasText: "月,金額" }).waitFor();
  assert.match(await answer.locator(".body").innerText(), /売上\.csv/);
  await question.locator(".preview img").waitFor();
  assert.equal(await question.locator(".preview img").evaluate((node) => node.naturalWidth), 320);
  const more = question.getByRole("button", { name: "Show all" });
  await more.click();
  await question.getByRole("region", { name: "Contents of 売上.csv" }).waitFor();
  assert.equal(await question.locator(".preview tr").count(), 13);
  await look(page, "playground-upload");
  await question.getByRole("button", { name: "Show less" }).click();
  await question.locator(".preview.short").waitFor();
  await look(page, "playground-upload-short");
});

/** A picture, as a browser paints it. */
function painted(page) {
  return page.evaluate(() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 140 });
    const brush = canvas.getContext("2d");
    const sky = brush.createLinearGradient(0, 0, 0, 140);
    for (const [at, colour] of [[0, "#3b1a45"], [0.6, "#c2527a"], [1, "#f4b36b"]]) sky.addColorStop(at, colour);
    brush.fillStyle = sky;
    brush.fillRect(0, 0, 320, 140);
    return canvas.toDataURL("image/png").split(",")[1];
  });
}
