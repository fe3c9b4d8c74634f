// The page on a wide screen, where nobody answers and where somebody does, in the dark and in the light.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(`${said.chat}#C0LOBBY`, { width: 1920, height: 1080, dark: true });
  await page.locator("#welcome-title", { hasText: "not in this channel" }).waitFor();
  await look(page, "playground-alone");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.getByRole("button", { name: "Ask directly" }).click();
  await page.locator("#welcome-title", { hasText: "Ask Interzone" }).waitFor();
  await page.locator("#main-input").fill("help");
  await page.locator("#main-input").press("Enter");
  await page.locator("#thread-list .buttons").waitFor();
  await look(page, "playground-wide-dark");
  await page.locator("#theme").click();
  assert.notEqual(await ground(), dark, "it can be made light");
  await page.reload();
  await page.locator("#thread-list .buttons").waitFor();
  assert.notEqual(await ground(), dark, "and stays so");
  await look(page, "playground-wide");
});
