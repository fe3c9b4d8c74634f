// Somebody opens the page that `interzone up` names, asks what it proposes, and sees the answer grow.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(said.chat);
  await page.locator("#ideas button").first().waitFor();
  await look(page, "playground-first");
  await page.locator("#main-input").fill("stream 60");
  await page.keyboard.press("Enter");
  const answer = page.locator("#thread-list .message").nth(1);
  await answer.locator(".body").filter({ hasText: /\S/ }).waitFor();
  await page.locator("#thread-list .streaming").waitFor();
  await page.locator("#thread-list .message:not(.streaming) .buttons button").first().waitFor();
  const text = await answer.locator(".body").innerText();
  assert.ok(text.length > 100, text);
  await look(page, "playground-streamed");
});
