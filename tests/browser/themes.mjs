// Playground on a wide screen, in a channel without and with the bot, with the dark and the light theme.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(`${startup.chat}#C0LOBBY`, { width: 1920, height: 1080, dark: true });
  await page.locator("#welcome-title", { hasText: "not in this channel" }).waitFor();
  await checkPage(page, "playground-without-bot");
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await page.getByRole("button", { name: "Ask directly" }).click();
  await page.locator("#welcome-title", { hasText: "Ask Interzone" }).waitFor();
  await page.locator("#main-input").fill("help");
  await page.locator("#main-input").press("Enter");
  await page.locator("#thread-list .buttons").waitFor();
  await checkPage(page, "playground-wide-dark");
  await page.locator("#theme").click();
  assert.notEqual(await background(), dark, "the theme did not change");
  await page.reload();
  await page.locator("#thread-list .buttons").waitFor();
  assert.notEqual(await background(), dark, "the theme was not kept after a reload");
  await checkPage(page, "playground-wide");
});
