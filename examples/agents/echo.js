// Example agent for Interzone: repeats the text of a message word by word.
const readline = require("node:readline");

const stopped = new Set();

function send(message) {
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
}

async function run(id, { taskId, message }) {
  const texts = message.parts.filter((part) => part.type === "TextPart");
  const words = texts.map((part) => part.content).join(" ").split(/\s+/).filter(Boolean);
  send({ method: "agent.status", params: { taskId, text: "reading" } });
  for (const word of words) {
    // Yields, so that a cancellation can be read between two words.
    await new Promise(setImmediate);
    if (stopped.delete(taskId)) {
      return send({ id, result: { state: "failed" } });
    }
    send({ method: "agent.text", params: { taskId, delta: word + " " } });
  }
  send({ id, result: { state: "completed" } });
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "agent.run") {
    stopped.delete(params.taskId);
    run(id, params);
  } else if (method === "agent.cancel") {
    stopped.add(params.taskId);
  }
});
