// An operator comes by the link that `interzone up` prints: an overview that keeps up, one task's whole story
// with its file, calling one off, and what people in Slack think. By keyboard where it matters.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { journey } from "./visit.mjs";

const interzone = (...words) => execFileSync(process.env.INTERZONE_TEST_BINARY, words, { encoding: "utf8" });
const task = (...words) => JSON.parse(interzone("--output", "json", "task", "create", ...words)).taskId;

await journey(async ({ said, open, look }) => {
  const page = await open(said.console);
  await page.waitForURL(/\/console$/);
  await page.locator("h1", { hasText: "Overview" }).waitFor();

  // What is begun while somebody looks is there without a reload, and so is its end.
  const live = page.locator("table[data-live=tasks] tbody");
  const long = task("wait 300");
  await live.locator(`tr[data-id="${long}"] .badge`, { hasText: "Working" }).waitFor();
  await page.locator("[data-count=working]", { hasText: "1" }).waitFor();
  const asked = task("file csv name,amount");
  await live.locator(`tr[data-id="${asked}"] .badge`, { hasText: "Completed" }).waitFor();
  await look(page, "console-overview");

  // Of many windows the newest are told. One that gave way is told again when somebody comes back to it.
  const over = (event) => page.waitForEvent(event, (request) => request.url().includes("/console/events?"));
  const aside = Promise.any([over("requestfinished"), over("requestfailed")]);
  const windows = [];
  for (let number = 0; number < 4; number += 1) {
    windows.push(await page.context().newPage());
    await windows.at(-1).goto(`${said.url}/console`);
  }
  await aside;
  const late = task("echo late");
  await windows.at(-1).locator(`table[data-live=tasks] tr[data-id="${late}"]`).waitFor();
  assert.equal(await live.locator(`tr[data-id="${late}"]`).count(), 0, "it gave way");
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await live.locator(`tr[data-id="${late}"]`).waitFor();
  for (const one of windows) await one.close();

  // By keyboard: past the navigation, to the search, and to the task by its id.
  await page.reload();
  await page.keyboard.press("Tab");
  await page.locator(".skip:focus").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.locator("input[type=search]:focus").waitFor();
  await page.keyboard.type(asked);
  await page.keyboard.press("Enter");
  await page.locator("h1 .badge", { hasText: "Completed" }).waitFor();
  assert.equal(new URL(page.url()).pathname, `/console/tasks/${asked}`);
  assert.ok(await page.locator(".waterfall .bar").count() >= 2);
  const pairs = page.locator("table.requests tbody tr");
  await pairs.filter({ hasText: "tasks.create" }).first().waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.locator(".artifacts a", { hasText: "Download" }).first().click(),
  ]);
  assert.match(file.suggestedFilename(), /\.csv$/);
  assert.match(readFileSync(await file.path(), "utf8"), /name,amount/);
  await page.locator(".artifacts summary", { hasText: "Preview" }).click();
  await page.locator(".artifacts pre", { hasText: "name,amount" }).waitFor();
  await look(page, "console-story");

  // Calling off takes two presses, and the page says what came of it.
  await page.goto(`${said.url}/console/tasks/${long}`);
  await page.locator(".ask > summary").focus();
  await page.keyboard.press("Enter");
  await page.locator("button.danger").focus();
  await page.keyboard.press("Enter");
  await page.locator("h1 .badge", { hasText: "Canceled" }).waitFor();

  // What somebody in Slack asked, and what they think of it.
  const post = async (act) => {
    const answer = await fetch(new URL("/playground/acts", said.chat), { method: "POST", body: JSON.stringify(act) });
    assert.equal(answer.status, 200);
  };
  const chat = await open(said.chat);
  await post({ act: "post", user: "U0ALEX", channel: "D0ALEX", text: "echo of use?" });
  const thumbs = async () => {
    const state = await (await fetch(new URL("/playground/state", said.chat))).text();
    return state.match(/good\/[0-9a-f-]{36}/)?.[0];
  };
  await chat.locator("body").waitFor();
  let value = await thumbs();
  while (!value) value = await thumbs();
  const state = await (await fetch(new URL("/playground/state", said.chat))).json();
  await post({
    act: "press", user: "U0ALEX", channel: "D0ALEX", ts: stamp(state, value),
    action_id: "interzone_feedback", value,
  });
  const room = `${said.url}/console/conversations`;
  await page.goto(room);
  while (!(await page.locator("tbody .badge", { hasText: /^useful$/ }).count())) await page.goto(room);
  await look(page, "console-conversations");
  await page.locator("tbody a.id").first().click();
  await page.locator(".feedback", { hasText: "U0ALEX" }).waitFor();
  await page.locator(".content", { hasText: "echo of use?" }).waitFor();
  await look(page, "console-conversation");

  await page.locator("button", { hasText: "Sign out" }).click();
  await page.locator("h1", { hasText: "Sign in" }).waitFor();
});

/** When the message was posted whose buttons have a value. */
function stamp(state, value) {
  let found;
  JSON.stringify(state, (_, one) => {
    if (one?.ts && one.blocks && JSON.stringify(one.blocks).includes(value)) found = one.ts;
    return one;
  });
  return found;
}
