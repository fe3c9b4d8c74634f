// Live lists of tasks and streams in the console: rows are updated in place, new rows are added on request, and no
// change is missed between loading a page and opening its event stream.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { runTest } from "./harness.mjs";

const interzone = (...args) => execFileSync(process.env.INTERZONE_TEST_BINARY, args, { encoding: "utf8" });
const createTask = (text) => JSON.parse(interzone("--output", "json", "task", "create", text)).taskId;

await runTest(async ({ startup, open, checkPage, allowErrors }) => {
  const page = await open(startup.console);
  await page.waitForURL(/\/console$/);
  const rows = page.locator("#list tbody tr[data-id]");
  const state = (id, label) => page.locator(`tr[data-id="${id}"] .badge`, { hasText: label });
  const rowIds = () => rows.evaluateAll((nodes) => nodes.map((row) => row.dataset.id));
  const goto = (path) => page.goto(`${startup.url}/console${path}`);

  // The first row of an empty list is shown at once, since no row has to move.
  await goto("/tasks?state=working");
  await page.locator(".none", { hasText: "No matching tasks." }).waitFor();
  const longTask = createTask("wait 300");
  await state(longTask, "Working").waitFor();

  // New tasks are counted once in the button, however often they change.
  await goto("/tasks");
  await state(longTask, "Working").waitFor();
  const idsBefore = await rowIds();
  const top = await rows.first().evaluate((row) => row.getBoundingClientRect().top);
  const slowTask = createTask("wait 2");
  const newer = page.locator("#newer");
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();
  const shortTask = createTask("echo done");
  await newer.filter({ hasText: "Show 2 newer" }).waitFor();
  assert.deepEqual(await rowIds(), idsBefore, "a row was added");
  assert.equal(await rows.first().evaluate((row) => row.getBoundingClientRect().top), top, "a row has moved");

  // Rows are updated in place.
  interzone("task", "cancel", longTask);
  await state(longTask, "Canceled").waitFor();
  assert.deepEqual(await rowIds(), idsBefore);
  await checkPage(page, "console-list");
  await newer.focus();
  await page.keyboard.press("Enter");
  await state(shortTask, "Completed").waitFor();
  await newer.waitFor({ state: "hidden" });
  await page.locator("#list:focus").waitFor();
  await state(slowTask, "Completed").waitFor();
  assert.equal((await rowIds()).length, 3, "each task has one row");

  // Only tasks that match the filter are counted. Owners are found by name.
  const filter = new URLSearchParams({ state: "canceled", owner: "INTERZONE UP" });
  await goto(`/tasks?${filter}`);
  assert.deepEqual(await rowIds(), [longTask]);
  const other = createTask("wait 300");
  createTask("echo nothing to see here");
  interzone("task", "cancel", other);
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();

  // Changes between loading the page and opening its event stream are shown.
  for (const [path, list] of [["", "table[data-live=tasks]"], ["/tasks", "#list"]]) {
    const changed = createTask("wait 300");
    // Without its event stream the page is not updated, so the task must be working when it is loaded.
    await goto("/tasks");
    await state(changed, "Working").waitFor();
    let release;
    const released = new Promise((resolve) => { release = resolve; });
    await page.route("**/console/events?*", async (route) => {
      await released;
      await route.continue();
    });
    await goto(path);
    await page.locator(`${list} tr[data-id="${changed}"] .badge`, { hasText: "Working" }).waitFor();
    interzone("task", "cancel", changed);
    const late = path && createTask("echo late");
    release();
    await page.locator(`${list} tr[data-id="${changed}"] .badge`, { hasText: "Canceled" }).waitFor();
    if (late) await newer.filter({ hasText: "Show 1 newer" }).waitFor();
    assert.equal(await page.locator(`tr[data-id="${changed}"]`).count(), 1);
    await page.unroute("**/console/events?*");
  }

  // The same for the list of streams.
  const startStream = () => interzone("stream", "start").trim();
  await goto("/streams");
  await page.locator(".none", { hasText: "No streams." }).waitFor();
  const first = startStream();
  await state(first, "Active").waitFor();
  const second = startStream();
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();
  assert.deepEqual(await rowIds(), [first]);
  interzone("stream", "end", first);
  await state(first, "Closed").waitFor();
  await newer.click();
  await state(second, "Active").waitFor();
  assert.deepEqual(await rowIds(), [second], "a closed stream is in the list of active streams");
  await goto("/streams?closed=1");
  assert.deepEqual(await rowIds(), [first]);
  interzone("stream", "end", second);
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();

  // A page that missed too many events reloads its data, without moving rows.
  const missed = createTask("wait 300");
  await goto("/tasks");
  await state(missed, "Working").waitFor();
  await page.route("**/console/events?*", (route) => {
    const address = new URL(route.request().url());
    address.searchParams.set("from", "999999999");
    return route.continue({ url: address.href });
  });
  const idsOffline = await rowIds();
  await page.evaluate(() => dispatchEvent(new Event("pagehide")));
  interzone("task", "cancel", missed);
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await state(missed, "Canceled").waitFor();
  await newer.filter({ hasText: "Show newer" }).waitFor();
  assert.deepEqual(await rowIds(), idsOffline);

  // The page of a task shows the name of the caller as the lists do, and each file name once.
  const fileTask = createTask("file csv name,amount");
  await goto(`/tasks/${fileTask}`);
  await page.locator("h1 .badge", { hasText: "Completed" }).waitFor();
  const caller = page.locator("table.requests td[data-label=Caller]").first();
  assert.equal(await caller.textContent(), "interzone up");
  assert.match(await caller.getAttribute("title"), /^client-/);
  const names = await page.locator(".artifacts").textContent();
  assert.equal(names.split(/demo-[\w-]*\.csv/).length, 2, names);
  const took = await page.locator(".bar", { hasText: "tasks.create" }).locator(".took").textContent();
  const duration = page.locator("table.requests tr", { hasText: "tasks.create" }).locator("[data-label=Took]");
  assert.equal(await duration.textContent(), took);

  // After signing out in another window, the page shows the sign-in page.
  allowErrors(/401/);
  await page.unroute("**/console/events?*");
  await goto("/tasks");
  const otherWindow = await page.context().newPage();
  await otherWindow.goto(`${startup.url}/console/agents`);
  await otherWindow.locator("button", { hasText: "Sign out" }).click();
  await page.locator("h1", { hasText: "Sign in" }).waitFor();
});
