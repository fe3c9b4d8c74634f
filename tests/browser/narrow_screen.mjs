// Playground on a narrow screen, with the dark theme and in Japanese: everything is reachable, and nothing overflows.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(startup.chat, { width: 360, height: 740, dark: true, language: "ja-JP" });
  await page.locator("html[lang=ja]").waitFor();
  await page.locator("#ideas button").first().waitFor();
  await assertFits(page);
  await checkPage(page, "playground-narrow-first");

  // Open and close the channel list by keyboard.
  await page.locator("#menu").focus();
  await page.keyboard.press("Enter");
  await page.locator("#sidebar :focus").waitFor();
  await checkPage(page, "playground-narrow-menu");
  await page.keyboard.press("Escape");
  await page.locator("#menu:focus").waitFor();
  await page.locator("#sidebar").waitFor({ state: "hidden" });

  await page.locator("#main-input").fill("file csv 品目,数量,単価,合計,備考の長い列");
  await page.locator("#main-input").press("Enter");
  await page.locator("#thread-list .preview table").waitFor();
  await page.locator("#thread-list").getByRole("button", { name: "役に立った", exact: true }).waitFor();
  assert.ok(await page.locator("#main").evaluate((node) => node.inert), "the covered pane can still get the focus");
  await assertFits(page);
  await checkPage(page, "playground-narrow");
  await page.locator("#thread-input").fill("wait 60");
  await page.locator("#thread-input").press("Enter");
  await page.locator("#halt").waitFor();
  await assertFits(page);
  await checkPage(page, "playground-narrow-working");
  await page.locator("#close").click();
  await page.locator("#main-list .under").waitFor();
  assert.ok(!(await page.locator("#main").evaluate((node) => node.inert)));
});

/** Asserts that the page is not wider than the screen. */
async function assertFits(page) {
  const [width, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(width <= screen, `${width} > ${screen}`);
}
