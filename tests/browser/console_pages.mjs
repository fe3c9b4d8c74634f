// All pages of the console at three widths, with the dark theme: nothing overflows, and axe finds nothing serious.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { runTest } from "./harness.mjs";

const interzone = (...args) => execFileSync(process.env.INTERZONE_TEST_BINARY, args, { encoding: "utf8" });

await runTest(async ({ startup, open, checkPage }) => {
  interzone("ask", "file csv name,amount");
  interzone("stream", "start");
  const tasks = JSON.parse(interzone("--output", "json", "task", "list")).tasks;
  const taskPath = `/tasks/${tasks[0].taskId}`;
  const act = { act: "post", user: "U0ALEX", channel: "D0ALEX", text: "fail for the list of errors" };
  await fetch(new URL("/playground/acts", startup.chat), { method: "POST", body: JSON.stringify(act) });
  const page = await open(startup.console, { width: 360, height: 740, dark: true });
  await page.waitForURL(/\/console$/);
  const failed = page.locator("table[data-live=tasks] .badge", { hasText: "Failed" });
  await failed.first().waitFor();
  const cookies = await page.context().cookies();
  const wide = await open(`${startup.url}/console/login`, { width: 1280, height: 860, dark: true });
  await wide.context().addCookies(cookies);
  const middle = await open(`${startup.url}/console/login`, { width: 1024, height: 768, dark: true });
  await middle.context().addCookies(cookies);
  const paths = ["", "/tasks", taskPath, "/conversations", "/streams", "/topics", "/dead-letters", "/agents", "/limits",
    "/search?q=U0ALEX"];
  for (const [size, window] of [["narrow", page], ["middle", middle], ["wide", wide]]) {
    for (const path of paths) {
      await window.goto(`${startup.url}/console${path}`);
      await window.locator("h1").waitFor();
      const overflow = await window.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${path} is ${overflow} px too wide on a ${size} screen`);
      const cut = await window.locator(".scroll").evaluateAll((nodes) =>
        nodes.some((node) => node.scrollWidth > node.clientWidth));
      assert.ok(!cut, `a table of ${path} is cut off on a ${size} screen`);
      const owners = await window.locator("th", { hasText: /^(Owner|Caller)$/ }).evaluateAll((nodes) =>
        nodes.map((node) => node.getBoundingClientRect().width));
      if (size !== "narrow") assert.ok(owners.every((width) => width > 100), `${path}: owner columns of ${owners} px`);
      const hidden = await window.locator(".top nav a").evaluateAll((nodes) => nodes.filter((node) => {
        const { left, right } = node.getBoundingClientRect();
        return left < 0 || right > innerWidth;
      }).length);
      assert.equal(hidden, 0, `navigation links are out of view on ${path} on a ${size} screen`);
      const name = path === taskPath ? "-task" : path.replace(/\W+/g, "-") || "-overview";
      await checkPage(window, `console${name}-${size}-dark`);
    }
  }
});
