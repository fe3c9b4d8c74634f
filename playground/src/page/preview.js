// File previews: images, tables, text. Content is never parsed as HTML; other files can be downloaded.

import { markdown } from "/markdown.js";
import { element } from "/message.js";
import { translate } from "/texts.js";

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const TABLE_DELIMITERS = { csv: ",", tsv: "\t" };
const TEXT_EXTENSIONS = new Set(["txt", "md", "markdown", "json", "log", "yaml", "yml", "toml", "xml", "html", "py", "rs", "js", "ts", "sh", "sql"]);

/** Maximum bytes fetched for a preview. */
const MAX_TEXT_BYTES = 256 * 1024;
const MAX_IMAGE_BYTES = 10 * 1024 * 1024;
/** Maximum rows, columns and lines rendered. */
const MAX_ROWS = 200;
const MAX_COLUMNS = 30;
const MAX_LINES = 400;
/** Longer content is collapsed until the user presses "Show all". */
const COLLAPSED_ROWS = 5;
const COLLAPSED_LINES = 8;
const COLLAPSED_CHARS = 600;

/** Cache of fetched content, so that a message rendered again does not flicker. */
const contentCache = new Map();
const expandedFiles = new Set();

function fileExtension(file) {
  return file.name.includes(".") ? file.name.split(".").pop().toLowerCase() : "";
}

function previewKind(file) {
  const extension = fileExtension(file);
  if (IMAGE_TYPES.has(file.mimetype) && file.size <= MAX_IMAGE_BYTES) return "image";
  if (file.size > MAX_TEXT_BYTES || !file.size) return "";
  if (extension in TABLE_DELIMITERS) return "table";
  if (extension === "md" || extension === "markdown") return "markdown";
  return TEXT_EXTENSIONS.has(extension) || file.mimetype?.startsWith("text/") ? "text" : "";
}

/** Returns an element that shows the content of a file once loaded; null for unsupported files. */
export function renderPreview(file) {
  const kind = previewKind(file);
  if (!kind) return null;
  const container = element("div", { className: "preview" });
  const cached = contentCache.get(file.id);
  if (cached) {
    showContent(container, file, kind, cached);
  } else {
    container.classList.add("loading");
    fetchContent(file, kind).then((content) => showContent(container, file, kind, content), () => container.remove());
  }
  return container;
}

async function fetchContent(file, kind) {
  const response = await fetch(`/playground/files/${encodeURIComponent(file.id)}`);
  if (!response.ok) throw new Error(String(response.status));
  const bytes = await response.arrayBuffer();
  const content = kind === "image"
    ? URL.createObjectURL(new Blob([bytes], { type: file.mimetype }))
    : decodeText(bytes);
  contentCache.set(file.id, content);
  return content;
}

/** Decodes UTF-8, or else Shift JIS, in which spreadsheets still write tables. */
function decodeText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("shift_jis").decode(bytes);
  }
}

function showContent(container, file, kind, content) {
  container.classList.remove("loading");
  if (kind === "image") {
    const image = element("img");
    image.alt = file.title || file.name;
    image.src = content;
    container.replaceChildren(image);
    return;
  }
  const box = element("div", { className: "content" });
  const { nodes, isLong } = renderContent(file, kind, content);
  box.append(...nodes);
  container.replaceChildren(box);
  // Scrollable content must be reachable by keyboard.
  const setFocusable = (focusable) => {
    const attributes = { tabindex: "0", role: "region", "aria-label": translate("contents", file.name) };
    for (const [name, value] of Object.entries(attributes)) {
      if (focusable) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  };
  setFocusable(kind === "table");
  if (!isLong) return;
  const toggle = element("button", { className: "toggle" });
  const setExpanded = (expanded) => {
    container.classList.toggle("short", !expanded);
    toggle.textContent = translate(expanded ? "showLess" : "showAll");
    toggle.setAttribute("aria-expanded", String(expanded));
    setFocusable(expanded);
    box.scrollTop = 0;
    if (expanded) expandedFiles.add(file.id);
    else expandedFiles.delete(file.id);
  };
  toggle.type = "button";
  toggle.onclick = () => setExpanded(!expandedFiles.has(file.id));
  setExpanded(expandedFiles.has(file.id));
  container.append(toggle);
}

function renderContent(file, kind, content) {
  if (kind === "table") {
    const rows = parseRows(content, TABLE_DELIMITERS[fileExtension(file)]);
    return { nodes: [renderTable(rows)], isLong: rows.length > COLLAPSED_ROWS };
  }
  const lines = content.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");
  const isLong = lines.length > COLLAPSED_LINES || content.length > COLLAPSED_CHARS;
  const text = lines.slice(0, MAX_LINES).join("\n");
  if (kind === "markdown") return { nodes: [element("div", { className: "body" }, ...markdown(text))], isLong };
  return { nodes: [element("pre", { text })], isLong };
}

/** Parses the cells of a CSV or TSV table (RFC 4180). */
function parseRows(text, delimiter) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const endCell = () => {
    row.push(cell);
    cell = "";
  };
  for (let index = 0; index < text.length && rows.length < MAX_ROWS; index += 1) {
    const letter = text[index];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[index + 1] === '"') {
        cell += '"';
        index += 1;
      } else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === delimiter) endCell();
    else if (letter === "\n") {
      endCell();
      rows.push(row);
      row = [];
    } else if (letter !== "\r") cell += letter;
  }
  if ((cell || row.length) && rows.length < MAX_ROWS) {
    endCell();
    rows.push(row);
  }
  return rows;
}

function renderTable(rows) {
  const [header = [], ...dataRows] = rows;
  const isNumber = (text) => /^-?[\d,.]+%?$/.test(text ?? "");
  const renderRow = (cells, name) => element("tr", {}, ...cells.slice(0, MAX_COLUMNS).map((text, column) => {
    const cell = element(name, { text });
    if (name === "th") cell.scope = "col";
    // A column of numbers is right-aligned, including its title.
    if (dataRows.length && dataRows.every((row) => isNumber(row[column]))) cell.className = "right";
    return cell;
  }));
  return element("table", {}, element("thead", {}, renderRow(header, "th")),
    element("tbody", {}, ...dataRows.map((cells) => renderRow(cells, "td"))));
}
