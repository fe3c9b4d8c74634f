// Tests a playground with Slack's unmodified JavaScript SDKs: Socket Mode, and the Web API with streams and uploads.
// Usage: node slack_socket.mjs NODE_MODULES API_URL BOT_TOKEN APP_TOKEN
//
// Prints `connected` each time its socket is open, and a line of JSON for each event. Exits at the end of its input.
import { createRequire } from 'node:module';

const [modules, api, botToken, appToken] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { LogLevel, SocketModeClient } = require('@slack/socket-mode');
const { WebClient } = require('@slack/web-api');

const print = (line) => process.stdout.write(`${line}\n`);
const web = new WebClient(botToken, { slackApiUrl: api, retryConfig: { retries: 0 } });
const socket = new SocketModeClient({
  appToken, logLevel: LogLevel.ERROR, clientOptions: { slackApiUrl: api },
  // Also the delay before it opens another socket.
  clientPingTimeout: 500,
});

/** Answers a question in a DM with a reaction, a status, a stream and a file. */
async function answer(event) {
  const { channel, ts } = event;
  await web.reactions.add({ channel, timestamp: ts, name: 'eyes' });
  await web.assistant.threads.setStatus({ channel_id: channel, thread_ts: ts, status: 'is thinking…' });
  const stream = web.chatStream({ channel, thread_ts: ts, buffer_size: 2 });
  await stream.append({ markdown_text: '**Hello' });
  await stream.append({ markdown_text: ' there**' });
  await stream.stop();
  await web.files.uploadV2({ channel_id: channel, thread_ts: ts, filename: 'a.txt', file: Buffer.from('one') });
  const { messages } = await web.conversations.replies({ channel, ts });
  const info = await web.users.info({ user: event.user, include_locale: true });
  print(JSON.stringify({ answered: messages.length, locale: info.user.locale }));
}

socket.on('connected', () => print('connected'));
socket.on('slack_event', async ({ ack, body, retry_num }) => {
  await ack();
  const event = body.event ?? {};
  print(JSON.stringify({ type: body.type, text: event.text ?? '', retry: retry_num ?? 0 }));
  if (body.type === 'event_callback' && !event.bot_id && !event.hidden && event.text === 'please') {
    await answer(event);
  }
});
socket.on('interactive', async ({ ack }) => ack());
process.stdin.on('end', async () => {
  await socket.disconnect();
  process.exit(0);
});
process.stdin.resume();
await socket.start();
