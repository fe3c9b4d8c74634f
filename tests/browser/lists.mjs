// An operator reads the lists of tasks and streams while others work: what is shown changes where it stands, what is new
// waits until it is asked for, and nothing is missed between a page and its stream.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { journey } from "./visit.mjs";

const interzone = (...words) => execFileSync(process.env.INTERZONE_TEST_BINARY, words, { encoding: "utf8" });
const task = (...words) => JSON.parse(interzone("--output", "json", "task", "create", ...words)).taskId;

await journey(async ({ said, open, look, forgive }) => {
  const page = await open(said.console);
  await page.waitForURL(/\/console$/);
  const rows = page.locator("#list tbody tr[data-id]");
  const state = (id, word) => page.locator(`tr[data-id="${id}"] .badge`, { hasText: word });
  const shown = () => rows.evaluateAll((all) => all.map((row) => row.dataset.id));
  const at = (address) => page.goto(`${said.url}/console${address}`);

  // Nothing is there that could be moved, so the first is shown by itself.
  await at("/tasks?state=working");
  await page.locator(".none", { hasText: "No matching tasks." }).waitFor();
  const long = task("wait 300");
  await state(long, "Working").waitFor();

  // What is new is offered, and stays offered once, however often it changes.
  await at("/tasks");
  await state(long, "Working").waitFor();
  const before = await shown();
  const [height] = await Promise.all([rows.first().evaluate((row) => row.getBoundingClientRect().top)]);
  const short = task("wait 2");
  const newer = page.locator("#newer");
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();
  const told = task("echo told");
  await newer.filter({ hasText: "Show 2 newer" }).waitFor();
  assert.deepEqual(await shown(), before, "no row has come");
  assert.equal(await rows.first().evaluate((row) => row.getBoundingClientRect().top), height, "none has moved");

  // What is shown changes in place.
  interzone("task", "cancel", long);
  await state(long, "Canceled").waitFor();
  assert.deepEqual(await shown(), before);
  await look(page, "console-list");
  await newer.focus();
  await page.keyboard.press("Enter");
  await state(told, "Completed").waitFor();
  await newer.waitFor({ state: "hidden" });
  await page.locator("#list:focus").waitFor();
  await state(short, "Completed").waitFor();
  assert.equal((await shown()).length, 3, "each once");

  // Of a list of some, only those count. An owner has a name.
  const named = new URLSearchParams({ state: "canceled", owner: "INTERZONE UP" });
  await at(`/tasks?${named}`);
  assert.deepEqual(await shown(), [long]);
  const other = task("wait 300");
  task("echo nothing to see here");
  interzone("task", "cancel", other);
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();

  // What changes between a page and its stream is told all the same.
  for (const [room, place] of [["", "table[data-live=tasks]"], ["/tasks", "#list"]]) {
    const between = task("wait 300");
    // Without its stream a page stays as it was made, so the work must have begun by then.
    await at("/tasks");
    await state(between, "Working").waitFor();
    let go;
    const held = new Promise((done) => { go = done; });
    await page.route("**/console/events?*", async (route) => {
      await held;
      await route.continue();
    });
    await at(room);
    await page.locator(`${place} tr[data-id="${between}"] .badge`, { hasText: "Working" }).waitFor();
    interzone("task", "cancel", between);
    const late = room && task("echo late");
    go();
    await page.locator(`${place} tr[data-id="${between}"] .badge`, { hasText: "Canceled" }).waitFor();
    if (late) await newer.filter({ hasText: "Show 1 newer" }).waitFor();
    assert.equal(await page.locator(`tr[data-id="${between}"]`).count(), 1);
    await page.unroute("**/console/events?*");
  }

  // The list of streams does the same.
  const stream = () => interzone("stream", "start").trim();
  await at("/streams");
  await page.locator(".none", { hasText: "No streams." }).waitFor();
  const quiet = stream();
  await state(quiet, "Active").waitFor();
  const next = stream();
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();
  assert.deepEqual(await shown(), [quiet]);
  interzone("stream", "end", quiet);
  await state(quiet, "Closed").waitFor();
  await newer.click();
  await state(next, "Active").waitFor();
  assert.deepEqual(await shown(), [next], "what has ended is in the other list");
  await at("/streams?closed=1");
  assert.deepEqual(await shown(), [quiet]);
  interzone("stream", "end", next);
  await newer.filter({ hasText: "Show 1 newer" }).waitFor();

  // A page that has slept for too long looks again by itself, and moves nothing either.
  const slept = task("wait 300");
  await at("/tasks");
  await state(slept, "Working").waitFor();
  await page.route("**/console/events?*", (route) => {
    const address = new URL(route.request().url());
    address.searchParams.set("from", "999999999");
    return route.continue({ url: address.href });
  });
  const rested = await shown();
  await page.evaluate(() => dispatchEvent(new Event("pagehide")));
  interzone("task", "cancel", slept);
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await state(slept, "Canceled").waitFor();
  await newer.filter({ hasText: "Show newer" }).waitFor();
  assert.deepEqual(await shown(), rested);

  // A story says who called by the name that the lists have, and a file's name once.
  const made = task("file csv name,amount");
  await at(`/tasks/${made}`);
  await page.locator("h1 .badge", { hasText: "Completed" }).waitFor();
  const caller = page.locator("table.requests td[data-label=Caller]").first();
  assert.equal(await caller.textContent(), "interzone up");
  assert.match(await caller.getAttribute("title"), /^client-/);
  const names = await page.locator(".artifacts").textContent();
  assert.equal(names.split(/demo-[\w-]*\.csv/).length, 2, names);
  const took = await page.locator(".bar", { hasText: "tasks.create" }).locator(".took").textContent();
  const pair = page.locator("table.requests tr", { hasText: "tasks.create" }).locator("[data-label=Took]");
  assert.equal(await pair.textContent(), took);

  // Whoever signs out elsewhere sees so here, and not what was true before.
  forgive(/401/);
  await page.unroute("**/console/events?*");
  await at("/tasks");
  const elsewhere = await page.context().newPage();
  await elsewhere.goto(`${said.url}/console/agents`);
  await elsewhere.locator("button", { hasText: "Sign out" }).click();
  await page.locator("h1", { hasText: "Sign in" }).waitFor();
});
