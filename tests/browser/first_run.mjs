// Somebody opens the page that `interzone up` names, takes what it proposes, sees the answer grow, says that
// it helped, and asks on in the thread. By keyboard alone.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look }) => {
  const page = await open(said.chat);
  const ideas = page.locator("#ideas button");
  await ideas.first().waitFor();
  await page.locator("#main-input:focus").waitFor();
  await look(page, "playground-first");
  await page.evaluate(remember);
  // Back from the box to what is proposed.
  const wanted = ideas.filter({ hasText: "stream 60" });
  await reach(page, wanted, "Shift+Tab");
  await page.keyboard.press("Enter");

  const thread = page.locator("#thread-list .message");
  const answer = thread.nth(1);
  const helpful = answer.getByRole("button", { name: "Helpful", exact: true });
  await helpful.waitFor();
  assert.equal(await page.locator(".streaming").count(), 0);
  assert.equal((await answer.locator(".body p").first().innerText()).split(/\s+/).length, 60);
  await page.locator("#halt").waitFor({ state: "hidden" });
  const { grown, stoppable } = await page.evaluate(() => globalThis.remembered);
  assert.ok(grown.length > 1, `it grew: ${grown}`);
  assert.ok(stoppable, "it could have been stopped");

  await page.locator("#thread-input:focus").waitFor();
  await reach(page, helpful, "Shift+Tab");
  await page.keyboard.press("Enter");
  await answer.locator("button[aria-pressed=true]").waitFor();
  assert.ok(await helpful.evaluate((node) => node === document.activeElement), "it keeps the focus");
  await look(page, "playground-streamed");

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

/** Notes in the page what was seen on the way, however short it stood there. */
function remember() {
  const seen = { grown: [], stoppable: false };
  globalThis.remembered = seen;
  new MutationObserver(() => {
    const length = document.querySelector("#thread-list .streaming .body")?.textContent.length ?? 0;
    if (length > (seen.grown.at(-1) ?? 0)) seen.grown.push(length);
    seen.stoppable ||= !document.getElementById("halt").hidden;
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
}

/** Presses a key until something has the focus. */
async function reach(page, locator, key) {
  for (let presses = 0; presses < 40; presses += 1) {
    if (await locator.evaluate((node) => node === document.activeElement)) return;
    await page.keyboard.press(key);
  }
  assert.fail(`${locator} is not reached by ${key}`);
}
