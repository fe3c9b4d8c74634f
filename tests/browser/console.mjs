// Console: sign in with the link of `interzone up`, live overview, task page with its file, cancellation, and Slack
// conversations with feedback. Uses the keyboard where it matters.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { runTest } from "./harness.mjs";

const interzone = (...args) => execFileSync(process.env.INTERZONE_TEST_BINARY, args, { encoding: "utf8" });
const createTask = (text) => JSON.parse(interzone("--output", "json", "task", "create", text)).taskId;

await runTest(async ({ startup, open, checkPage }) => {
  const page = await open(startup.console);
  await page.waitForURL(/\/console$/);
  await page.locator("h1", { hasText: "Overview" }).waitFor();

  // A new task and its completion are shown without a reload.
  const liveTasks = page.locator("table[data-live=tasks] tbody");
  const longTask = createTask("wait 300");
  await liveTasks.locator(`tr[data-id="${longTask}"] .badge`, { hasText: "Working" }).waitFor();
  await page.locator("[data-count=working]", { hasText: "1" }).waitFor();
  const fileTask = createTask("file csv name,amount");
  await liveTasks.locator(`tr[data-id="${fileTask}"] .badge`, { hasText: "Completed" }).waitFor();
  await checkPage(page, "console-overview");

  // At most four windows of a session are live. The oldest stops, and resumes when it gets the focus.
  const eventStream = (event) => page.waitForEvent(event, (request) => request.url().includes("/console/events?"));
  const streamEnded = Promise.any([eventStream("requestfinished"), eventStream("requestfailed")]);
  const windows = [];
  for (let number = 0; number < 4; number += 1) {
    windows.push(await page.context().newPage());
    await windows.at(-1).goto(`${startup.url}/console`);
  }
  await streamEnded;
  const lateTask = createTask("echo late");
  await windows.at(-1).locator(`table[data-live=tasks] tr[data-id="${lateTask}"]`).waitFor();
  assert.equal(await liveTasks.locator(`tr[data-id="${lateTask}"]`).count(), 0, "the oldest window still updates");
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await liveTasks.locator(`tr[data-id="${lateTask}"]`).waitFor();
  for (const window of windows) await window.close();

  // By keyboard: skip the navigation, focus the search, open the task by its id.
  await page.reload();
  await page.keyboard.press("Tab");
  await page.locator(".skip:focus").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.locator("input[type=search]:focus").waitFor();
  await page.keyboard.type(fileTask);
  await page.keyboard.press("Enter");
  await page.locator("h1 .badge", { hasText: "Completed" }).waitFor();
  assert.equal(new URL(page.url()).pathname, `/console/tasks/${fileTask}`);
  assert.ok(await page.locator(".waterfall .bar").count() >= 2);
  const requests = page.locator("table.requests tbody tr");
  await requests.filter({ hasText: "tasks.create" }).first().waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.locator(".artifacts a", { hasText: "Download" }).first().click(),
  ]);
  assert.match(file.suggestedFilename(), /\.csv$/);
  assert.match(readFileSync(await file.path(), "utf8"), /name,amount/);
  await page.locator(".artifacts summary", { hasText: "Preview" }).click();
  await page.locator(".artifacts pre", { hasText: "name,amount" }).waitFor();
  await checkPage(page, "console-task");

  // Cancellation needs a confirmation, and the page shows the new state.
  await page.goto(`${startup.url}/console/tasks/${longTask}`);
  await page.locator(".ask > summary").focus();
  await page.keyboard.press("Enter");
  await page.locator("button.danger").focus();
  await page.keyboard.press("Enter");
  await page.locator("h1 .badge", { hasText: "Canceled" }).waitFor();

  // A Slack conversation and its feedback.
  const perform = async (act) => {
    const url = new URL("/playground/acts", startup.chat);
    const response = await fetch(url, { method: "POST", body: JSON.stringify(act) });
    assert.equal(response.status, 200);
  };
  const chat = await open(startup.chat);
  await perform({ act: "post", user: "U0ALEX", channel: "D0ALEX", text: "echo of use?" });
  const feedbackValue = async () => {
    const state = await (await fetch(new URL("/playground/state", startup.chat))).text();
    return state.match(/good\/[0-9a-f-]{36}/)?.[0];
  };
  await chat.locator("body").waitFor();
  let value = await feedbackValue();
  while (!value) value = await feedbackValue();
  const state = await (await fetch(new URL("/playground/state", startup.chat))).json();
  await perform({
    act: "press", user: "U0ALEX", channel: "D0ALEX", ts: findTs(state, value),
    action_id: "interzone_feedback", value,
  });
  const conversations = `${startup.url}/console/conversations`;
  await page.goto(conversations);
  while (!(await page.locator("tbody .badge", { hasText: /^useful$/ }).count())) await page.goto(conversations);
  await checkPage(page, "console-conversations");
  await page.locator("tbody a.id").first().click();
  await page.locator(".feedback", { hasText: "U0ALEX" }).waitFor();
  await page.locator(".content", { hasText: "echo of use?" }).waitFor();
  await checkPage(page, "console-conversation");

  await page.locator("button", { hasText: "Sign out" }).click();
  await page.locator("h1", { hasText: "Sign in" }).waitFor();
});

/** Returns the `ts` of the message that has a button with this value. */
function findTs(state, value) {
  let found;
  JSON.stringify(state, (_, member) => {
    if (member?.ts && member.blocks && JSON.stringify(member.blocks).includes(value)) found = member.ts;
    return member;
  });
  return found;
}
