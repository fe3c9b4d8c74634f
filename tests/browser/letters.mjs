// An operator finds what was given up on its way out, and sends it again.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { journey } from "./visit.mjs";

const interzone = (...words) => execFileSync(process.env.INTERZONE_TEST_BINARY, words, { encoding: "utf8" });

await journey(async ({ said, open, look }) => {
  const made = JSON.parse(interzone("--output", "json", "task", "create", "wait 300"));
  // An address that nobody has.
  const wanted = { taskId: made.taskId, callbackUrl: "https://receiver.invalid/hook" };
  interzone("call", "tasks.subscribe", JSON.stringify(wanted));
  interzone("task", "cancel", made.taskId);
  const page = await open(said.console);
  await page.waitForURL(/\/console$/);
  // It is tried for a while; the overview says by itself when it is given up.
  await page.locator(".tile.bad [data-count=dead]", { hasText: "1" }).waitFor({ timeout: 60_000 });
  await page.locator(".tile.bad").click();
  await page.locator("h1", { hasText: "Dead letters" }).waitFor();
  await page.locator("tbody td", { hasText: "webhook" }).waitFor();
  const scroll = page.locator(".scroll");
  assert.ok(await scroll.evaluate((one) => one.scrollWidth <= one.clientWidth), "the button is there to be seen");
  await look(page, "console-letters");
  await page.locator("button", { hasText: "Replay" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Dead letters" }).waitFor();
  await page.locator(".card .soft", { hasText: "No dead letters." }).waitFor();
  await page.goto(`${said.url}/console/tasks/${made.taskId}`);
  await page.locator(".deliveries .badge").first().waitFor();
});
