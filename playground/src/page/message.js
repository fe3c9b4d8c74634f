// Renders one message as DOM nodes. Content is never parsed as HTML.

import { emoji, icon } from "/icons.js";
import { markdown, mrkdwn } from "/markdown.js";
import { renderPreview } from "/preview.js";
import { names, userName, workspace } from "/state.js";
import { currentLanguage, translate } from "/texts.js";

export function element(name, { text, className, label } = {}, ...children) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  if (label) {
    node.setAttribute("aria-label", label);
    node.title = label;
  }
  node.append(...children);
  return node;
}

function renderAvatar(user) {
  const avatar = element("div", { className: "avatar" });
  avatar.setAttribute("aria-hidden", "true");
  if (user === workspace.bot) avatar.append(icon("logo"));
  else avatar.textContent = [...userName(user)][0] ?? "?";
  let sum = 0;
  for (const letter of user) sum += letter.codePointAt(0);
  avatar.classList.add(user === workspace.bot ? "bot" : `color-${sum % 5}`);
  return avatar;
}

function toDate(ts) {
  return new Date(parseFloat(ts) * 1000);
}

function renderTime(ts) {
  const date = toDate(ts);
  const node = element("time", {
    text: date.toLocaleTimeString(currentLanguage(), { hour: "2-digit", minute: "2-digit" }),
  });
  node.dateTime = date.toISOString();
  node.title = date.toLocaleString(currentLanguage());
  return node;
}

export function formatDay(ts) {
  return toDate(ts).toLocaleDateString(currentLanguage(), { weekday: "long", month: "long", day: "numeric" });
}

export function formatSize(bytes) {
  const units = ["B", "KB", "MB", "GB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes.toLocaleString(currentLanguage(), { maximumFractionDigits: 1 })} ${units[unit]}`;
}

function renderTextObject(text) {
  if (!text) return [];
  return text.type === "mrkdwn" ? mrkdwn(text.text ?? "", names) : [element("p", { text: text.text ?? "" })];
}

/** Renders a button element of a block; feedback has two buttons. */
function renderButtons(blockElement, message, buttonActions) {
  if (blockElement.type === "feedback_buttons") {
    return ["positive_button", "negative_button"].map((side) => {
      const definition = blockElement[side] ?? {};
      const fallback = translate(side === "positive_button" ? "good" : "bad");
      const thumb = icon(side === "positive_button" ? "up" : "down");
      const button = element("button", {}, thumb, ` ${definition.text?.text ?? fallback}`);
      button.title = definition.accessibility_label || definition.text?.text || fallback;
      const isPressed = buttonActions.pressedValue(message, blockElement.action_id) === definition.value;
      button.setAttribute("aria-pressed", String(isPressed));
      button.onclick = () => buttonActions.press(message, blockElement.action_id, definition.value);
      return button;
    });
  }
  const button = element("button", {
    text: blockElement.text?.text ?? blockElement.alt_text ?? blockElement.action_id,
    className: blockElement.style ?? "",
  });
  button.onclick = () => buttonActions.press(message, blockElement.action_id);
  return [button];
}

function renderBlocks(message, buttonActions) {
  const nodes = [];
  const buttonsOf = (elements) => element("div", { className: "buttons" },
    ...elements.flatMap((blockElement) => renderButtons(blockElement, message, buttonActions)));
  for (const block of message.blocks) {
    switch (block.type) {
      case "markdown":
        nodes.push(...markdown(block.text ?? ""));
        break;
      case "section":
        nodes.push(...renderTextObject(block.text), ...(block.fields ?? []).flatMap(renderTextObject));
        if (block.accessory?.action_id) nodes.push(buttonsOf([block.accessory]));
        break;
      case "header":
        nodes.push(element("h3", { text: block.text?.text ?? "" }));
        break;
      case "context":
        nodes.push(element("div", { className: "context" }, ...(block.elements ?? []).flatMap(renderTextObject)));
        break;
      case "divider":
        nodes.push(element("hr"));
        break;
      case "actions":
      case "context_actions":
        nodes.push(buttonsOf(block.elements ?? []));
        break;
      case "rich_text":
        nodes.push(...mrkdwn(message.text, names));
        break;
    }
  }
  return nodes;
}

function addCopyButtons(body) {
  for (const fence of body.querySelectorAll(".fence")) {
    const button = element("button", { text: translate("copy"), className: "copy" });
    button.type = "button";
    button.onclick = async () => {
      await navigator.clipboard.writeText(fence.querySelector("code").textContent);
      button.textContent = translate("copied");
    };
    fence.append(button);
  }
}

function renderFiles(message) {
  const list = element("ul", { className: "files" });
  for (const file of message.files) {
    const extension = file.name.includes(".") ? file.name.split(".").pop() : "";
    const link = element("a", { className: "file" },
      element("span", { className: "kind", text: extension.slice(0, 4) || "?" }),
      element("span", { className: "name" }, element("b", { text: file.title || file.name }),
        element("small", { text: formatSize(file.size) })),
      icon("download"));
    link.firstElementChild.setAttribute("aria-hidden", "true");
    link.title = translate("download", file.name);
    link.href = `/playground/files/${encodeURIComponent(file.id)}`;
    link.setAttribute("download", file.name);
    const preview = renderPreview(file);
    list.append(element("li", {}, link, ...(preview ? [preview] : [])));
  }
  return list;
}

function renderReactions(message, context) {
  const row = element("div", { className: "reactions" });
  for (const reaction of message.reactions) {
    const users = reaction.users.map(userName).join(", ");
    const label = translate("reactions", reaction.name, users, reaction.count);
    const button = element("button", { label }, emoji(reaction.name), ` ${reaction.count}`);
    button.setAttribute("aria-pressed", String(reaction.users.includes(context.user)));
    button.onclick = () => context.toggleReaction(message, reaction.name);
    row.append(button);
  }
  return row;
}

/** Renders a message. `context` has the current user and the possible actions. */
export function renderMessage(message, context) {
  const item = element("li", { className: "message" });
  item.dataset.key = `${message.channel}/${message.ts}`;
  item.dataset.ts = message.ts;
  item.dataset.user = message.user;
  if (message.streaming) item.classList.add("streaming");
  if (message.only_for) item.classList.add("whisper");
  const header = element("div", { className: "author" }, element("b", { text: userName(message.user) }));
  if (message.user === workspace.bot) header.append(element("span", { className: "app", text: translate("app") }));
  header.append(renderTime(message.ts));
  if (message.edited) header.append(element("span", { className: "edited", text: translate("edited") }));
  const body = element("div", { className: "body" });
  if (message.blocks?.length) body.append(...renderBlocks(message, context.buttonActions));
  else if (message.text) body.append(...mrkdwn(message.text, names));
  addCopyButtons(body);
  const column = element("div", {});
  if (message.only_for) column.append(element("div", { className: "context" }, icon("eye"), translate("ephemeral")));
  column.append(header, body);
  if (message.files?.length) column.append(renderFiles(message));
  if (message.reactions?.length) column.append(renderReactions(message, context));
  if (context.openThread && message.reply_count) {
    const text = message.reply_count === 1 ? translate("oneReply") : translate("replies", message.reply_count);
    const replies = element("button", { className: "under", text });
    replies.onclick = () => context.openThread(message);
    column.append(replies);
  }
  item.append(renderAvatar(message.user), column);
  if (!message.only_for) item.append(renderActions(message, context));
  return item;
}

/** Renders the buttons that appear while the pointer is over a message. */
function renderActions(message, context) {
  const bar = element("div", { className: "actions" });
  for (const name of ["+1", "eyes", "white_check_mark"]) {
    const button = element("button", { label: translate("react", name) }, emoji(name));
    button.onclick = () => context.toggleReaction(message, name);
    bar.append(button);
  }
  if (context.openThread) {
    const button = element("button", { label: translate("replyInThread") }, icon("reply"));
    button.onclick = () => context.openThread(message);
    bar.append(button);
  }
  return bar;
}

/** Returns the text of a message for screen readers. */
export function textForScreenReader(message) {
  const container = element("div");
  const noActions = { press() {}, pressedValue() {} };
  const blocks = message.blocks?.filter((block) => block.type === "markdown" || block.type === "section");
  if (blocks?.length) container.append(...renderBlocks({ ...message, blocks }, noActions));
  else container.append(...mrkdwn(message.text ?? "", names));
  return container.textContent.slice(0, 2000);
}
