// What takes too long is stopped, by the button of the composer and by the one that the zone offers.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(said.chat);
  const thread = page.locator("#thread-list");
  const ask = async (text) => {
    await page.locator("#main-input").fill(text);
    await page.locator("#main-input").press("Enter");
    await thread.locator(".message").first().filter({ hasText: text }).waitFor();
  };
  await ask("wait 61");
  await page.locator("#status").filter({ hasText: "left" }).waitFor();
  const halt = page.locator("#halt");
  await halt.waitFor();
  await look(page, "playground-working");
  await halt.click();
  await thread.locator(".message", { hasText: "Stopped." }).waitFor();
  await halt.waitFor({ state: "hidden" });
  await page.locator("#status").waitFor({ state: "hidden" });

  await ask("wait 62");
  const offered = thread.locator(".whisper").getByRole("button", { name: "Stop" });
  await offered.waitFor();
  assert.equal(await page.locator("#main-list .whisper").count(), 0, "it is offered once");
  await offered.click();
  await thread.locator(".message", { hasText: "Stopped." }).waitFor();
  await offered.waitFor({ state: "detached" });
  await look(page, "playground-stopped");
});
