// A page of somebody else's, in the same browser, tries to act in the workspace and to read what is there.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { journey } from "./visit.mjs";

const server = createServer((_, answer) => {
  answer.setHeader("content-type", "text/html; charset=utf-8");
  answer.end('<!doctype html><html lang="en"><title>Elsewhere</title><main><h1>Elsewhere</h1></main></html>');
});
server.listen(0, "127.0.0.1");
await once(server, "listening");

await journey(async ({ said, open, forgive }) => {
  forgive(/403|CORS|ERR_BLOCKED_BY_ORB|ERR_FAILED/);
  const chat = new URL(said.chat);
  const { port } = server.address();
  // Another port is another origin of the same site; another name of this machine is another site.
  for (const origin of [`http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
    const page = await open(origin, { also: origin });
    const act = JSON.stringify({ act: "post", user: "U0ALEX", channel: "D0ALEX", text: "help" });
    // A form needs no permission, and its text can be made to read as JSON.
    const posted = page.waitForResponse((answer) => answer.url().endsWith("/playground/acts"));
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
    assert.equal((await posted).status(), 403, `a form of ${origin}`);
    await page.waitForURL(/acts$/);
    await page.goto(origin);
    const seen = await page.evaluate(async (chat) => {
      const tries = {
        sent: () => fetch(`${chat}/playground/acts`, { method: "POST", mode: "no-cors", body: "{}" }),
        read: () => fetch(`${chat}/playground/state`),
        called: () => fetch(`${chat}/api/auth.test?token=xoxb-playground-bot`),
      };
      const got = {};
      for (const [name, attempt] of Object.entries(tries)) {
        got[name] = await attempt().then(async (answer) => answer.type + (await answer.text()), () => "nothing");
      }
      return got;
    }, chat.origin);
    assert.deepEqual(seen, { sent: "opaque", read: "nothing", called: "nothing" });
  }
  const state = await (await fetch(`${chat.origin}/playground/state`)).json();
  assert.deepEqual(state.messages, [], "nothing was said");
});
server.close();
