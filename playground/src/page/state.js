// The state of the page: a copy of the workspace, updated by the server.

export const world = {
  revision: 0,
  bot: "",
  users: new Map(),
  channels: new Map(),
  messages: new Map(),
  whispers: new Map(),
  statuses: new Map(),
};

export const keyOf = (channel, ts) => `${channel}/${ts}`;

const listeners = new Set();
const endings = new Map();

/** Calls `listener` for every change, with its kind and subject, until the returned function is called. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(kind, about) {
  for (const listener of listeners) listener(kind, about);
}

export function userName(id) {
  return world.users.get(id)?.display_name ?? id;
}

export function channelName(id) {
  return world.channels.get(id)?.name ?? id;
}

export const names = { user: userName, channel: channelName };

/**
 * Returns the messages shown in a channel, oldest first, with ephemeral messages for `user`, unless they are shown in
 * the open thread.
 */
export function inChannel(channel, user, open) {
  return sorted([...world.messages.values()].filter((m) => stands(m, channel, user, open)),
    [...world.whispers.values()].filter((m) => stands(m, channel, user, open)));
}

/** Returns true if a message is shown in a channel for `user`. */
export function stands(message, channel, user, open) {
  if (message.channel !== channel) return false;
  if (!message.only_for) {
    return !message.thread_ts || message.thread_ts === message.ts || message.subtype === "thread_broadcast";
  }
  return message.only_for === user && !message.thread_ts && !(open && isIn(message, channel, open, user));
}

/** Returns true if the bot is busy in a thread. */
export function isBusy(channel, thread) {
  return world.statuses.has(keyOf(channel, thread)) ||
    [...world.messages.values()].some((m) => m.streaming && m.channel === channel && m.thread_ts === thread);
}

/**
 * Returns a thread, oldest first, with its ephemeral messages for `user`. An ephemeral message in the channel after
 * their question is about that question, so it is shown here too: on a narrow screen only the thread is visible.
 */
export function inThread(channel, thread, user) {
  return sorted([...world.messages.values()].filter((m) => isIn(m, channel, thread, user)),
    [...world.whispers.values()].filter((m) => isIn(m, channel, thread, user)));
}

/** Returns true if a message is shown in a thread for `user`. */
export function isIn(message, channel, thread, user) {
  if (message.channel !== channel) return false;
  if (message.only_for && message.only_for !== user) return false;
  if (message.ts === thread || message.thread_ts === thread) return true;
  if (!message.only_for || message.thread_ts) return false;
  const asked = [...world.messages.values()].filter((m) => m.channel === channel && m.user === user &&
    m.ts < message.ts && (!m.thread_ts || m.thread_ts === m.ts));
  return asked.reduce((latest, m) => (m.ts > latest ? m.ts : latest), "") === thread;
}

function sorted(some, more) {
  return [...some, ...more].sort((a, b) => (a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0));
}

async function load() {
  const answer = await fetch("/playground/state");
  if (!answer.ok) throw new Error(String(answer.status));
  const state = await answer.json();
  world.revision = state.revision;
  world.bot = state.bot;
  world.users = new Map(state.users.map((user) => [user.id, user]));
  world.channels = new Map(state.channels.map((channel) => [channel.id, channel]));
  world.messages = new Map(state.messages.map((m) => [keyOf(m.channel, m.ts), m]));
  world.whispers = new Map(state.ephemerals.map((m) => [keyOf(m.channel, m.ts), m]));
  world.statuses = new Map(state.statuses.map((s) => [keyOf(s.channel, s.thread_ts), s.text]));
  tell("all");
}

function take(change) {
  switch (change.type) {
    case "message": {
      const key = keyOf(change.message.channel, change.message.ts);
      const before = world.messages.get(key);
      world.messages.set(key, change.message);
      tell("message", { message: change.message, before });
      break;
    }
    case "gone": {
      const key = keyOf(change.channel, change.ts);
      const before = world.messages.get(key) ?? world.whispers.get(key);
      world.messages.delete(key);
      world.whispers.delete(key);
      if (before) tell("gone", before);
      break;
    }
    case "ephemeral":
      world.whispers.set(keyOf(change.message.channel, change.message.ts), change.message);
      tell("message", { message: change.message });
      break;
    case "user":
      world.users.set(change.user.id, change.user);
      tell("all");
      break;
    case "status": {
      const key = keyOf(change.channel, change.thread_ts);
      if (change.text) world.statuses.set(key, change.text);
      else world.statuses.delete(key);
      clearTimeout(endings.get(key));
      endings.delete(key);
      // Slack removes a status after two minutes without an event.
      if (change.text) endings.set(key, setTimeout(() => take({ ...change, text: "" }), 120_000));
      tell("status", change);
      break;
    }
    case "reset":
      load().catch(() => tell("offline"));
      break;
  }
}

/** Loads the workspace and follows its changes for as long as the page is open. */
export async function follow() {
  try {
    await load();
  } catch {
    tell("offline");
    setTimeout(follow, 1000);
    return;
  }
  tell("online");
  const source = new EventSource(`/playground/events?since=${world.revision}`);
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onerror = () => {
    // A restarted server counts revisions from the beginning, so everything is loaded again.
    source.close();
    tell("offline");
    setTimeout(follow, 1000);
  };
}

/** Performs a user action; returns the resulting ts. */
export async function act(what) {
  return done(await fetch("/playground/acts", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(what),
  }));
}

/** Shares files in one message. */
export async function upload(files, fields) {
  const form = new FormData();
  for (const file of files) form.append("file", file, file.name);
  const query = new URLSearchParams(fields);
  return done(await fetch(`/playground/upload?${query}`, { method: "POST", body: form }));
}

async function done(answer) {
  const text = await answer.text();
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || String(answer.status));
  }
  if (!said.ok) throw new Error(said.error);
  return said.ts;
}
