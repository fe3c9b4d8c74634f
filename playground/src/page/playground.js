// The page: navigation, sending, and rendering of changes.

import { initComposer } from "/composer.js";
import { renderChannels, renderLayout, renderTexts } from "/layout.js";
import { element, formatDay, renderMessage, textForScreenReader } from "/message.js";
import {
  channelMessages, connect, isBusy, isShownInChannel, isShownInThread, messageKey, performAction, subscribe,
  threadMessages, upload, userName, workspace,
} from "/state.js";
import { setLanguage, translate } from "/texts.js";
import { isAllowed, renderWelcome } from "/welcome.js";

const byId = (id) => document.getElementById(id);
/** True if the thread covers the channel, as in the style sheet. */
const narrowScreen = matchMedia("(max-width: 900px)");

/** Current user, channel and open thread. */
const view = { user: "", channel: "", thread: "" };
const unread = new Map();
const pressedValues = new Map();

function loadSetting(name, fallback) {
  try {
    return localStorage.getItem(`playground.${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}

function saveSetting(name, value) {
  try {
    localStorage.setItem(`playground.${name}`, value);
  } catch {
    // Storage may be unavailable in private windows; the page works without it.
  }
}

let errorTimer = 0;
function showError(error) {
  const toast = byId("error");
  toast.textContent = translate("failed", error.message);
  toast.hidden = false;
  clearTimeout(errorTimer);
  errorTimer = setTimeout(() => { toast.hidden = true; }, 6000);
}

/** Announces a text to screen readers. */
function announce(text) {
  byId("announcer").textContent = text;
}

// Navigation. The location hash holds channel and thread, so that Back works.

function navigate(channel, thread = "") {
  location.hash = thread ? `${channel}/${thread}` : channel;
}

function applyLocation() {
  const [channel, thread = ""] = decodeURIComponent(location.hash.slice(1)).split("/");
  const channels = userChannels();
  const fallback = channels.find((one) => one.kind === "im") ?? channels[0];
  view.channel = channels.some((one) => one.id === channel) ? channel : fallback?.id ?? "";
  const threadExists = view.channel === channel && workspace.messages.has(messageKey(view.channel, thread));
  const previousThread = view.thread;
  view.thread = threadExists ? thread : "";
  unread.delete(view.channel);
  setMenuOpen(false);
  renderAll();
  // Does not take the focus from a text in progress.
  if (view.thread && view.thread !== previousThread && !byId("main-input").value) {
    byId("thread-input").focus({ preventScroll: true });
  }
}

/** Opens or closes the channel list on narrow screens. */
function setMenuOpen(open) {
  document.body.classList.toggle("menu", open);
  byId("menu").setAttribute("aria-expanded", String(open));
  updateInert();
}

/** Makes covered elements unreachable by keyboard. */
function updateInert() {
  const menuOpen = document.body.classList.contains("menu");
  byId("main").inert = menuOpen || (narrowScreen.matches && Boolean(view.thread));
  byId("thread").inert = menuOpen;
}

function userChannels() {
  return [...workspace.channels.values()].filter((one) => one.members.includes(view.user) && !one.archived);
}

// Rendering.

const pressKey = (message, actionId) => `${message.channel}/${message.ts}/${actionId}/${view.user}`;

const buttonActions = {
  pressedValue: (message, actionId) => pressedValues.get(pressKey(message, actionId)),
  press(message, actionId, value) {
    const action = { act: "press", user: view.user, channel: message.channel, ts: message.ts, action_id: actionId };
    if (value !== undefined) {
      action.value = value;
      pressedValues.set(pressKey(message, actionId), value);
      scheduleUpdate(message);
    }
    performAction(action).catch(showError);
  },
};

function toggleReaction(message, name) {
  const action = { act: "react", user: view.user, channel: message.channel, ts: message.ts, name };
  performAction(action).catch(showError);
}

function openThread(message) {
  navigate(message.channel, message.thread_ts ?? message.ts);
}

const channelContext = () => ({ user: view.user, buttonActions, toggleReaction, openThread });
const threadContext = () => ({ user: view.user, buttonActions, toggleReaction });

function renderList(list, messages, context) {
  const scroll = list.closest(".scroll");
  const nodes = [];
  let previousDay = "";
  for (const message of messages) {
    const day = formatDay(message.ts);
    if (day !== previousDay) nodes.push(element("li", { className: "day", text: day }));
    previousDay = day;
    nodes.push(renderMessage(message, context));
  }
  list.replaceChildren(...nodes);
  groupByAuthor(list);
  scroll.scrollTop = scroll.scrollHeight;
}

/** Shows the author's name only once for consecutive messages. */
function groupByAuthor(list) {
  let previous = null;
  for (const node of list.children) {
    const canGroup = node.classList.contains("message") && !node.classList.contains("whisper");
    const isGrouped = canGroup && previous?.dataset.user === node.dataset.user &&
      node.dataset.ts - previous.dataset.ts < 300 && !previous.querySelector(".under, .reactions");
    node.classList.toggle("grouped", Boolean(isGrouped));
    previous = canGroup ? node : null;
  }
}

function isNearEnd(scroll) {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
}

/** Inserts one message at its position in a list, and keeps scrolled to the end. */
function insertMessage(list, message, context) {
  const scroll = list.closest(".scroll");
  const wasNearEnd = isNearEnd(scroll);
  const old = list.querySelector(`[data-key="${CSS.escape(messageKey(message.channel, message.ts))}"]`);
  const focusable = "button, a, [tabindex]";
  const focusedIndex = old ? [...old.querySelectorAll(focusable)].indexOf(document.activeElement) : -1;
  const node = renderMessage(message, context);
  if (old) {
    old.replaceWith(node);
    if (focusedIndex >= 0) (node.querySelectorAll(focusable)[focusedIndex] ?? scroll).focus({ preventScroll: true });
  } else {
    const nodes = [...list.querySelectorAll(".message")];
    const next = nodes.find((one) => one.dataset.ts > message.ts);
    const last = nodes.pop();
    if (!next && (!last || formatDay(last.dataset.ts) !== formatDay(message.ts))) {
      list.append(element("li", { className: "day", text: formatDay(message.ts) }));
    }
    list.insertBefore(node, next ?? null);
  }
  groupByAuthor(list);
  if (wasNearEnd) scroll.scrollTop = scroll.scrollHeight;
}

const pendingUpdates = new Map();
let frameRequest = 0;

/** Renders a message again at the next frame, once for all changes until then. */
function scheduleUpdate(message) {
  pendingUpdates.set(messageKey(message.channel, message.ts), message);
  frameRequest ||= requestAnimationFrame(() => {
    frameRequest = 0;
    for (const pending of pendingUpdates.values()) updateMessage(pending);
    pendingUpdates.clear();
  });
}

function updateMessage(message) {
  if (message.channel !== view.channel) return;
  if (message.only_for && message.only_for !== view.user) return;
  if (isShownInChannel(message, view.channel, view.user, view.thread)) {
    insertMessage(byId("main-list"), message, channelContext());
  }
  if (view.thread && isShownInThread(message, view.channel, view.thread, view.user)) {
    insertMessage(byId("thread-list"), message, threadContext());
  }
  byId("welcome").hidden = byId("main-list").childElementCount > 0;
  renderStopButton();
}

function renderStatus() {
  const text = workspace.statuses.get(messageKey(view.channel, view.thread)) ?? "";
  const line = byId("status");
  const scroll = line.closest(".scroll");
  const wasNearEnd = isNearEnd(scroll);
  line.hidden = !text;
  line.textContent = text ? `${userName(workspace.bot)} ${text}` : "";
  renderStopButton();
  if (wasNearEnd) scroll.scrollTop = scroll.scrollHeight;
}

/** Shows the stop button of the thread while the bot is busy there. */
function renderStopButton() {
  const button = byId("halt");
  const busy = Boolean(view.thread) && isBusy(view.channel, view.thread);
  if (button.hidden !== busy) return;
  if (!busy && document.activeElement === button) byId("thread-input").focus();
  button.hidden = !busy;
  button.disabled = false;
  button.lastElementChild.textContent = translate("stop");
}

function renderSidebar() {
  renderChannels(view, userChannels(), unread, (channel) => {
    navigate(channel);
    byId("main-input").focus();
  });
}

function renderAll() {
  setLanguage((workspace.users.get(view.user)?.locale ?? navigator.language).slice(0, 2));
  renderLayout(view);
  renderSidebar();
  renderWelcome(workspace.users.get(view.user), workspace.channels.get(view.channel), welcomeActions);
  const messages = channelMessages(view.channel, view.user, view.thread);
  byId("welcome").hidden = messages.length > 0;
  renderList(byId("main-list"), messages, channelContext());
  byId("thread").hidden = !view.thread;
  const replies = view.thread ? threadMessages(view.channel, view.thread, view.user) : [];
  renderList(byId("thread-list"), replies, threadContext());
  renderStatus();
  updateInert();
}

// Sending.

const welcomeActions = {
  send: (text) => send(text, [], "").catch(showError),
  attach: () => byId("main-form").querySelector(".attach").click(),
  openDirectMessage() {
    navigate(userChannels().find((one) => one.kind === "im").id);
    byId("main-input").focus();
  },
};

async function send(text, files, thread) {
  const target = { user: view.user, channel: view.channel };
  if (thread) target.thread_ts = thread;
  let ts;
  if (files.length) {
    ts = await upload(files, { ...target, text });
  } else {
    const broadcast = Boolean(thread) && byId("broadcast").checked;
    ts = await performAction({ act: "post", ...target, text, broadcast });
    byId("broadcast").checked = false;
  }
  if (thread) return;
  awaitedThread = messageKey(target.channel, ts);
  // The answer may have started before the response to the post arrived.
  const hasReply = [...workspace.messages.values()].some((message) =>
    message.channel === target.channel && message.thread_ts === ts && message.ts !== ts);
  if (hasReply || workspace.statuses.has(awaitedThread)) openAwaitedThread(target.channel, ts);
}

/** Key of the last question, whose thread is opened when its answer starts. */
let awaitedThread = "";

function openAwaitedThread(channel, thread) {
  if (awaitedThread && awaitedThread === messageKey(channel, thread) && channel === view.channel) {
    awaitedThread = "";
    navigate(channel, thread);
  }
}

// Changes of the workspace.

subscribe((kind, subject) => {
  switch (kind) {
    case "all":
      if (!workspace.users.has(view.user)) view.user = loadSetting("user", "");
      if (!workspace.users.has(view.user)) view.user = defaultUser(navigator.language ?? "en");
      applyLocation();
      // With a keyboard, focus the input at once; a virtual keyboard would cover the page.
      if (document.activeElement === document.body && matchMedia("(hover: hover)").matches && !view.thread) {
        byId("main-input").focus({ preventScroll: true });
      }
      break;
    case "message":
      onMessage(subject.message, subject.previous);
      break;
    case "deleted": {
      const key = CSS.escape(messageKey(subject.channel, subject.ts));
      for (const node of document.querySelectorAll(`[data-key="${key}"]`)) node.remove();
      break;
    }
    case "status":
      renderStatus();
      if (subject.text) openAwaitedThread(subject.channel, subject.thread_ts);
      if (subject.text && subject.channel === view.channel) announce(`${userName(workspace.bot)} ${subject.text}`);
      break;
    case "offline":
      byId("offline").hidden = false;
      break;
    case "online":
      byId("offline").hidden = true;
      break;
  }
});

function onMessage(message, previous) {
  scheduleUpdate(message);
  const isMember = workspace.channels.get(message.channel)?.members.includes(view.user);
  const isVisible = isMember && (!message.only_for || message.only_for === view.user);
  if (!previous && isVisible && message.channel !== view.channel && message.user !== view.user) {
    unread.set(message.channel, (unread.get(message.channel) ?? 0) + 1);
    renderSidebar();
  }
  if (!isVisible || message.channel !== view.channel || message.user !== workspace.bot) return;
  if (message.thread_ts) openAwaitedThread(message.channel, message.thread_ts);
  // Announces that an answer starts, and its text when it is complete.
  if (!previous && message.streaming) announce(translate("answerStarted", userName(message.user)));
  else if (!message.streaming && (!previous || previous.streaming)) {
    announce(translate("messageFrom", userName(message.user), textForScreenReader(message)));
  }
}

/** Returns an allowed user, if possible with the browser's language. */
function defaultUser(language) {
  const users = [...workspace.users.values()].filter((user) => !user.is_bot && !user.deleted && isAllowed(user));
  const sameLanguage = users.find((user) => user.locale?.slice(0, 2) === language.slice(0, 2));
  return (sameLanguage ?? users[0])?.id ?? "";
}

byId("user").onchange = (event) => {
  view.user = event.target.value;
  saveSetting("user", view.user);
  unread.clear();
  const dm = [...workspace.channels.values()].find((one) => one.kind === "im" && one.members.includes(view.user));
  const isMember = workspace.channels.get(view.channel)?.members.includes(view.user);
  if (isMember || !dm) applyLocation();
  else navigate(dm.id);
};
byId("language").onchange = (event) => {
  performAction({ act: "speak", user: view.user, locale: event.target.value }).catch(showError);
};
byId("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  saveSetting("theme", root.dataset.theme);
};
byId("menu").onclick = () => {
  const open = !document.body.classList.contains("menu");
  setMenuOpen(open);
  const sidebar = byId("sidebar");
  if (open) (sidebar.querySelector("[aria-current]") ?? sidebar.querySelector("button"))?.focus();
};
document.querySelector(".layout").addEventListener("click", (event) => {
  if (!event.target.closest("#sidebar")) setMenuOpen(false);
});
byId("halt").onclick = (event) => {
  const button = event.currentTarget;
  const setEnabled = (enabled) => {
    button.disabled = !enabled;
    button.lastElementChild.textContent = translate(enabled ? "stop" : "stopping");
  };
  setEnabled(false);
  byId("thread-input").focus();
  // A user may not be allowed to stop the answer, so the button is enabled again.
  setTimeout(() => setEnabled(true), 5000);
  const action = { act: "stop", user: view.user, channel: view.channel, thread_ts: view.thread };
  performAction(action).catch(showError);
};
narrowScreen.addEventListener("change", updateInert);
byId("close").onclick = () => {
  navigate(view.channel);
  byId("main-input").focus();
};
addEventListener("hashchange", applyLocation);
addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("menu")) {
      setMenuOpen(false);
      byId("menu").focus();
    } else if (view.thread) byId("close").click();
  } else if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    byId(view.thread ? "thread-input" : "main-input").focus();
  } else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    event.preventDefault();
    const channels = userChannels();
    const index = channels.findIndex((one) => one.id === view.channel);
    const next = channels[index + (event.key === "ArrowUp" ? -1 : 1)];
    if (next) navigate(next.id);
  }
});

setLanguage((navigator.language ?? "en").slice(0, 2));
renderTexts();
initComposer(byId("main-form"), (text, files) => send(text, files, ""), showError);
initComposer(byId("thread-form"), (text, files) => send(text, files, view.thread), showError);
connect();
