// Who is not on the list is refused and nobody else sees it; who asks too often is told when to come back;
// and who changes their language is answered in it.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(said.chat);
  const main = page.locator("#main-list");
  const thread = page.locator("#thread-list");
  const ask = async (text) => {
    await page.locator("#main-input").fill(text);
    await page.locator("#main-input").press("Enter");
  };

  await page.locator("#user").selectOption({ label: "Mallory" });
  await page.locator("#welcome-title", { hasText: "Mallory" }).waitFor();
  await look(page, "playground-refused-first");
  await page.locator("#channels button", { hasText: "general" }).click();
  await ask("@interzone echo let me in");
  const refusal = main.locator(".whisper", { hasText: "not allowed" });
  await refusal.waitFor();
  await look(page, "playground-refused");
  await page.locator("#user").selectOption({ label: "Alex" });
  await main.locator(".message", { hasText: "let me in" }).waitFor();
  assert.equal(await refusal.count(), 0, "it is Mallory's alone");

  // The page and the zone speak the language of whoever is there.
  await page.locator("#dms button").click();
  await ask("echo one");
  await thread.getByRole("button", { name: "Helpful", exact: true }).waitFor();
  await page.locator("#language").selectOption("ja-JP");
  await page.locator("html[lang=ja]").waitFor();
  await told(said.chat, "user_change");
  await page.locator("#thread h2", { hasText: "スレッド" }).waitFor();
  await page.locator("#close").click();
  await ask("echo 二");
  await thread.locator(".message", { hasText: "echo 二" }).waitFor();
  await thread.getByRole("button", { name: "役に立った", exact: true }).waitFor();
  await look(page, "playground-japanese");
  await page.reload();
  await page.locator("html[lang=ja]").waitFor();
  assert.equal(await page.locator("#language").inputValue(), "ja-JP");

  await page.locator("#close").click();
  // Faster than anybody types, so that it is too often on a slow machine too.
  await page.evaluate(() => Promise.all(Array.from({ length: 20 }, (_, at) => fetch("/playground/acts", {
    method: "POST",
    body: JSON.stringify({ act: "post", user: "U0ALEX", channel: "D0ALEX", text: `echo ${at}` }),
  }))));
  const limited = page.locator(".whisper", { hasText: "上限に達しました" }).first();
  await limited.waitFor();
  assert.match(await limited.innerText(), /\d+ 秒後/);
  await look(page, "playground-limited");
});

/** Waits until the app has taken an event: events overtake each other, as they do in Slack. */
async function told(chat, kind) {
  for (;;) {
    const { deliveries } = await (await fetch(`${chat}playground/calls`)).json();
    if (deliveries.some((one) => one.kind === kind && one.outcome === "ok")) return;
    await new Promise((resume) => setTimeout(resume, 50));
  }
}
