// A page of another origin cannot act in the playground or read from it.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { runTest } from "./harness.mjs";

const server = createServer((_, response) => {
  response.setHeader("content-type", "text/html; charset=utf-8");
  response.end('<!doctype html><html lang="en"><title>Other origin</title><main><h1>Other origin</h1></main></html>');
});
server.listen(0, "127.0.0.1");
await once(server, "listening");

await runTest(async ({ startup, open, allowErrors }) => {
  allowErrors(/403|CORS|ERR_BLOCKED_BY_ORB|ERR_FAILED/);
  const chat = new URL(startup.chat);
  const { port } = server.address();
  // Another port is another origin of the same site; another host name is another site.
  for (const origin of [`http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
    const page = await open(origin, { extraOrigin: origin });
    const act = JSON.stringify({ act: "post", user: "U0ALEX", channel: "D0ALEX", text: "help" });
    // A form can be submitted to any origin, and its text can be made valid JSON.
    const posted = page.waitForResponse((response) => response.url().endsWith("/playground/acts"));
    await page.evaluate(({ to, act }) => {
      const form = document.createElement("form");
      Object.assign(form, { method: "post", enctype: "text/plain", action: to, target: "_self" });
      const field = document.createElement("input");
      const [name, value] = [act.slice(0, -1) + ',"x":"', '"}'];
      Object.assign(field, { name, value });
      form.append(field);
      document.body.append(form);
      form.submit();
    }, { to: `${chat.origin}/playground/acts`, act });
    assert.equal((await posted).status(), 403, `form of ${origin}`);
    await page.waitForURL(/acts$/);
    await page.goto(origin);
    const results = await page.evaluate(async (chat) => {
      const attempts = {
        posted: () => fetch(`${chat}/playground/acts`, { method: "POST", mode: "no-cors", body: "{}" }),
        read: () => fetch(`${chat}/playground/state`),
        called: () => fetch(`${chat}/api/auth.test?token=xoxb-playground-bot`),
      };
      const results = {};
      for (const [name, attempt] of Object.entries(attempts)) {
        const read = async (response) => response.type + (await response.text());
        results[name] = await attempt().then(read, () => "failed");
      }
      return results;
    }, chat.origin);
    assert.deepEqual(results, { posted: "opaque", read: "failed", called: "failed" });
  }
  const state = await (await fetch(`${chat.origin}/playground/state`)).json();
  assert.deepEqual(state.messages, [], "a message was posted");
});
server.close();
