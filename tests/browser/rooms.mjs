// Every room of the console, narrow, of middle size and wide, in the dark: nothing is wider than the screen, and axe finds
// nothing serious.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { journey } from "./visit.mjs";

const interzone = (...words) => execFileSync(process.env.INTERZONE_TEST_BINARY, words, { encoding: "utf8" });

await journey(async ({ said, open, look }) => {
  interzone("ask", "file csv name,amount");
  interzone("stream", "start");
  const tasks = JSON.parse(interzone("--output", "json", "task", "list")).tasks;
  const story = `/tasks/${tasks[0].taskId}`;
  const act = { act: "post", user: "U0ALEX", channel: "D0ALEX", text: "fail for the list of errors" };
  await fetch(new URL("/playground/acts", said.chat), { method: "POST", body: JSON.stringify(act) });
  const page = await open(said.console, { width: 360, height: 740, dark: true });
  await page.waitForURL(/\/console$/);
  const failed = page.locator("table[data-live=tasks] .badge", { hasText: "Failed" });
  await failed.first().waitFor();
  const cookies = await page.context().cookies();
  const wide = await open(`${said.url}/console/login`, { width: 1280, height: 860, dark: true });
  await wide.context().addCookies(cookies);
  const middle = await open(`${said.url}/console/login`, { width: 1024, height: 768, dark: true });
  await middle.context().addCookies(cookies);
  const rooms = ["", "/tasks", story, "/conversations", "/streams", "/topics", "/dead-letters", "/agents", "/limits",
    "/search?q=U0ALEX"];
  for (const [shape, window] of [["narrow", page], ["middle", middle], ["wide", wide]]) {
    for (const room of rooms) {
      await window.goto(`${said.url}/console${room}`);
      await window.locator("h1").waitFor();
      const over = await window.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${room} is ${over} px too wide on a ${shape} screen`);
      const cut = await window.locator(".scroll").evaluateAll((all) => all.some((one) => one.scrollWidth > one.clientWidth));
      assert.ok(!cut, `a table of ${room} is cut off on a ${shape} screen`);
      const owners = await window.locator("th", { hasText: /^(Owner|Caller)$/ }).evaluateAll((all) =>
        all.map((one) => one.getBoundingClientRect().width));
      if (shape !== "narrow") assert.ok(owners.every((width) => width > 100), `${room}: owners have ${owners} px`);
      const away = await window.locator(".top nav a").evaluateAll((all) => all.filter((one) => {
        const { left, right } = one.getBoundingClientRect();
        return left < 0 || right > innerWidth;
      }).length);
      assert.equal(away, 0, `rooms that are not to be seen from ${room} on a ${shape} screen`);
      const name = room === story ? "-story" : room.replace(/\W+/g, "-") || "-overview";
      await look(window, `console${name}-${shape}-dark`);
    }
  }
});
