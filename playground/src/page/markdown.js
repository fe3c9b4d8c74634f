// Converts text to DOM nodes: Markdown in answers, Slack markup in user messages. No string is parsed as HTML,
// and links lead to web or mail addresses only.

import { matchAngle, matchCodeSpan, matchFence, matchLink, matchPair, matchPattern, scan } from "/scan.js";

const MAX_DEPTH = 8;

function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function renderLink(address, content) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
  const node = element("a");
  node.href = url.href;
  node.rel = "noopener noreferrer nofollow";
  node.target = "_blank";
  if (typeof content === "string") node.textContent = content;
  else node.append(...content);
  return node;
}

// Inline Markdown syntax; the earliest match wins, then the longest.
const MARKDOWN_STARTS = /[`\[<*_~\\]|!\[|https?:\/\//g;
const MARKDOWN_RULES = [
  { start: "`", match: matchCodeSpan, render: (m) => [element("code", stripPadding(m[1]))] },
  { start: "![", match: matchLink, render: (m, depth) => orText(renderLink(m[2], renderInline(m[1], depth)), m[0]) },
  { start: "<", match: matchAngle(/<((?:https?:\/\/|mailto:)[^\s>]{1,2000})>/, /[>\s]/g), render: (m) => orText(renderLink(m[1], m[1]), m[0]) },
  { start: "h", match: matchPattern(/https?:\/\/[^\s<>"'`)\]、。」）]{1,2000}/), render: (m) => orText(renderLink(m[0], m[0]), m[0]) },
  { start: "*", match: matchPair("***", /(?<=\S)\*\*\*/g), render: (m, depth) => nestedElement("strong", "em", m[1], depth) },
  { start: "*", match: matchPair("**", /(?<=\S)\*\*/g), render: (m, depth) => markdownElement("strong", m[1], depth) },
  { start: "_", match: matchPair("__", /(?<=\S)__(?!\w)/g, /\w/), render: (m, depth) => markdownElement("strong", m[1], depth) },
  { start: "~", match: matchPair("~~", /(?<=\S)~~/g), render: (m, depth) => markdownElement("s", m[1], depth) },
  { start: "*", match: matchPattern(/\*(?=[^\s*])([^*\n]*?[^\s*])\*/), render: (m, depth) => markdownElement("em", m[1], depth) },
  { start: "_", match: matchPattern(/_(?=[^\s_])([^_\n]*?[^\s_])_(?!\w)/, /\w/), render: (m, depth) => markdownElement("em", m[1], depth) },
  { start: "\\", match: matchPattern(/\\([\\`*_{}\[\]()#+\-.!|~>])/), render: (m) => [m[1]] },
];

/** Removes one padding space on either side of inline code, as used for code that starts or ends with a backtick. */
function stripPadding(code) {
  return code.startsWith(" ") && code.endsWith(" ") && code.trim() ? code.slice(1, -1) : code;
}

/** Returns the node, or the source text if there is none. */
function orText(node, source) {
  return [node ?? source];
}

function markdownElement(name, text, depth) {
  const node = element(name);
  node.append(...renderInline(text, depth));
  return [node];
}

function nestedElement(outer, inner, text, depth) {
  const node = element(outer);
  node.append(...markdownElement(inner, text, depth));
  return [node];
}

function renderInline(text, depth = 0) {
  if (depth > MAX_DEPTH) return [text];
  return scan(text, MARKDOWN_STARTS, MARKDOWN_RULES, (text) => text, depth + 1);
}

/** Keeps line ends as line breaks. */
function addLineBreaks(nodes) {
  const result = [];
  for (const node of nodes) {
    if (typeof node !== "string") {
      result.push(node);
      continue;
    }
    node.split("\n").forEach((line, index) => {
      if (index) result.push(element("br"));
      result.push(line);
    });
  }
  return result;
}

function renderFence(code, language) {
  const node = element("div", undefined, "fence");
  const pre = element("pre");
  pre.tabIndex = 0;
  pre.append(element("code", code));
  if (language) node.append(element("span", language, "kind"));
  node.append(pre);
  return node;
}

function splitCells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function renderTable(lines) {
  const alignments = splitCells(lines[1]).map((cell) => {
    if (/^:-+:$/.test(cell)) return "middle";
    return /^-+:$/.test(cell) ? "right" : "";
  });
  const renderRow = (line, name) => {
    const row = element("tr");
    splitCells(line).slice(0, alignments.length).forEach((text, column) => {
      const cell = element(name, undefined, alignments[column]);
      if (name === "th") cell.scope = "col";
      cell.append(...renderInline(text));
      row.append(cell);
    });
    return row;
  };
  const head = element("thead");
  head.append(renderRow(lines[0], "th"));
  const body = element("tbody");
  body.append(...lines.slice(2).map((line) => renderRow(line, "td")));
  const table = element("table");
  table.append(head, body);
  const box = element("div", undefined, "table");
  box.tabIndex = 0;
  box.append(table);
  return box;
}

const FENCE = /^(\s{0,3})(`{3,}|~{3,})\s*([^`\s]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/s;
const THEMATIC_BREAK = /^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*)$/s;
const DELIMITER_ROW = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/;

function isDelimiterRow(line) {
  return DELIMITER_ROW.test(line.trim());
}

/** Removes the closing hashes of a heading. */
function stripClosingHashes(heading) {
  const text = heading.trimEnd();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  return text.slice(0, end).trimEnd();
}

function renderItemList(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const ordered = /\d/.test(first[2]);
  const list = element(ordered ? "ol" : "ul");
  if (ordered) list.start = parseInt(first[2], 10);
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
    const nodes = renderBlocks(item, depth + 1);
    // A short item is a line, not a paragraph.
    if (nodes[0]?.tagName === "P") nodes.splice(0, 1, ...nodes[0].childNodes);
    li.append(...nodes);
    list.append(li);
  }
  return list;
}

function renderBlocks(lines, depth = 0) {
  const nodes = [];
  let index = 0;
  const startsBlock = (line, next) =>
    FENCE.test(line) || HEADING.test(line) || THEMATIC_BREAK.test(line) || ITEM.test(line) ||
    /^\s{0,3}>/.test(line) || (line.includes("|") && next !== undefined && isDelimiterRow(next));
  while (index < lines.length) {
    const line = lines[index];
    if (!line.trim()) {
      index += 1;
      continue;
    }
    const fenced = FENCE.exec(line);
    if (fenced) {
      const end = new RegExp(`^\\s{0,3}${fenced[2][0]}{${fenced[2].length},}\\s*$`);
      const code = [];
      index += 1;
      while (index < lines.length && !end.test(lines[index])) code.push(lines[index++]);
      index += 1;
      nodes.push(renderFence(code.join("\n"), fenced[3]));
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      const node = element(`h${Math.min(6, heading[1].length - topHeadingLevel + 3)}`);
      node.append(...renderInline(stripClosingHashes(heading[2])));
      nodes.push(node);
      index += 1;
      continue;
    }
    if (THEMATIC_BREAK.test(line)) {
      nodes.push(element("hr"));
      index += 1;
      continue;
    }
    const start = index;
    if (/^\s{0,3}>/.test(line) && depth < MAX_DEPTH) {
      while (index < lines.length && /^\s{0,3}>/.test(lines[index])) index += 1;
      const quote = element("blockquote");
      const inner = lines.slice(start, index).map((quoted) => quoted.replace(/^\s{0,3}> ?/, ""));
      quote.append(...renderBlocks(inner, depth + 1));
      nodes.push(quote);
      continue;
    }
    if (ITEM.test(line) && depth < MAX_DEPTH) {
      index += 1;
      while (index < lines.length && (ITEM.test(lines[index]) || /^\s+\S/.test(lines[index]) ||
        (!lines[index].trim() && ITEM.test(lines[index + 1] ?? "")))) index += 1;
      nodes.push(renderItemList(lines.slice(start, index), depth));
      continue;
    }
    if (line.includes("|") && isDelimiterRow(lines[index + 1] ?? "")) {
      index += 2;
      while (index < lines.length && lines[index].includes("|")) index += 1;
      nodes.push(renderTable(lines.slice(start, index)));
      continue;
    }
    index += 1;
    while (index < lines.length && lines[index].trim() && !startsBlock(lines[index], lines[index + 1])) index += 1;
    const paragraph = element("p");
    paragraph.append(...addLineBreaks(renderInline(lines.slice(start, index).join("\n"))));
    nodes.push(paragraph);
  }
  return nodes;
}

// The page has its own headings, so the top heading of a text is level three.
let topHeadingLevel = 1;

/** Renders Markdown. */
export function markdown(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const levels = lines.map((line) => HEADING.exec(line)?.[1].length ?? 6);
  topHeadingLevel = Math.min(...levels);
  return renderBlocks(lines);
}

function unescapeText(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

const MRKDWN_STARTS = /[`<*_~]/g;
const MRKDWN_RULES = [
  { start: "`", match: matchFence, render: (m) => [renderFence(unescapeText(m[1]).replace(/^\n|\n$/g, ""))] },
  { start: "`", match: matchPattern(/`([^`\n]+)`/), render: (m) => [element("code", unescapeText(m[1]))] },
  { start: "<", match: matchAngle(/<@([A-Z0-9]+)(?:\|[^>]*)?>/, />/g), render: (m, names) => [element("span", `@${names.user(m[1])}`, "at")] },
  { start: "<", match: matchAngle(/<#([A-Z0-9]+)(?:\|([^>]*))?>/, />/g), render: (m, names) => [element("span", `#${m[2] || names.channel(m[1])}`, "at")] },
  { start: "<", match: matchAngle(/<!(here|channel|everyone)(?:\|[^>]*)?>/, />/g), render: (m) => [element("span", `@${m[1]}`, "at")] },
  { start: "<", match: matchAngle(/<((?:https?:\/\/|mailto:)[^|>\s]+)(?:\|([^>]*))?>/, /[|>\s]/g), render: (m) => orText(renderLink(unescapeText(m[1]), unescapeText(m[2] || m[1])), unescapeText(m[0])) },
  { start: "*", match: matchPattern(/\*(?=\S)([^*\n]*?\S)\*(?![\w*])/, /[\w*]/), render: (m, names) => mrkdwnElement("strong", m[1], names) },
  { start: "_", match: matchPattern(/_(?=\S)([^_\n]*?\S)_(?!\w)/, /\w/), render: (m, names) => mrkdwnElement("em", m[1], names) },
  { start: "~", match: matchPattern(/~(?=\S)([^~\n]*?\S)~(?![\w~])/, /[\w~]/), render: (m, names) => mrkdwnElement("s", m[1], names) },
];

function mrkdwnElement(name, text, names) {
  const node = element(name);
  node.append(...renderMrkdwnInline(text, names));
  return [node];
}

function renderMrkdwnInline(text, names) {
  return scan(text, MRKDWN_STARTS, MRKDWN_RULES, unescapeText, names);
}

/** Renders Slack markup; `names` maps ids to names. */
export function mrkdwn(text, names) {
  const nodes = [];
  const lines = text.split("\n");
  let index = 0;
  let inFence = false;
  let paragraph = [];
  const endParagraph = () => {
    if (!paragraph.length) return;
    const node = element("p");
    node.append(...addLineBreaks(renderMrkdwnInline(paragraph.join("\n"), names)));
    nodes.push(node);
    paragraph = [];
  };
  while (index < lines.length) {
    const line = lines[index];
    const quoted = !inFence && /^(&gt;|>) ?/.exec(line);
    if (quoted) {
      endParagraph();
      const quote = element("blockquote");
      quote.append(...renderMrkdwnInline(line.slice(quoted[0].length), names));
      nodes.push(quote);
    } else {
      paragraph.push(line);
      if ((line.split("```").length - 1) % 2) inFence = !inFence;
    }
    index += 1;
  }
  endParagraph();
  return nodes;
}
