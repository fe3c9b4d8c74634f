// What is written with marks looks as it was meant; and what is written to hold up the page, with thousands of
// marks that open and never close, is drawn as anything else. If the page looked ahead from every one of them,
// this journey would be over before it.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

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

await journey(async ({ said, open }) => {
  const page = await open(said.chat);
  await page.locator("#main-input").waitFor();
  const drawn = (kind, texts) => page.evaluate(async ([kind, texts]) => {
    const draw = (await import("/markdown.js"))[kind];
    return texts.map((text) => {
      const place = document.createElement("div");
      place.append(...draw(text, { user: () => "you", channel: () => "there" }));
      return place.innerHTML;
    });
  }, [kind, texts]);
  for (const [kind, cases] of [["markdown", MARKDOWN], ["mrkdwn", MRKDWN]]) {
    const looks = await drawn(kind, cases.map(([text]) => text));
    for (const [at, [text, wanted]] of cases.entries()) {
      if (typeof wanted === "string") assert.equal(looks[at], wanted, text);
      else assert.match(looks[at], wanted, text);
    }
    for (const sign of HOSTILE) {
      // Where the first line is a heading or a fence, and where the end would fit if it were not for a letter.
      for (const [before, behind] of [["", ""], ["# ", "x"], ["` ", " >"], ["|\n", "\" x"]]) {
        const text = before + sign.repeat(LONG / sign.length) + `${behind}\n\nto the end`;
        const [look] = await drawn(kind, [text]);
        assert.match(look, /to the end/, `${kind} of ${before}${sign}`);
      }
    }
  }

  // The same on the way that everything goes.
  await page.locator("#channels button", { hasText: "general" }).click();
  const text = `${"*b ~a~ ".repeat(5_000)}to the end`;
  const status = await page.evaluate(async (text) => (await fetch("/playground/acts", {
    method: "POST",
    body: JSON.stringify({ act: "post", user: "U0ALEX", channel: "C0GENERAL", text }),
  })).status, text);
  assert.equal(status, 200);
  await page.locator("#main-list .message", { hasText: "to the end" }).waitFor();
});
