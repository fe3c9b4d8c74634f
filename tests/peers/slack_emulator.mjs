// A Slack emulator that others wrote, unmodified, on a loopback port: it signs events, takes posts, edits,
// reactions and uploads, and knows nothing of us. Usage: node slack_emulator.mjs NODE_MODULES BOT_TOKEN SECRET
//
// Says on its first line where it is and who is in it, as JSON; then takes a command a line, as JSON, and
// answers each with a line; ends with its input.
//   {"events": URL}                                  sends events there
//   {"tamper": true}                                 signs another body than it sends, from now on
//   {"post": TEXT, "channel": ID}                    the person posts, and the message's name is told
//   {"marked": EMOJI, "channel": ID, "thread": TS}   the thread, when its first message carries the emoji
//   {"whispers": COUNT}                              what one person alone was told, when there is so much
//   {"file": ID}                                     the bytes of a file, as text
//   {"deliveries": true}                             each event's type and the HTTP status it was answered with
import { readFileSync, readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [modules, botToken, signingSecret] = process.argv.slice(2);
const PERSON = 'xoxp-the-person';
const BOT = 'U000000009';
const folder = `${modules}/emulate/dist`;

// What it serves Slack with has no name of its own to be asked for by.
const slack = readdirSync(folder).find((name) =>
  name.endsWith('.js') && name.startsWith('dist-') && readFileSync(`${folder}/${name}`, 'utf8').includes('slackPlugin'));
const { slackPlugin, getSlackStore } = await import(pathToFileURL(`${folder}/${slack}`));
const { createEmulator } = await import(pathToFileURL(`${folder}/api.js`));

// Woken after each request, for then something may have changed.
let wake = () => {};
async function until(find) {
  for (;;) {
    const change = new Promise((resolve) => { wake = resolve; });
    const found = await find();
    if (found) return found;
    await change;
  }
}

// Where events go is told to whoever sends them, and that one is shown to plugins alone.
let inside;
const { register } = slackPlugin;
slackPlugin.register = (app, store, webhooks, ...more) => {
  inside = { store, webhooks };
  app.use('*', async (_, next) => {
    await next();
    wake();
  });
  register.call(slackPlugin, app, store, webhooks, ...more);
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
        { token: PERSON, type: 'user', user: 'ann' },
      ],
    },
  },
});
const state = getSlackStore(inside.store);

/** Calls a method as somebody would. */
async function call(token, method, args) {
  const answer = await fetch(`${emulator.url}/api/${method}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: new URLSearchParams(args),
  });
  const said = await answer.json();
  if (!said.ok) throw new Error(`${method}: ${JSON.stringify(said)}`);
  return said;
}

const ann = state.users.findOneBy('name', 'ann').user_id;
const general = state.channels.findOneBy('name', 'general');
state.channels.update(general.id, { members: [...general.members, ann, BOT] });
const dm = await call(PERSON, 'conversations.open', { users: BOT });

const commands = {
  async events({ events }) {
    inside.webhooks.register({ url: events, events: ['*'], active: true, owner: 'slack' });
    return {};
  },
  async tamper() {
    const { headerFactory } = inside.webhooks;
    inside.webhooks.setHeaderFactory((context) => headerFactory({ ...context, body: `${context.body} ` }));
    return {};
  },
  async post({ post, channel }) {
    return { ts: (await call(PERSON, 'chat.postMessage', { channel, text: post })).ts };
  },
  async marked({ marked, channel, thread }) {
    await until(() => state.messages.findBy('channel_id', channel).some(({ ts, reactions }) =>
      ts === thread && reactions.some(({ name, users }) => name === marked && users.includes(BOT))));
    return (await call(PERSON, 'conversations.replies', { channel, ts: thread })).messages;
  },
  async whispers({ whispers }) {
    await until(() => state.ephemeralMessages.all().length >= whispers);
    return state.ephemeralMessages.all().map(({ target_user, text }) => ({ user: target_user, text }));
  },
  async file({ file }) {
    const { file: { url_private } } = await call(PERSON, 'files.info', { file });
    const answer = await fetch(url_private, { headers: { authorization: `Bearer ${PERSON}` } });
    return { status: answer.status, text: await answer.text() };
  },
  async deliveries() {
    return inside.webhooks.getDeliveries().map(({ event, status_code }) => [event, status_code]);
  },
};

const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
say({ api: `${emulator.url}/api/`, team: 'T000000001', user: ann, dm: dm.channel.id, general: general.channel_id });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    const name = Object.keys(command).find((key) => key in commands);
    say(await commands[name](command));
  } catch (error) {
    say({ error: String(error) });
  }
}
process.exit(0);
