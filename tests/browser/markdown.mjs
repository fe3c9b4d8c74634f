// Markdown rendering in the playground: correct HTML, and linear time for hostile text with thousands of unclosed
// markers. With quadratic time, this test would exceed its timeout.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

const LONG = 40_000;

const MARKDOWN = [
  ["**bold** *it* ~~no~~ `code`", "<p><strong>bold</strong> <em>it</em> <s>no</s> <code>code</code></p>"],
  ["***both*** __b *i*__ \\*plain\\*", "<p><strong><em>both</em></strong> <strong>b <em>i</em></strong> *plain*</p>"],
  ["snake_case_name 2 * 3 * 4 ** 5", "<p>snake_case_name 2 * 3 * 4 ** 5</p>"],
  ["``a ` b`` and ` `", "<p><code>a ` b</code> and <code> </code></p>"],
  ["[a **b**](javascript:x) [c](mailto:a@b.c)", /^<p>\[a \*\*b\*\*\]\(javascript:x\) <a href="mailto:a@b.c"[^>]*>c<\/a><\/p>$/],
  ["# One ##\n- a\n- *b*", "<h3>One</h3><ul><li>a</li><li><em>b</em></li></ul>"],
  ["|a|b|\n| - | :-: |\n|1|2|", /^<div .*<th scope="col">a<\/th>.*<td class="middle">2<\/td>.*<\/div>$/],
];

const MRKDWN = [
  ["*bold* _it_ ~no~ `a &lt; b`", "<p><strong>bold</strong> <em>it</em> <s>no</s> <code>a &lt; b</code></p>"],
  ["<@U1> <#C1|room> <!here> a*b*c", "<p><span class=\"at\">@you</span> <span class=\"at\">#room</span> <span class=\"at\">@here</span> a*b*c</p>"],
  ["<javascript:x|y> <mailto:a@b.c|z>", /^<p>&lt;javascript:x\|y&gt; <a href="mailto:a@b.c"[^>]*>z<\/a><\/p>$/],
];

const HOSTILE = [
  "~~b *a* ", "***a **b *c __d _e ~~f ", "`a ``b ```c ", "`", "[", "[[[a](", "](", "[a](b \"", "<http://", "<http://a ",
  "<@A|", "<!here|", "```a` ", "\\`", "**a ~~b~~ ", "*a* _b_ ~c~ ", "# ", "#", "- ", "> ", "| -", "|\n", " ", "\n- ",
];

await runTest(async ({ startup, open }) => {
  const page = await open(startup.chat);
  await page.locator("#main-input").waitFor();
  const render = (kind, texts) => page.evaluate(async ([kind, texts]) => {
    const toNodes = (await import("/markdown.js"))[kind];
    return texts.map((text) => {
      const container = document.createElement("div");
      container.append(...toNodes(text, { user: () => "you", channel: () => "there" }));
      return container.innerHTML;
    });
  }, [kind, texts]);
  for (const [kind, cases] of [["markdown", MARKDOWN], ["mrkdwn", MRKDWN]]) {
    const rendered = await render(kind, cases.map(([text]) => text));
    for (const [index, [text, expected]] of cases.entries()) {
      if (typeof expected === "string") assert.equal(rendered[index], expected, text);
      else assert.match(rendered[index], expected, text);
    }
    for (const marker of HOSTILE) {
      // With and without a heading or code marker first, and with ends that almost close the marker.
      for (const [prefix, suffix] of [["", ""], ["# ", "x"], ["` ", " >"], ["|\n", "\" x"]]) {
        const text = prefix + marker.repeat(LONG / marker.length) + `${suffix}\n\nto the end`;
        const [html] = await render(kind, [text]);
        assert.match(html, /to the end/, `${kind} of ${prefix}${marker}`);
      }
    }
  }

  // The same in a posted message.
  await page.locator("#channels button", { hasText: "general" }).click();
  const text = `${"*b ~a~ ".repeat(5_000)}to the end`;
  const status = await page.evaluate(async (text) => (await fetch("/playground/acts", {
    method: "POST",
    body: JSON.stringify({ act: "post", user: "U0ALEX", channel: "C0GENERAL", text }),
  })).status, text);
  assert.equal(status, 200);
  await page.locator("#main-list .message", { hasText: "to the end" }).waitFor();
});
