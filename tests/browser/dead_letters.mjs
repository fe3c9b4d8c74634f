// Console: a webhook delivery becomes a dead letter, and the operator replays it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { runTest } from "./harness.mjs";

const interzone = (...args) => execFileSync(process.env.INTERZONE_TEST_BINARY, args, { encoding: "utf8" });

await runTest(async ({ startup, open, checkPage }) => {
  const task = JSON.parse(interzone("--output", "json", "task", "create", "wait 300"));
  // A host that cannot be resolved.
  const subscription = { taskId: task.taskId, callbackUrl: "https://receiver.invalid/hook" };
  interzone("call", "tasks.subscribe", JSON.stringify(subscription));
  interzone("task", "cancel", task.taskId);
  const page = await open(startup.console);
  await page.waitForURL(/\/console$/);
  // The delivery is retried for a while. The overview then shows the dead letter without a reload.
  await page.locator(".tile.bad [data-count=dead]", { hasText: "1" }).waitFor({ timeout: 60_000 });
  await page.locator(".tile.bad").click();
  await page.locator("h1", { hasText: "Dead letters" }).waitFor();
  await page.locator("tbody td", { hasText: "webhook" }).waitFor();
  const scroll = page.locator(".scroll");
  assert.ok(await scroll.evaluate((node) => node.scrollWidth <= node.clientWidth), "the button is out of view");
  await checkPage(page, "console-dead-letters-replay");
  await page.locator("button", { hasText: "Replay" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Dead letters" }).waitFor();
  await page.locator(".card .soft", { hasText: "No dead letters." }).waitFor();
  await page.goto(`${startup.url}/console/tasks/${task.taskId}`);
  await page.locator(".deliveries .badge").first().waitFor();
});
