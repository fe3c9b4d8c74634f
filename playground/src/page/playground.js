// The page: where the person is, what they write, and when what is drawn again.

import { composer } from "/compose.js";
import { day, draw, element, spokenText } from "/draw.js";
import { icon } from "/icons.js";
import { act, channelName, follow, inChannel, inThread, isIn, keyOf, listen, upload, userName, world } from "/state.js";
import { speak, spoken, word } from "/words.js";

const find = (id) => document.getElementById(id);
const IDEAS = ["help", "stream 60", "file csv name,amount", "wait 20", "echo **bold** and `code`"];

const here = { user: "", channel: "", thread: "" };
const unread = new Map();
const chosen = new Map();

function remembered(name, usual) {
  try {
    return localStorage.getItem(`playground.${name}`) ?? usual;
  } catch {
    return usual;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`playground.${name}`, value);
  } catch {
    // Private windows may keep nothing; the page works without.
  }
}

let problemTimer = 0;
function problem(error) {
  const box = find("problem");
  box.textContent = word("failed", error.message);
  box.hidden = false;
  clearTimeout(problemTimer);
  problemTimer = setTimeout(() => { box.hidden = true; }, 6000);
}

function announce(text) {
  find("announcer").textContent = text;
}

// Where the person is stands in the address, so that Back works.

function go(channel, thread = "") {
  location.hash = thread ? `${channel}/${thread}` : channel;
}

function arrive() {
  const [channel, thread = ""] = decodeURIComponent(location.hash.slice(1)).split("/");
  const mine = myChannels();
  here.channel = mine.some((one) => one.id === channel) ? channel : (mine.find((one) => one.kind === "im") ?? mine[0])?.id ?? "";
  const known = world.messages.has(keyOf(here.channel, thread)) && here.channel === channel;
  const before = here.thread;
  here.thread = known ? thread : "";
  unread.delete(here.channel);
  document.body.classList.remove("menu");
  find("menu").setAttribute("aria-expanded", "false");
  drawAll();
  // Who is writing elsewhere goes on writing there.
  if (here.thread && here.thread !== before && !find("main-input").value) {
    find("thread-input").focus({ preventScroll: true });
  }
}

function myChannels() {
  return [...world.channels.values()].filter((one) => one.members.includes(here.user) && !one.archived);
}

// Drawing.

const press = {
  chosen: (message, action) => chosen.get(`${message.channel}/${message.ts}/${action}/${here.user}`),
  send(message, action, value) {
    const what = { act: "press", user: here.user, channel: message.channel, ts: message.ts, action_id: action };
    if (value !== undefined) {
      what.value = value;
      chosen.set(`${message.channel}/${message.ts}/${action}/${here.user}`, value);
      redraw(message);
    }
    act(what).catch(problem);
  },
};

function react(message, name) {
  act({ act: "react", user: here.user, channel: message.channel, ts: message.ts, name }).catch(problem);
}

const atMain = () => ({ user: here.user, press, react, open: (m) => go(m.channel, m.thread_ts ?? m.ts) });
const atThread = () => ({ user: here.user, press, react });

function fill(list, messages, at) {
  const scroll = list.closest(".scroll");
  const nodes = [];
  let before = "";
  for (const message of messages) {
    const now = day(message.ts);
    if (now !== before) nodes.push(element("li", { className: "day", text: now }));
    before = now;
    nodes.push(draw(message, at));
  }
  list.replaceChildren(...nodes);
  scroll.scrollTop = scroll.scrollHeight;
}

function nearEnd(scroll) {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
}

/** Puts one message where it belongs in a list, and keeps the end in sight if it was. */
function place(list, message, at) {
  const scroll = list.closest(".scroll");
  const stay = nearEnd(scroll);
  const old = list.querySelector(`[data-key="${CSS.escape(keyOf(message.channel, message.ts))}"]`);
  const focused = old?.contains(document.activeElement);
  const made = draw(message, at);
  if (old) {
    old.replaceWith(made);
    if (focused) made.querySelector("button, a")?.focus({ preventScroll: true });
  } else {
    const next = [...list.querySelectorAll(".message")].find((one) => one.dataset.ts > message.ts);
    const last = [...list.querySelectorAll(".message")].pop();
    if (!next && (!last || day(last.dataset.ts) !== day(message.ts))) {
      list.append(element("li", { className: "day", text: day(message.ts) }));
    }
    list.insertBefore(made, next ?? null);
  }
  if (stay) scroll.scrollTop = scroll.scrollHeight;
}

const waiting = new Map();
let frame = 0;

/** Draws a message again at the next frame, however often it changes until then. */
function redraw(message) {
  waiting.set(keyOf(message.channel, message.ts), message);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    for (const one of waiting.values()) drawOne(one);
    waiting.clear();
  });
}

function drawOne(message) {
  if (message.channel !== here.channel) return;
  if (message.only_for && message.only_for !== here.user) return;
  const inMain = message.only_for ? !message.thread_ts
    : !message.thread_ts || message.thread_ts === message.ts || message.subtype === "thread_broadcast";
  if (inMain) place(find("main-list"), message, atMain());
  if (here.thread && isIn(message, here.channel, here.thread, here.user)) {
    place(find("thread-list"), message, atThread());
  }
  find("welcome").hidden = find("main-list").childElementCount > 0;
}

function drawStatus() {
  const text = world.statuses.get(keyOf(here.channel, here.thread)) ?? "";
  const line = find("status");
  line.hidden = !text;
  line.textContent = text ? `${userName(world.bot)} ${text}` : "";
  const scroll = line.closest(".scroll");
  if (nearEnd(scroll)) scroll.scrollTop = scroll.scrollHeight;
}

function drawChannels() {
  const lists = { channels: find("channels"), dms: find("dms") };
  for (const list of Object.values(lists)) list.replaceChildren();
  for (const channel of myChannels()) {
    const dm = channel.kind === "im";
    const secret = channel.kind === "group";
    const mark = secret ? icon("lock") : element("span", { text: dm ? "●" : "#" });
    mark.setAttribute("aria-hidden", "true");
    const name = dm ? userName(world.bot) : channel.name;
    const button = element("button", {}, mark, element("span", { text: name }));
    const count = unread.get(channel.id);
    if (count) {
      button.className = "unread";
      button.append(element("span", { className: "count", text: String(count), label: `${count} ${word("unread")}` }));
    }
    if (channel.id === here.channel) button.setAttribute("aria-current", "page");
    button.onclick = () => {
      go(channel.id);
      find("main-input").focus();
    };
    lists[dm ? "dms" : "channels"].append(element("li", {}, button));
  }
}

function title() {
  const channel = world.channels.get(here.channel);
  if (!channel) return "";
  return channel.kind === "im" ? userName(world.bot) : `#${channelName(channel.id)}`;
}

function drawWords() {
  document.documentElement.lang = spoken();
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = word(node.dataset.word);
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", word(node.dataset.label));
    if (node.tagName === "BUTTON") node.title = word(node.dataset.label);
  }
  const dm = world.channels.get(here.channel)?.kind === "im";
  find("welcome").firstElementChild.textContent = word(dm ? "welcomeDm" : "welcome");
  find("main-input").placeholder = word("write", title());
  find("main-input").setAttribute("aria-label", word("write", title()));
  find("thread-input").placeholder = word("reply");
  find("thread-input").setAttribute("aria-label", word("reply"));
}

function drawUsers() {
  const people = [...world.users.values()].filter((user) => !user.is_bot && !user.deleted);
  find("user").replaceChildren(...people.map((user) => {
    const refused = user.name === "mallory" ? ` ${word("refused")}` : "";
    const option = element("option", { text: `${user.display_name} · ${user.locale}${refused}` });
    option.value = user.id;
    option.selected = user.id === here.user;
    return option;
  }));
}

function drawIdeas() {
  const dm = world.channels.get(here.channel)?.kind === "im";
  find("ideas").replaceChildren(...IDEAS.map((idea) => {
    const text = dm ? idea : `@interzone ${idea}`;
    const button = element("button", { text });
    button.type = "button";
    button.onclick = () => {
      const input = find("main-input");
      input.value = text;
      input.dispatchEvent(new Event("input"));
      input.focus();
    };
    return button;
  }));
}

function drawAll() {
  const wanted = find("language").value;
  speak(wanted === "auto" ? (world.users.get(here.user)?.locale ?? navigator.language).slice(0, 2) : wanted);
  drawUsers();
  drawWords();
  drawChannels();
  drawIdeas();
  find("title").textContent = title();
  document.title = `${title()} · Playground`;
  const messages = inChannel(here.channel, here.user);
  find("welcome").hidden = messages.length > 0;
  fill(find("main-list"), messages, atMain());
  find("thread").hidden = !here.thread;
  fill(find("thread-list"), here.thread ? inThread(here.channel, here.thread, here.user) : [], atThread());
  drawStatus();
}

// Writing.

async function send(text, files, thread) {
  const where = { user: here.user, channel: here.channel };
  if (thread) where.thread_ts = thread;
  let ts;
  if (files.length) {
    ts = await upload(files, { ...where, text });
  } else {
    const broadcast = Boolean(thread) && find("broadcast").checked;
    ts = await act({ act: "post", ...where, text, broadcast });
    find("broadcast").checked = false;
  }
  // The answer comes in the thread, so that is opened when something happens there.
  if (thread) return;
  hoped = keyOf(where.channel, ts);
  // It may have begun before we were told that the question was sent.
  const begun = [...world.messages.values()].some((m) => m.channel === where.channel && m.thread_ts === ts && m.ts !== ts);
  if (begun || world.statuses.has(hoped)) answered(where.channel, ts);
}

let hoped = "";

/** Opens the thread of the last question when its answer begins. */
function answered(channel, thread) {
  if (hoped && hoped === keyOf(channel, thread) && channel === here.channel) {
    hoped = "";
    go(channel, thread);
  }
}

// What happens.

listen((kind, about) => {
  switch (kind) {
    case "all":
      if (!world.users.has(here.user)) here.user = remembered("user", "");
      if (!world.users.has(here.user)) here.user = whoSpeaks(navigator.language ?? "en");
      arrive();
      break;
    case "message":
      heard(about.message, about.before);
      break;
    case "gone":
      for (const node of document.querySelectorAll(`[data-key="${CSS.escape(keyOf(about.channel, about.ts))}"]`)) node.remove();
      break;
    case "status":
      drawStatus();
      if (about.text) answered(about.channel, about.thread_ts);
      if (about.text && about.channel === here.channel) announce(`${userName(world.bot)} ${about.text}`);
      break;
    case "offline":
      find("offline").hidden = false;
      break;
    case "online":
      find("offline").hidden = true;
      break;
  }
});

function heard(message, before) {
  redraw(message);
  const mine = world.channels.get(message.channel)?.members.includes(here.user);
  const forMe = mine && (!message.only_for || message.only_for === here.user);
  if (!before && forMe && message.channel !== here.channel && message.user !== here.user) {
    unread.set(message.channel, (unread.get(message.channel) ?? 0) + 1);
    drawChannels();
  }
  if (!forMe || message.channel !== here.channel || message.user !== world.bot) return;
  if (message.thread_ts) answered(message.channel, message.thread_ts);
  // A screen reader hears that an answer begins, and the whole of it when it stands.
  if (!before && message.streaming) announce(word("isAnswering", userName(message.user)));
  else if (!message.streaming && (!before || before.streaming)) {
    announce(word("says", userName(message.user), spokenText(message)));
  }
}

/** Somebody who may ask and speaks the browser's language, so that a newcomer can read what is said. */
function whoSpeaks(language) {
  const people = [...world.users.values()].filter((user) => !user.is_bot && !user.deleted);
  const same = people.find((user) => user.locale?.slice(0, 2) === language.slice(0, 2));
  return (same ?? people[0])?.id ?? "";
}

find("user").onchange = (event) => {
  here.user = event.target.value;
  remember("user", here.user);
  unread.clear();
  const dm = [...world.channels.values()].find((one) => one.kind === "im" && one.members.includes(here.user));
  const stays = world.channels.get(here.channel)?.members.includes(here.user);
  if (stays || !dm) arrive();
  else go(dm.id);
};
find("language").onchange = (event) => {
  remember("language", event.target.value);
  drawAll();
};
find("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
};
find("menu").onclick = () => {
  const open = document.body.classList.toggle("menu");
  find("menu").setAttribute("aria-expanded", String(open));
  if (open) find("sidebar").querySelector("button")?.focus();
};
find("main").addEventListener("click", () => {
  if (document.body.classList.contains("menu")) find("menu").click();
});
find("close").onclick = () => {
  go(here.channel);
  find("main-input").focus();
};
addEventListener("hashchange", arrive);
addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("menu")) find("menu").click();
    else if (here.thread) find("close").click();
  } else if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    find(here.thread ? "thread-input" : "main-input").focus();
  } else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    event.preventDefault();
    const mine = myChannels();
    const at = mine.findIndex((one) => one.id === here.channel);
    const next = mine[at + (event.key === "ArrowUp" ? -1 : 1)];
    if (next) go(next.id);
  }
});

const theme = remembered("theme", "");
if (theme) document.documentElement.dataset.theme = theme;
find("language").value = remembered("language", "auto");
speak((navigator.language ?? "en").slice(0, 2));
drawWords();
composer(find("main-form"), (text, files) => send(text, files, ""), problem);
composer(find("thread-form"), (text, files) => send(text, files, here.thread), problem);
follow();
