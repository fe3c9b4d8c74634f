// Files in the playground: a generated file is previewed and downloaded; uploaded files are previewed and read by the
// agent.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(startup.chat);
  const thread = page.locator("#thread-list");
  await page.locator("#ideas button", { hasText: "file csv" }).click();
  const link = thread.getByRole("link", { name: /\.csv 64 B$/ });
  await link.waitFor();
  await thread.locator(".preview th", { hasText: "amount" }).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  assert.match(download.suggestedFilename(), /\.csv$/);
  const text = readFileSync(await download.path(), "utf8");
  assert.match(text, /name,amount/);
  await checkPage(page, "playground-file");
  await page.keyboard.press("Escape");

  const rows = Array.from({ length: 12 }, (_, index) => `${index + 1}月,${(index + 1) * 100}`);
  writeFileSync("売上.csv", `月,金額\n${rows.join("\n")}\n`);
  writeFileSync("sunset.png", Buffer.from(await createPng(page), "base64"));
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.locator("#main-form .attach").click()]);
  await chooser.setFiles(["売上.csv", "sunset.png"]);
  await page.locator("#main-form .picked li").nth(1).waitFor();
  await page.locator("#main-input:focus").waitFor();
  await page.keyboard.type("echo what is this?");
  await page.keyboard.press("Enter");

  // The question shows the files, and the answer contains the text that was read from them.
  const [question, answer] = [thread.locator(".message").nth(0), thread.locator(".message").nth(1)];
  await answer.locator(".body").filter({ hasText: "月,金額" }).waitFor();
  assert.match(await answer.locator(".body").innerText(), /売上\.csv/);
  await question.locator(".preview img").waitFor();
  assert.equal(await question.locator(".preview img").evaluate((node) => node.naturalWidth), 320);
  await question.getByRole("button", { name: "Show all" }).click();
  await question.getByRole("region", { name: "Contents of 売上.csv" }).waitFor();
  assert.equal(await question.locator(".preview tr").count(), 13);
  await checkPage(page, "playground-upload");
  await question.getByRole("button", { name: "Show less" }).click();
  await question.locator(".preview.short").waitFor();
  await checkPage(page, "playground-upload-short");
});

/** Returns a PNG image in base64. */
function createPng(page) {
  return page.evaluate(() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 140 });
    const context = canvas.getContext("2d");
    const gradient = context.createLinearGradient(0, 0, 0, 140);
    const stops = [[0, "#3b1a45"], [0.6, "#c2527a"], [1, "#f4b36b"]];
    for (const [offset, colour] of stops) gradient.addColorStop(offset, colour);
    context.fillStyle = gradient;
    context.fillRect(0, 0, 320, 140);
    return canvas.toDataURL("image/png").split(",")[1];
  });
}
