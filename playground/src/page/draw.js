// Renders one message as DOM nodes. Content is never parsed as HTML.

import { emoji, icon } from "/icons.js";
import { markdown, mrkdwn } from "/markdown.js";
import { preview } from "/preview.js";
import { names, userName, world } from "/state.js";
import { spoken, word } from "/words.js";

export function element(name, { text, className, label } = {}, ...children) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  if (label) {
    made.setAttribute("aria-label", label);
    made.title = label;
  }
  made.append(...children);
  return made;
}

function face(user) {
  const made = element("div", { className: "face" });
  made.setAttribute("aria-hidden", "true");
  if (user === world.bot) made.append(icon("mark"));
  else made.textContent = [...userName(user)][0] ?? "?";
  let sum = 0;
  for (const letter of user) sum += letter.codePointAt(0);
  made.classList.add(user === world.bot ? "bot" : `f${sum % 5}`);
  return made;
}

export function timeOf(ts) {
  return new Date(parseFloat(ts) * 1000);
}

function clock(ts) {
  const time = timeOf(ts);
  const made = element("time", {
    text: time.toLocaleTimeString(spoken(), { hour: "2-digit", minute: "2-digit" }),
  });
  made.dateTime = time.toISOString();
  made.title = time.toLocaleString(spoken());
  return made;
}

export function day(ts) {
  return timeOf(ts).toLocaleDateString(spoken(), { weekday: "long", month: "long", day: "numeric" });
}

/** Formats a file size. */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    at += 1;
  }
  return `${bytes.toLocaleString(spoken(), { maximumFractionDigits: 1 })} ${units[at]}`;
}

function textOf(text) {
  if (!text) return [];
  return text.type === "mrkdwn" ? mrkdwn(text.text ?? "", names) : [element("p", { text: text.text ?? "" })];
}

/** Renders a button of a block; feedback has two. */
function buttons(element_, message, press) {
  if (element_.type === "feedback_buttons") {
    return ["positive_button", "negative_button"].map((side) => {
      const one = element_[side] ?? {};
      const fallback = word(side === "positive_button" ? "good" : "bad");
      const sign = icon(side === "positive_button" ? "up" : "down");
      const label = one.accessibility_label || one.text?.text || fallback;
      const made = element("button", {}, sign, ` ${one.text?.text ?? fallback}`);
      made.title = label;
      const chosen = press.chosen(message, element_.action_id) === one.value;
      made.setAttribute("aria-pressed", String(chosen));
      made.onclick = () => press.send(message, element_.action_id, one.value);
      return made;
    });
  }
  const made = element("button", {
    text: element_.text?.text ?? element_.alt_text ?? element_.action_id,
    className: element_.style ?? "",
  });
  made.onclick = () => press.send(message, element_.action_id);
  return [made];
}

function blocks(message, press) {
  const nodes = [];
  for (const block of message.blocks) {
    switch (block.type) {
      case "markdown":
        nodes.push(...markdown(block.text ?? ""));
        break;
      case "section":
        nodes.push(...textOf(block.text), ...(block.fields ?? []).flatMap(textOf));
        if (block.accessory?.action_id) {
          nodes.push(element("div", { className: "buttons" }, ...buttons(block.accessory, message, press)));
        }
        break;
      case "header":
        nodes.push(element("h3", { text: block.text?.text ?? "" }));
        break;
      case "context":
        nodes.push(element("div", { className: "only" }, ...(block.elements ?? []).flatMap(textOf)));
        break;
      case "divider":
        nodes.push(element("hr"));
        break;
      case "actions":
      case "context_actions":
        nodes.push(element("div", { className: "buttons" },
          ...(block.elements ?? []).flatMap((one) => buttons(one, message, press))));
        break;
      case "rich_text":
        nodes.push(...mrkdwn(message.text, names));
        break;
    }
  }
  return nodes;
}

function copyable(body) {
  for (const fence of body.querySelectorAll(".fence")) {
    const made = element("button", { text: word("copy"), className: "copy" });
    made.type = "button";
    made.onclick = async () => {
      await navigator.clipboard.writeText(fence.querySelector("code").textContent);
      made.textContent = word("copied");
    };
    fence.append(made);
  }
}

function files(message) {
  const list = element("ul", { className: "files" });
  for (const file of message.files) {
    const ending = file.name.includes(".") ? file.name.split(".").pop() : "";
    const made = element("a", { className: "file" },
      element("span", { className: "kind", text: ending.slice(0, 4) || "?" }),
      element("span", { className: "name" }, element("b", { text: file.title || file.name }),
        element("small", { text: size(file.size) })),
      icon("download"));
    made.firstElementChild.setAttribute("aria-hidden", "true");
    made.title = word("download", file.name);
    made.href = `/playground/files/${encodeURIComponent(file.id)}`;
    made.setAttribute("download", file.name);
    const shown = preview(file);
    list.append(element("li", {}, made, ...(shown ? [shown] : [])));
  }
  return list;
}

/** Renders a message. `at` has the viewer and their possible actions. */
export function draw(message, at) {
  const made = element("li", { className: "message" });
  made.dataset.key = `${message.channel}/${message.ts}`;
  made.dataset.ts = message.ts;
  made.dataset.user = message.user;
  if (message.streaming) made.classList.add("streaming");
  if (message.only_for) made.classList.add("whisper");
  const who = element("div", { className: "who" }, element("b", { text: userName(message.user) }));
  if (message.user === world.bot) who.append(element("span", { className: "app", text: word("app") }));
  who.append(clock(message.ts));
  if (message.edited) who.append(element("span", { className: "edited", text: word("edited") }));
  const body = element("div", { className: "body" });
  body.append(...(message.blocks?.length ? blocks(message, at.press) : message.text ? mrkdwn(message.text, names) : []));
  copyable(body);
  const column = element("div", {});
  if (message.only_for) column.append(element("div", { className: "only" }, icon("eye"), word("only")));
  column.append(who, body);
  if (message.files?.length) column.append(files(message));
  if (message.reactions?.length) {
    const row = element("div", { className: "reactions" });
    for (const one of message.reactions) {
      const people = one.users.map(userName).join(", ");
      const label = word("reactions", one.name, people, one.count);
      const button = element("button", { label }, emoji(one.name), ` ${one.count}`);
      button.setAttribute("aria-pressed", String(one.users.includes(at.user)));
      button.onclick = () => at.react(message, one.name);
      row.append(button);
    }
    column.append(row);
  }
  if (at.open && message.reply_count) {
    const text = message.reply_count === 1 ? word("oneReply") : word("replies", message.reply_count);
    const under = element("button", { className: "under", text });
    under.onclick = () => at.open(message);
    column.append(under);
  }
  made.append(face(message.user), column);
  if (!message.only_for) made.append(hover(message, at));
  return made;
}

function hover(message, at) {
  const bar = element("div", { className: "hover" });
  for (const name of ["+1", "eyes", "white_check_mark"]) {
    const button = element("button", { label: word("react", name) }, emoji(name));
    button.onclick = () => at.react(message, name);
    bar.append(button);
  }
  if (at.open) {
    const button = element("button", { label: word("answer") }, icon("reply"));
    button.onclick = () => at.open(message);
    bar.append(button);
  }
  return bar;
}

/** Returns the text of a message for screen readers. */
export function spokenText(message) {
  const holder = element("div");
  const none = { send() {}, chosen() {} };
  const told = message.blocks?.filter((one) => one.type === "markdown" || one.type === "section");
  holder.append(...(told?.length ? blocks({ ...message, blocks: told }, none) : mrkdwn(message.text ?? "", names)));
  return holder.textContent.slice(0, 2000);
}
