// Third-party Slack emulator, unmodified, on a loopback port: signs events, and accepts posts, edits, reactions and
// uploads. Usage: node slack_emulator.mjs NODE_MODULES BOT_TOKEN SECRET
//
// Prints its URL and ids as JSON on the first line. Then reads one JSON command per line and prints one line for each.
// Exits at the end of its input.
//   {"events": URL}                                  sends events to this URL
//   {"tamper": true}                                 from now on, signs another body than it sends
//   {"post": TEXT, "channel": ID}                    posts as the user; returns the `ts` of the message
//   {"marked": EMOJI, "channel": ID, "thread": TS}   waits for a reaction of the bot; returns the thread
//   {"whispers": COUNT}                              waits for this number of ephemeral messages; returns them
//   {"file": ID}                                     returns the content of a file as text
//   {"deliveries": true}                             returns the type and HTTP status of each event
import { readFileSync, readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [modules, botToken, signingSecret] = process.argv.slice(2);
const USER_TOKEN = 'xoxp-the-person';
const BOT = 'U000000009';
const folder = `${modules}/emulate/dist`;

// The package does not export its Slack plugin, so the file is found by its content.
const slack = readdirSync(folder).find((name) =>
  name.endsWith('.js') && name.startsWith('dist-') && readFileSync(`${folder}/${name}`, 'utf8').includes('slackPlugin'));
const { slackPlugin, getSlackStore } = await import(pathToFileURL(`${folder}/${slack}`));
const { createEmulator } = await import(pathToFileURL(`${folder}/api.js`));

// Called after each request, when the state may have changed.
let notifyChange = () => {};
async function waitFor(find) {
  for (;;) {
    const change = new Promise((resolve) => { notifyChange = resolve; });
    const found = await find();
    if (found) return found;
    await change;
  }
}

// The store and the webhook dispatcher are only passed to plugins.
let internals;
const { register } = slackPlugin;
slackPlugin.register = (app, store, webhooks, ...rest) => {
  internals = { store, webhooks };
  app.use('*', async (_, next) => {
    await next();
    notifyChange();
  });
  register.call(slackPlugin, app, store, webhooks, ...rest);
};

const emulator = await createEmulator({
  service: 'slack',
  port: 0,
  seed: {
    slack: {
      signing_secret: signingSecret,
      users: [{ name: 'ann', real_name: 'Ann' }],
      oauth_apps: [{
        client_id: '1.2', client_secret: 'x', app_id: 'A000000001', name: 'Interzone', redirect_uris: [],
        bot_id: 'B000000009', bot_user_id: BOT, bot_name: 'interzone',
      }],
      tokens: [
        { token: botToken, type: 'bot', user: BOT, bot_id: 'B000000009', app_id: 'A000000001' },
        { token: USER_TOKEN, type: 'user', user: 'ann' },
      ],
    },
  },
});
const state = getSlackStore(internals.store);

/** Calls a method of the Web API. */
async function call(token, method, args) {
  const response = await fetch(`${emulator.url}/api/${method}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: new URLSearchParams(args),
  });
  const body = await response.json();
  if (!body.ok) throw new Error(`${method}: ${JSON.stringify(body)}`);
  return body;
}

const ann = state.users.findOneBy('name', 'ann').user_id;
const general = state.channels.findOneBy('name', 'general');
state.channels.update(general.id, { members: [...general.members, ann, BOT] });
const dm = await call(USER_TOKEN, 'conversations.open', { users: BOT });

const commands = {
  async events({ events }) {
    internals.webhooks.register({ url: events, events: ['*'], active: true, owner: 'slack' });
    return {};
  },
  async tamper() {
    const { headerFactory } = internals.webhooks;
    internals.webhooks.setHeaderFactory((context) => headerFactory({ ...context, body: `${context.body} ` }));
    return {};
  },
  async post({ post, channel }) {
    return { ts: (await call(USER_TOKEN, 'chat.postMessage', { channel, text: post })).ts };
  },
  async marked({ marked, channel, thread }) {
    await waitFor(() => state.messages.findBy('channel_id', channel).some(({ ts, reactions }) =>
      ts === thread && reactions.some(({ name, users }) => name === marked && users.includes(BOT))));
    return (await call(USER_TOKEN, 'conversations.replies', { channel, ts: thread })).messages;
  },
  async whispers({ whispers }) {
    await waitFor(() => state.ephemeralMessages.all().length >= whispers);
    return state.ephemeralMessages.all().map(({ target_user, text }) => ({ user: target_user, text }));
  },
  async file({ file }) {
    const { file: { url_private } } = await call(USER_TOKEN, 'files.info', { file });
    const response = await fetch(url_private, { headers: { authorization: `Bearer ${USER_TOKEN}` } });
    return { status: response.status, text: await response.text() };
  },
  async deliveries() {
    return internals.webhooks.getDeliveries().map(({ event, status_code }) => [event, status_code]);
  },
};

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
print({ api: `${emulator.url}/api/`, team: 'T000000001', user: ann, dm: dm.channel.id, general: general.channel_id });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    const name = Object.keys(command).find((key) => key in commands);
    print(await commands[name](command));
  } catch (error) {
    print({ error: String(error) });
  }
}
process.exit(0);
