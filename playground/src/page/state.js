// The state of the page: a copy of the workspace, updated by the server.

export const workspace = {
  revision: 0,
  bot: "",
  users: new Map(),
  channels: new Map(),
  messages: new Map(),
  ephemerals: new Map(),
  statuses: new Map(),
};

export const messageKey = (channel, ts) => `${channel}/${ts}`;

const listeners = new Set();
const statusTimers = new Map();

/** Calls `listener` for every change, with its kind and subject, until the returned function is called. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notify(kind, subject) {
  for (const listener of listeners) listener(kind, subject);
}

export function userName(id) {
  return workspace.users.get(id)?.display_name ?? id;
}

export function channelName(id) {
  return workspace.channels.get(id)?.name ?? id;
}

export const names = { user: userName, channel: channelName };

/**
 * Returns the messages shown in a channel, oldest first, with ephemeral messages for `user`, unless they are shown in
 * the open thread.
 */
export function channelMessages(channel, user, openThread) {
  return allMessages().filter((message) => isShownInChannel(message, channel, user, openThread)).sort(compareTs);
}

/** Returns true if a message is shown in a channel for `user`. */
export function isShownInChannel(message, channel, user, openThread) {
  if (message.channel !== channel) return false;
  if (!message.only_for) {
    return !message.thread_ts || message.thread_ts === message.ts || message.subtype === "thread_broadcast";
  }
  return message.only_for === user && !message.thread_ts &&
    !(openThread && isShownInThread(message, channel, openThread, user));
}

/** Returns true if the bot is busy in a thread. */
export function isBusy(channel, thread) {
  return workspace.statuses.has(messageKey(channel, thread)) || [...workspace.messages.values()].some((message) =>
    message.streaming && message.channel === channel && message.thread_ts === thread);
}

/**
 * Returns a thread, oldest first, with its ephemeral messages for `user`. An ephemeral message in the channel after
 * their question is about that question, so it is shown here too: on a narrow screen only the thread is visible.
 */
export function threadMessages(channel, thread, user) {
  return allMessages().filter((message) => isShownInThread(message, channel, thread, user)).sort(compareTs);
}

/** Returns true if a message is shown in a thread for `user`. */
export function isShownInThread(message, channel, thread, user) {
  if (message.channel !== channel) return false;
  if (message.only_for && message.only_for !== user) return false;
  if (message.ts === thread || message.thread_ts === thread) return true;
  if (!message.only_for || message.thread_ts) return false;
  const questions = [...workspace.messages.values()].filter((other) => other.channel === channel &&
    other.user === user && other.ts < message.ts && (!other.thread_ts || other.thread_ts === other.ts));
  return questions.reduce((latest, { ts }) => (ts > latest ? ts : latest), "") === thread;
}

function allMessages() {
  return [...workspace.messages.values(), ...workspace.ephemerals.values()];
}

function compareTs(a, b) {
  return a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0;
}

async function load() {
  const response = await fetch("/playground/state");
  if (!response.ok) throw new Error(String(response.status));
  const snapshot = await response.json();
  const byKey = (messages) => new Map(messages.map((message) => [messageKey(message.channel, message.ts), message]));
  workspace.revision = snapshot.revision;
  workspace.bot = snapshot.bot;
  workspace.users = new Map(snapshot.users.map((user) => [user.id, user]));
  workspace.channels = new Map(snapshot.channels.map((channel) => [channel.id, channel]));
  workspace.messages = byKey(snapshot.messages);
  workspace.ephemerals = byKey(snapshot.ephemerals);
  workspace.statuses = new Map(snapshot.statuses.map(({ channel, thread_ts, text }) =>
    [messageKey(channel, thread_ts), text]));
  notify("all");
}

function applyChange(change) {
  switch (change.type) {
    case "message": {
      const key = messageKey(change.message.channel, change.message.ts);
      const previous = workspace.messages.get(key);
      workspace.messages.set(key, change.message);
      notify("message", { message: change.message, previous });
      break;
    }
    case "gone": {
      const key = messageKey(change.channel, change.ts);
      const deleted = workspace.messages.get(key) ?? workspace.ephemerals.get(key);
      workspace.messages.delete(key);
      workspace.ephemerals.delete(key);
      if (deleted) notify("deleted", deleted);
      break;
    }
    case "ephemeral":
      workspace.ephemerals.set(messageKey(change.message.channel, change.message.ts), change.message);
      notify("message", { message: change.message });
      break;
    case "user":
      workspace.users.set(change.user.id, change.user);
      notify("all");
      break;
    case "status": {
      const key = messageKey(change.channel, change.thread_ts);
      if (change.text) workspace.statuses.set(key, change.text);
      else workspace.statuses.delete(key);
      clearTimeout(statusTimers.get(key));
      statusTimers.delete(key);
      // Slack removes a status after two minutes without an event.
      if (change.text) statusTimers.set(key, setTimeout(() => applyChange({ ...change, text: "" }), 120_000));
      notify("status", change);
      break;
    }
    case "reset":
      load().catch(() => notify("offline"));
      break;
  }
}

/** Loads the workspace and applies its changes for as long as the page is open. */
export async function connect() {
  try {
    await load();
  } catch {
    notify("offline");
    setTimeout(connect, 1000);
    return;
  }
  notify("online");
  const source = new EventSource(`/playground/events?since=${workspace.revision}`);
  source.onmessage = (event) => applyChange(JSON.parse(event.data));
  source.onerror = () => {
    // A restarted server counts revisions from the beginning, so everything is loaded again.
    source.close();
    notify("offline");
    setTimeout(connect, 1000);
  };
}

/** Performs a user action; returns the resulting ts. */
export async function performAction(action) {
  return readTs(await fetch("/playground/acts", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(action),
  }));
}

/** Shares files in one message; returns its ts. */
export async function upload(files, fields) {
  const form = new FormData();
  for (const file of files) form.append("file", file, file.name);
  const query = new URLSearchParams(fields);
  return readTs(await fetch(`/playground/upload?${query}`, { method: "POST", body: form }));
}

async function readTs(response) {
  const text = await response.text();
  let result;
  try {
    result = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || String(response.status));
  }
  if (!result.ok) throw new Error(result.error);
  return result.ts;
}
