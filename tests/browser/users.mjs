// Playground users: a refusal is visible only to the refused user, the rate limit states the waiting time, and answers
// are in the language of the user.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(startup.chat);
  const main = page.locator("#main-list");
  const thread = page.locator("#thread-list");
  const ask = async (text) => {
    await page.locator("#main-input").fill(text);
    await page.locator("#main-input").press("Enter");
  };

  await page.locator("#user").selectOption({ label: "Mallory" });
  await page.locator("#welcome-title", { hasText: "Mallory" }).waitFor();
  await checkPage(page, "playground-refused-first");
  await page.locator("#channels button", { hasText: "general" }).click();
  await ask("@interzone echo let me in");
  const refusal = main.locator(".whisper", { hasText: "not allowed" });
  await refusal.waitFor();
  await checkPage(page, "playground-refused");
  await page.locator("#user").selectOption({ label: "Alex" });
  await main.locator(".message", { hasText: "let me in" }).waitFor();
  assert.equal(await refusal.count(), 0, "another user sees the refusal");

  // The page and the zone use the language of the current user.
  await page.locator("#dms button").click();
  await ask("echo one");
  await thread.getByRole("button", { name: "Helpful", exact: true }).waitFor();
  await page.locator("#language").selectOption("ja-JP");
  await page.locator("html[lang=ja]").waitFor();
  await waitForDelivery(startup.chat, "user_change");
  await page.locator("#thread h2", { hasText: "スレッド" }).waitFor();
  await page.locator("#close").click();
  await ask("echo 二");
  await thread.locator(".message", { hasText: "echo 二" }).waitFor();
  await thread.getByRole("button", { name: "役に立った", exact: true }).waitFor();
  await checkPage(page, "playground-japanese");
  await page.reload();
  await page.locator("html[lang=ja]").waitFor();
  assert.equal(await page.locator("#language").inputValue(), "ja-JP");

  await page.locator("#close").click();
  // Sent at once, so that the limit is exceeded on a slow machine too.
  await page.evaluate(() => Promise.all(Array.from({ length: 20 }, (_, index) => fetch("/playground/acts", {
    method: "POST",
    body: JSON.stringify({ act: "post", user: "U0ALEX", channel: "D0ALEX", text: `echo ${index}` }),
  }))));
  const limited = page.locator(".whisper", { hasText: "上限に達しました" }).first();
  await limited.waitFor();
  assert.match(await limited.innerText(), /\d+ 秒後/);
  await checkPage(page, "playground-limited");
});

/** Waits until the app has acknowledged an event, since events may arrive out of order, as with Slack. */
async function waitForDelivery(chat, kind) {
  for (;;) {
    const { deliveries } = await (await fetch(`${chat}playground/calls`)).json();
    if (deliveries.some((delivery) => delivery.kind === kind && delivery.outcome === "ok")) return;
    await new Promise((resume) => setTimeout(resume, 50));
  }
}
