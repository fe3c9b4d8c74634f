// Converts text to DOM nodes: Markdown in answers, Slack markup in user messages. No string is parsed as HTML,
// and links lead to web or mail addresses only.

import { angled, fenced, linked, pair, pattern, scan, ticked } from "/scan.js";

const MOST_DEPTH = 8;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function link(address, content) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
  const made = element("a");
  made.href = url.href;
  made.rel = "noopener noreferrer nofollow";
  made.target = "_blank";
  if (typeof content === "string") made.textContent = content;
  else made.append(...content);
  return made;
}

// Inline Markdown syntax; the earliest match wins, then the longest.
const INLINE_SIGNS = /[`\[<*_~\\]|!\[|https?:\/\//g;
const INLINE = [
  { on: "`", is: ticked, as: (m) => [element("code", unpadded(m[1]))] },
  { on: "![", is: linked, as: (m, depth) => one(link(m[2], inline(m[1], depth)), m[0]) },
  { on: "<", is: angled(/<((?:https?:\/\/|mailto:)[^\s>]{1,2000})>/, /[>\s]/g), as: (m) => one(link(m[1], m[1]), m[0]) },
  { on: "h", is: pattern(/https?:\/\/[^\s<>"'`)\]、。」）]{1,2000}/), as: (m) => one(link(m[0], m[0]), m[0]) },
  { on: "*", is: pair("***", /(?<=\S)\*\*\*/g), as: (m, depth) => nested("strong", "em", m[1], depth) },
  { on: "*", is: pair("**", /(?<=\S)\*\*/g), as: (m, depth) => wrapped("strong", m[1], depth) },
  { on: "_", is: pair("__", /(?<=\S)__(?!\w)/g, /\w/), as: (m, depth) => wrapped("strong", m[1], depth) },
  { on: "~", is: pair("~~", /(?<=\S)~~/g), as: (m, depth) => wrapped("s", m[1], depth) },
  { on: "*", is: pattern(/\*(?=[^\s*])([^*\n]*?[^\s*])\*/), as: (m, depth) => wrapped("em", m[1], depth) },
  { on: "_", is: pattern(/_(?=[^\s_])([^_\n]*?[^\s_])_(?!\w)/, /\w/), as: (m, depth) => wrapped("em", m[1], depth) },
  { on: "\\", is: pattern(/\\([\\`*_{}\[\]()#+\-.!|~>])/), as: (m) => [m[1]] },
];

/** Removes one padding space on either side of inline code, as used for code that starts or ends with a backtick. */
function unpadded(code) {
  return code.startsWith(" ") && code.endsWith(" ") && code.trim() ? code.slice(1, -1) : code;
}

function one(made, otherwise) {
  return [made ?? otherwise];
}

function wrapped(name, text, depth) {
  const made = element(name);
  made.append(...inline(text, depth));
  return [made];
}

function nested(outer, inner, text, depth) {
  const made = element(outer);
  made.append(...wrapped(inner, text, depth));
  return [made];
}

function inline(text, depth = 0) {
  if (depth > MOST_DEPTH) return [text];
  return scan(text, INLINE_SIGNS, INLINE, (word) => word, depth + 1);
}

/** Keeps line ends as line breaks. */
function broken(nodes) {
  const made = [];
  for (const node of nodes) {
    if (typeof node !== "string") {
      made.push(node);
      continue;
    }
    node.split("\n").forEach((line, at) => {
      if (at) made.push(element("br"));
      made.push(line);
    });
  }
  return made;
}

export function fence(code, kind) {
  const made = element("div", undefined, "fence");
  const pre = element("pre");
  pre.tabIndex = 0;
  pre.append(element("code", code));
  if (kind) made.append(element("span", kind, "kind"));
  made.append(pre);
  return made;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(lines) {
  const made = element("table");
  const sides = cells(lines[1]).map((cell) => {
    if (/^:-+:$/.test(cell)) return "middle";
    return /^-+:$/.test(cell) ? "right" : "";
  });
  const row = (line, name) => {
    const tr = element("tr");
    cells(line).slice(0, sides.length).forEach((cell, at) => {
      const made = element(name, undefined, sides[at]);
      if (name === "th") made.scope = "col";
      made.append(...inline(cell));
      tr.append(made);
    });
    return tr;
  };
  const head = element("thead");
  head.append(row(lines[0], "th"));
  const body = element("tbody");
  body.append(...lines.slice(2).map((line) => row(line, "td")));
  made.append(head, body);
  const box = element("div", undefined, "table");
  box.tabIndex = 0;
  box.append(made);
  return box;
}

const FENCE = /^(\s{0,3})(`{3,}|~{3,})\s*([^`\s]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/s;
const RULER = /^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*)$/s;
const DIVIDER = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/;

function divides(line) {
  return DIVIDER.test(line.trim());
}

/** Removes the closing signs of a heading. */
function unclosed(heading) {
  const text = heading.trimEnd();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  return text.slice(0, end).trimEnd();
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const ordered = /\d/.test(first[2]);
  const made = element(ordered ? "ol" : "ul");
  if (ordered) made.start = parseInt(first[2], 10);
  const indent = first[1].length;
  let item = null;
  const items = [];
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent + 1) {
      item = [found[3]];
      items.push(item);
    } else if (item) {
      item.push(line.slice(Math.min(indent + 2, line.search(/\S|$/))));
    }
  }
  for (const item of items) {
    const li = element("li");
    const task = /^\[([ xX])\]\s+/.exec(item[0]);
    if (task) {
      li.append(task[1] === " " ? "☐ " : "☑ ");
      item[0] = item[0].slice(task[0].length);
      li.className = "task";
    }
    const nodes = blocks(item, depth + 1);
    // A short item is a line, not a paragraph.
    if (nodes[0]?.tagName === "P") nodes.splice(0, 1, ...nodes[0].childNodes);
    li.append(...nodes);
    made.append(li);
  }
  return made;
}

function blocks(lines, depth = 0) {
  const nodes = [];
  let at = 0;
  const begins = (line, next) =>
    FENCE.test(line) || HEADING.test(line) || RULER.test(line) || ITEM.test(line) ||
    /^\s{0,3}>/.test(line) || (line.includes("|") && next !== undefined && divides(next));
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
      continue;
    }
    const fenced = FENCE.exec(line);
    if (fenced) {
      const end = new RegExp(`^\\s{0,3}${fenced[2][0]}{${fenced[2].length},}\\s*$`);
      const code = [];
      at += 1;
      while (at < lines.length && !end.test(lines[at])) code.push(lines[at++]);
      at += 1;
      nodes.push(fence(code.join("\n"), fenced[3]));
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      const made = element(`h${Math.min(6, heading[1].length - highest + 3)}`);
      made.append(...inline(unclosed(heading[2])));
      nodes.push(made);
      at += 1;
      continue;
    }
    if (RULER.test(line)) {
      nodes.push(element("hr"));
      at += 1;
      continue;
    }
    const from = at;
    if (/^\s{0,3}>/.test(line) && depth < MOST_DEPTH) {
      while (at < lines.length && /^\s{0,3}>/.test(lines[at])) at += 1;
      const quote = element("blockquote");
      const inner = lines.slice(from, at).map((one) => one.replace(/^\s{0,3}> ?/, ""));
      quote.append(...blocks(inner, depth + 1));
      nodes.push(quote);
      continue;
    }
    if (ITEM.test(line) && depth < MOST_DEPTH) {
      at += 1;
      while (at < lines.length && (ITEM.test(lines[at]) || /^\s+\S/.test(lines[at]) ||
        (!lines[at].trim() && ITEM.test(lines[at + 1] ?? "")))) at += 1;
      nodes.push(list(lines.slice(from, at), depth));
      continue;
    }
    if (line.includes("|") && divides(lines[at + 1] ?? "")) {
      at += 2;
      while (at < lines.length && lines[at].includes("|")) at += 1;
      nodes.push(table(lines.slice(from, at)));
      continue;
    }
    at += 1;
    while (at < lines.length && lines[at].trim() && !begins(lines[at], lines[at + 1])) at += 1;
    const paragraph = element("p");
    paragraph.append(...broken(inline(lines.slice(from, at).join("\n"))));
    nodes.push(paragraph);
  }
  return nodes;
}

// The page has its own headings, so the top heading of a text is level three.
let highest = 1;

/** Renders Markdown. */
export function markdown(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const levels = lines.map((line) => HEADING.exec(line)?.[1].length ?? 6);
  highest = Math.min(...levels);
  return blocks(lines);
}

function plain(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

const MARKS_SIGNS = /[`<*_~]/g;
const MARKS = [
  { on: "`", is: fenced, as: (m) => [fence(plain(m[1]).replace(/^\n|\n$/g, ""))] },
  { on: "`", is: pattern(/`([^`\n]+)`/), as: (m) => [element("code", plain(m[1]))] },
  { on: "<", is: angled(/<@([A-Z0-9]+)(?:\|[^>]*)?>/, />/g), as: (m, names) => [element("span", `@${names.user(m[1])}`, "at")] },
  { on: "<", is: angled(/<#([A-Z0-9]+)(?:\|([^>]*))?>/, />/g), as: (m, names) => [element("span", `#${m[2] || names.channel(m[1])}`, "at")] },
  { on: "<", is: angled(/<!(here|channel|everyone)(?:\|[^>]*)?>/, />/g), as: (m) => [element("span", `@${m[1]}`, "at")] },
  { on: "<", is: angled(/<((?:https?:\/\/|mailto:)[^|>\s]+)(?:\|([^>]*))?>/, /[|>\s]/g), as: (m) => one(link(plain(m[1]), plain(m[2] || m[1])), plain(m[0])) },
  { on: "*", is: pattern(/\*(?=\S)([^*\n]*?\S)\*(?![\w*])/, /[\w*]/), as: (m, names) => marked("strong", m[1], names) },
  { on: "_", is: pattern(/_(?=\S)([^_\n]*?\S)_(?!\w)/, /\w/), as: (m, names) => marked("em", m[1], names) },
  { on: "~", is: pattern(/~(?=\S)([^~\n]*?\S)~(?![\w~])/, /[\w~]/), as: (m, names) => marked("s", m[1], names) },
];

function marked(name, text, names) {
  const made = element(name);
  made.append(...marks(text, names));
  return [made];
}

function marks(text, names) {
  return scan(text, MARKS_SIGNS, MARKS, plain, names);
}

/** Renders Slack markup; `names` maps ids to names. */
export function mrkdwn(text, names) {
  const nodes = [];
  const lines = text.split("\n");
  let at = 0;
  let open = false;
  let part = [];
  const close = () => {
    if (!part.length) return;
    const made = element("p");
    made.append(...broken(marks(part.join("\n"), names)));
    nodes.push(made);
    part = [];
  };
  while (at < lines.length) {
    const line = lines[at];
    const quoted = !open && /^(&gt;|>) ?/.exec(line);
    if (quoted) {
      close();
      const quote = element("blockquote");
      quote.append(...marks(line.slice(quoted[0].length), names));
      nodes.push(quote);
    } else {
      part.push(line);
      if ((line.split("```").length - 1) % 2) open = !open;
    }
    at += 1;
  }
  close();
  return nodes;
}
