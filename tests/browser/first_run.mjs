// First use of the playground, by keyboard only: choose a suggestion, get a streamed answer, give feedback and ask a
// follow-up question in the thread.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(startup.chat);
  const ideas = page.locator("#ideas button");
  await ideas.first().waitFor();
  await page.locator("#main-input:focus").waitFor();
  await checkPage(page, "playground-first");
  await page.evaluate(observeAnswer);
  // From the message box back to the suggestions.
  const suggestion = ideas.filter({ hasText: "stream 60" });
  await focusByKey(page, suggestion, "Shift+Tab");
  await page.keyboard.press("Enter");

  const thread = page.locator("#thread-list .message");
  const answer = thread.nth(1);
  const helpful = answer.getByRole("button", { name: "Helpful", exact: true });
  await helpful.waitFor();
  assert.equal(await page.locator(".streaming").count(), 0);
  assert.equal((await answer.locator(".body p").first().innerText()).split(/\s+/).length, 60);
  await page.locator("#halt").waitFor({ state: "hidden" });
  const { lengths, stoppable } = await page.evaluate(() => globalThis.observed);
  assert.ok(lengths.length > 1, `the answer was not streamed: ${lengths}`);
  assert.ok(stoppable, "there was no stop button");

  await page.locator("#thread-input:focus").waitFor();
  await focusByKey(page, helpful, "Shift+Tab");
  await page.keyboard.press("Enter");
  await answer.locator("button[aria-pressed=true]").waitFor();
  assert.ok(await helpful.evaluate((node) => node === document.activeElement), "the button lost the focus");
  await checkPage(page, "playground-streamed");

  await page.keyboard.press("/");
  await page.keyboard.type("echo **and** `this`");
  await page.keyboard.press("Enter");
  const second = thread.nth(3);
  await second.locator("strong", { hasText: "and" }).waitFor();
  assert.equal(await second.locator("code").innerText(), "this");
  await page.keyboard.press("Escape");
  await page.locator("#thread").waitFor({ state: "hidden" });
  await page.locator("#main-list .under", { hasText: "3 replies" }).waitFor();
  await page.locator("#main-input:focus").waitFor();
});

/** Records states of the page that last only a short time: lengths of the streamed text, and the stop button. */
function observeAnswer() {
  const observed = { lengths: [], stoppable: false };
  globalThis.observed = observed;
  new MutationObserver(() => {
    const length = document.querySelector("#thread-list .streaming .body")?.textContent.length ?? 0;
    if (length > (observed.lengths.at(-1) ?? 0)) observed.lengths.push(length);
    observed.stoppable ||= !document.getElementById("halt").hidden;
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
}

/** Presses a key until the element has the focus. */
async function focusByKey(page, locator, key) {
  for (let presses = 0; presses < 40; presses += 1) {
    if (await locator.evaluate((node) => node === document.activeElement)) return;
    await page.keyboard.press(key);
  }
  assert.fail(`${locator} does not get the focus by ${key}`);
}
