// The page: navigation, sending, and redrawing on changes.

import { composer } from "/compose.js";
import { day, draw, element, spokenText } from "/draw.js";
import { drawChannels, drawFrame, drawWords } from "/frame.js";
import { act, follow, inChannel, inThread, isBusy, isIn, keyOf, listen, stands, upload, userName, world } from "/state.js";
import { drawWelcome, mayAsk } from "/welcome.js";
import { speak, word } from "/words.js";

const find = (id) => document.getElementById(id);
/** True if the thread covers the channel, as in the style sheet. */
const narrow = matchMedia("(max-width: 900px)");

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
    // Storage may be unavailable in private windows; the page works without it.
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

// The location hash holds channel and thread, so that Back works.

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
  menu(false);
  drawAll();
  // Does not take the focus from a text in progress.
  if (here.thread && here.thread !== before && !find("main-input").value) {
    find("thread-input").focus({ preventScroll: true });
  }
}

/** Opens or closes the channel list on narrow screens. */
function menu(open) {
  document.body.classList.toggle("menu", open);
  find("menu").setAttribute("aria-expanded", String(open));
  cover();
}

/** Makes covered elements unreachable by keyboard. */
function cover() {
  const open = document.body.classList.contains("menu");
  find("main").inert = open || (narrow.matches && Boolean(here.thread));
  find("thread").inert = open;
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
  gather(list);
  scroll.scrollTop = scroll.scrollHeight;
}

/** Shows the author's name only once for consecutive messages. */
function gather(list) {
  let before = null;
  for (const node of list.children) {
    const plain = node.classList.contains("message") && !node.classList.contains("whisper");
    const again = plain && before?.dataset.user === node.dataset.user && node.dataset.ts - before.dataset.ts < 300 &&
      !before.querySelector(".under, .reactions");
    node.classList.toggle("again", Boolean(again));
    before = plain ? node : null;
  }
}

function nearEnd(scroll) {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
}

/** Inserts one message at its position in a list, and keeps scrolled to the end. */
function place(list, message, at) {
  const scroll = list.closest(".scroll");
  const stay = nearEnd(scroll);
  const old = list.querySelector(`[data-key="${CSS.escape(keyOf(message.channel, message.ts))}"]`);
  const reach = "button, a, [tabindex]";
  const focused = old ? [...old.querySelectorAll(reach)].indexOf(document.activeElement) : -1;
  const made = draw(message, at);
  if (old) {
    old.replaceWith(made);
    if (focused >= 0) (made.querySelectorAll(reach)[focused] ?? list.closest(".scroll")).focus({ preventScroll: true });
  } else {
    const next = [...list.querySelectorAll(".message")].find((one) => one.dataset.ts > message.ts);
    const last = [...list.querySelectorAll(".message")].pop();
    if (!next && (!last || day(last.dataset.ts) !== day(message.ts))) {
      list.append(element("li", { className: "day", text: day(message.ts) }));
    }
    list.insertBefore(made, next ?? null);
  }
  gather(list);
  if (stay) scroll.scrollTop = scroll.scrollHeight;
}

const waiting = new Map();
let frame = 0;

/** Redraws a message at the next frame, once for all changes until then. */
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
  if (stands(message, here.channel, here.user, here.thread)) place(find("main-list"), message, atMain());
  if (here.thread && isIn(message, here.channel, here.thread, here.user)) {
    place(find("thread-list"), message, atThread());
  }
  find("welcome").hidden = find("main-list").childElementCount > 0;
  drawHalt();
}

function drawStatus() {
  const text = world.statuses.get(keyOf(here.channel, here.thread)) ?? "";
  const line = find("status");
  const scroll = line.closest(".scroll");
  const stay = nearEnd(scroll);
  line.hidden = !text;
  line.textContent = text ? `${userName(world.bot)} ${text}` : "";
  drawHalt();
  if (stay) scroll.scrollTop = scroll.scrollHeight;
}

/** Shows the stop button of the thread while the bot is busy there. */
function drawHalt() {
  const button = find("halt");
  const busy = Boolean(here.thread) && isBusy(here.channel, here.thread);
  if (button.hidden !== busy) return;
  if (!busy && document.activeElement === button) find("thread-input").focus();
  button.hidden = !busy;
  button.disabled = false;
  button.lastElementChild.textContent = word("halt");
}

function drawMine() {
  drawChannels(here, myChannels(), unread, (channel) => {
    go(channel);
    find("main-input").focus();
  });
}

function drawAll() {
  speak((world.users.get(here.user)?.locale ?? navigator.language).slice(0, 2));
  drawFrame(here);
  drawMine();
  drawWelcome(world.users.get(here.user), world.channels.get(here.channel), start);
  const messages = inChannel(here.channel, here.user, here.thread);
  find("welcome").hidden = messages.length > 0;
  fill(find("main-list"), messages, atMain());
  find("thread").hidden = !here.thread;
  fill(find("thread-list"), here.thread ? inThread(here.channel, here.thread, here.user) : [], atThread());
  drawStatus();
  cover();
}

// Sending.

/** Actions of the welcome cards: send a text, choose a file, or open the direct message. */
const start = {
  say: (text) => send(text, [], "").catch(problem),
  attach: () => find("main-form").querySelector(".attach").click(),
  direct() {
    go(myChannels().find((one) => one.kind === "im").id);
    find("main-input").focus();
  },
};

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
  // The answer comes in the thread, which is opened when something happens there.
  if (thread) return;
  hoped = keyOf(where.channel, ts);
  // The answer may have started before the response to the post arrived.
  const begun = [...world.messages.values()].some((m) => m.channel === where.channel && m.thread_ts === ts && m.ts !== ts);
  if (begun || world.statuses.has(hoped)) answered(where.channel, ts);
}

let hoped = "";

/** Opens the thread of the last question when its answer starts. */
function answered(channel, thread) {
  if (hoped && hoped === keyOf(channel, thread) && channel === here.channel) {
    hoped = "";
    go(channel, thread);
  }
}

// Changes.

listen((kind, about) => {
  switch (kind) {
    case "all":
      if (!world.users.has(here.user)) here.user = remembered("user", "");
      if (!world.users.has(here.user)) here.user = whoSpeaks(navigator.language ?? "en");
      arrive();
      // With a keyboard, focus the input at once; a virtual keyboard would cover the page.
      if (document.activeElement === document.body && matchMedia("(hover: hover)").matches && !here.thread) {
        find("main-input").focus({ preventScroll: true });
      }
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
    drawMine();
  }
  if (!forMe || message.channel !== here.channel || message.user !== world.bot) return;
  if (message.thread_ts) answered(message.channel, message.thread_ts);
  // Announces to screen readers that an answer starts, and its text when it is complete.
  if (!before && message.streaming) announce(word("isAnswering", userName(message.user)));
  else if (!message.streaming && (!before || before.streaming)) {
    announce(word("says", userName(message.user), spokenText(message)));
  }
}

/** Returns an allowed user with the browser's language. */
function whoSpeaks(language) {
  const people = [...world.users.values()].filter((user) => !user.is_bot && !user.deleted && mayAsk(user));
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
  act({ act: "speak", user: here.user, locale: event.target.value }).catch(problem);
};
find("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
};
find("menu").onclick = () => {
  const open = !document.body.classList.contains("menu");
  menu(open);
  const list = find("sidebar");
  if (open) (list.querySelector("[aria-current]") ?? list.querySelector("button"))?.focus();
};
document.querySelector(".rooms").addEventListener("click", (event) => {
  if (!event.target.closest("#sidebar")) menu(false);
});
find("halt").onclick = (event) => {
  const button = event.currentTarget;
  const ready = (may) => {
    button.disabled = !may;
    button.lastElementChild.textContent = word(may ? "halt" : "halting");
  };
  ready(false);
  find("thread-input").focus();
  // A user may not be allowed to stop the answer, so the button is enabled again.
  setTimeout(() => ready(true), 5000);
  act({ act: "stop", user: here.user, channel: here.channel, thread_ts: here.thread }).catch(problem);
};
narrow.addEventListener("change", cover);
find("close").onclick = () => {
  go(here.channel);
  find("main-input").focus();
};
addEventListener("hashchange", arrive);
addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("menu")) {
      menu(false);
      find("menu").focus();
    } else if (here.thread) find("close").click();
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

speak((navigator.language ?? "en").slice(0, 2));
drawWords();
composer(find("main-form"), (text, files) => send(text, files, ""), problem);
composer(find("thread-form"), (text, files) => send(text, files, here.thread), problem);
follow();
