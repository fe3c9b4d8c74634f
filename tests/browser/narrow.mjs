// The page on a narrow screen, in the dark and in Japanese: all of it is there, and nothing sticks out.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(said.chat, { width: 360, height: 740, dark: true, language: "ja-JP" });
  await page.locator("html[lang=ja]").waitFor();
  await page.locator("#ideas button").first().waitFor();
  await fits(page);
  await look(page, "playground-narrow-first");

  // The channels, by keyboard, and back.
  await page.locator("#menu").focus();
  await page.keyboard.press("Enter");
  await page.locator("#sidebar :focus").waitFor();
  await look(page, "playground-narrow-menu");
  await page.keyboard.press("Escape");
  await page.locator("#menu:focus").waitFor();
  await page.locator("#sidebar").waitFor({ state: "hidden" });

  await page.locator("#main-input").fill("file csv 品目,数量,単価,合計,備考の長い列");
  await page.locator("#main-input").press("Enter");
  await page.locator("#thread-list .preview table").waitFor();
  await page.locator("#thread-list").getByRole("button", { name: "役に立った", exact: true }).waitFor();
  assert.ok(await page.locator("#main").evaluate((node) => node.inert), "what is covered is out of reach");
  await fits(page);
  await look(page, "playground-narrow");
  await page.locator("#thread-input").fill("wait 60");
  await page.locator("#thread-input").press("Enter");
  await page.locator("#halt").waitFor();
  await fits(page);
  await look(page, "playground-narrow-working");
  await page.locator("#close").click();
  await page.locator("#main-list .under").waitFor();
  assert.ok(!(await page.locator("#main").evaluate((node) => node.inert)));
});

/** Nothing makes the page wider than the screen. */
async function fits(page) {
  const [wide, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= screen, `${wide} > ${screen}`);
}
