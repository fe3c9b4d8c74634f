// A running answer is stopped, by the button that the zone posts and by the one of the message box.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(startup.chat);
  const thread = page.locator("#thread-list");
  const ask = async (text) => {
    await page.locator("#main-input").fill(text);
    await page.locator("#main-input").press("Enter");
    await thread.locator(".message").first().filter({ hasText: text }).waitFor();
  };
  await ask("wait 61");
  const offered = thread.locator(".whisper").getByRole("button", { name: "Stop" });
  await offered.waitFor();
  assert.equal(await page.locator("#main-list .whisper").count(), 0, "the stop button is also in the channel");
  await checkPage(page, "playground-working");
  await offered.click();
  await thread.locator(".message", { hasText: "Stopped." }).waitFor();
  await offered.waitFor({ state: "detached" });

  await ask("wait 62");
  await page.locator("#status").filter({ hasText: "left" }).waitFor();
  const halt = page.locator("#halt");
  await halt.click();
  await thread.locator(".message", { hasText: "Stopped." }).waitFor();
  await halt.waitFor({ state: "hidden" });
  await page.locator("#status").waitFor({ state: "hidden" });
  await checkPage(page, "playground-stopped");
});
