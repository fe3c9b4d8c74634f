// File previews: images, tables, text. Content is never parsed as HTML; other files can be downloaded.

import { element } from "/draw.js";
import { markdown } from "/markdown.js";
import { word } from "/words.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const TABLES = { csv: ",", tsv: "\t" };
const TEXTS = new Set(["txt", "md", "markdown", "json", "log", "yaml", "yml", "toml", "xml", "html", "py", "rs", "js", "ts", "sh", "sql"]);

/** Maximum bytes fetched for a preview. */
const MOST_TEXT = 256 * 1024;
const MOST_PICTURE = 10 * 1024 * 1024;
/** Maximum rows, columns and lines drawn. */
const MOST_ROWS = 200;
const MOST_COLUMNS = 30;
const MOST_LINES = 400;
/** Rows and lines shown before "Show all". */
const FEW_ROWS = 5;
const FEW_LINES = 8;

/** Cache of fetched content, so that a redrawn message does not flicker. */
const known = new Map();
const opened = new Set();

function kindOf(file) {
  const ending = file.name.includes(".") ? file.name.split(".").pop().toLowerCase() : "";
  if (PICTURES.has(file.mimetype) && file.size <= MOST_PICTURE) return "picture";
  if (file.size > MOST_TEXT || !file.size) return "";
  if (ending in TABLES) return "table";
  if (ending === "md" || ending === "markdown") return "markdown";
  return TEXTS.has(ending) || file.mimetype?.startsWith("text/") ? "text" : "";
}

/** Returns an element that shows the content of a file once loaded; null for unsupported files. */
export function preview(file) {
  const kind = kindOf(file);
  if (!kind) return null;
  const place = element("div", { className: "preview" });
  const got = known.get(file.id);
  if (got) {
    show(place, file, kind, got);
  } else {
    place.classList.add("coming");
    fetched(file, kind).then((content) => show(place, file, kind, content), () => place.remove());
  }
  return place;
}

async function fetched(file, kind) {
  const answer = await fetch(`/playground/files/${encodeURIComponent(file.id)}`);
  if (!answer.ok) throw new Error(String(answer.status));
  const bytes = await answer.arrayBuffer();
  const content = kind === "picture"
    ? URL.createObjectURL(new Blob([bytes], { type: file.mimetype }))
    : textOf(bytes);
  known.set(file.id, content);
  return content;
}

/** Decodes text; spreadsheets still write tables in local encodings. */
function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("shift_jis").decode(bytes);
  }
}

function show(place, file, kind, content) {
  place.classList.remove("coming");
  if (kind === "picture") {
    const picture = element("img");
    picture.alt = file.title || file.name;
    picture.src = content;
    place.replaceChildren(picture);
    return;
  }
  const box = element("div", { className: "content" });
  const { nodes, long } = drawn(file, kind, content);
  box.append(...nodes);
  place.replaceChildren(box);
  // Scrollable content must be reachable by keyboard.
  const reachable = (may) => {
    const set = { tabindex: "0", role: "region", "aria-label": word("contents", file.name) };
    for (const [name, value] of Object.entries(set)) {
      if (may) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  };
  reachable(kind === "table");
  if (!long) return;
  const more = element("button", { className: "more" });
  const open = (whole) => {
    place.classList.toggle("short", !whole);
    more.textContent = word(whole ? "less" : "more");
    more.setAttribute("aria-expanded", String(whole));
    reachable(whole);
    box.scrollTop = 0;
    if (whole) opened.add(file.id);
    else opened.delete(file.id);
  };
  more.type = "button";
  more.onclick = () => open(!opened.has(file.id));
  open(opened.has(file.id));
  place.append(more);
}

function drawn(file, kind, content) {
  if (kind === "table") {
    const rows = rowsOf(content, TABLES[file.name.split(".").pop().toLowerCase()]);
    return { nodes: [table(rows)], long: rows.length > FEW_ROWS };
  }
  const lines = content.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");
  const long = lines.length > FEW_LINES || content.length > 600;
  const text = lines.slice(0, MOST_LINES).join("\n");
  if (kind === "markdown") return { nodes: [element("div", { className: "body" }, ...markdown(text))], long };
  return { nodes: [element("pre", { text })], long };
}

/** Parses the cells of a CSV or TSV table (RFC 4180). */
export function rowsOf(text, between) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const end = () => {
    row.push(cell);
    cell = "";
  };
  for (let at = 0; at < text.length && rows.length < MOST_ROWS; at += 1) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === between) end();
    else if (letter === "\n") {
      end();
      rows.push(row);
      row = [];
    } else if (letter !== "\r") cell += letter;
  }
  if ((cell || row.length) && rows.length < MOST_ROWS) {
    end();
    rows.push(row);
  }
  return rows;
}

function table(rows) {
  const [first = [], ...rest] = rows;
  const number = (text) => /^-?[\d,.]+%?$/.test(text ?? "");
  const line = (cells, name) => element("tr", {}, ...cells.slice(0, MOST_COLUMNS).map((text, at) => {
    const cell = element(name, { text });
    if (name === "th") cell.scope = "col";
    // A column of numbers is right-aligned, including its title.
    if (rest.length && rest.every((row) => number(row[at]))) cell.className = "right";
    return cell;
  }));
  return element("table", {}, element("thead", {}, line(first, "th")),
    element("tbody", {}, ...rest.map((cells) => line(cells, "td"))));
}
