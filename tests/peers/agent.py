"""Command agent for the tests: JSON-RPC on stdin and stdout, one message per line.

The first word of a message is a command, so that a test can request valid and invalid behaviour of an agent. It needs
only Python's standard library.
"""

import json
import os
import sys
import threading
import time

OUT = threading.Lock()
CANCELED = {}


def raw(line):
    """Writes bytes unchanged, without interleaving."""
    with OUT:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def send(message):
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def notify(method, **params):
    send({"method": method, "params": params})


def text_of(message):
    return "".join(part.get("content") or "" for part in message["parts"] if part["type"] == "TextPart")


def agent_message(text):
    return {"role": "agent", "parts": [{"type": "TextPart", "content": text}]}


def wait_for_file(path, task):
    """Waits until the test creates the file. Returns false if the task is canceled first."""
    while not os.path.exists(path):
        if CANCELED[task].wait(0.01):
            return False
    return True


def run(request, params):
    task = params["taskId"]
    CANCELED[task] = threading.Event()
    command, _, rest = text_of(params["message"]).partition(" ")
    answer = {"state": "completed"}

    if command == "echo":
        answer["message"] = agent_message(rest)
    elif command == "words":
        for piece in rest.split():
            notify("agent.text", taskId=task, delta=piece + " ")
        answer["message"] = agent_message(" ".join(rest.split()) + " ")
    elif command == "status":
        notify("agent.status", taskId=task, text=rest)
        answer["message"] = agent_message("status sent")
    elif command == "file":
        name, _, content = rest.partition(" ")
        part = {"type": "FilePart", "content": content, "mimeType": "text/plain", "filename": name}
        artifact = {"artifactId": "a-" + name, "name": name, "parts": [part]}
        notify("agent.artifact", taskId=task, artifact=artifact, lastChunk=True)
        answer["message"] = agent_message("made " + name)
    elif command == "gate":
        # gate FOLDER N: sends N pieces of text, each when FOLDER contains a file with its number.
        folder, _, count = rest.rpartition(" ")
        with open(os.path.join(folder, f"began-{os.getpid()}"), "w"):
            pass
        notify("agent.status", taskId=task, text="at the gate")
        for number in range(1, int(count) + 1):
            if not wait_for_file(os.path.join(folder, str(number)), task):
                return
            notify("agent.text", taskId=task, delta=f"piece {number};")
        answer["message"] = agent_message("".join(f"piece {n};" for n in range(1, int(count) + 1)))
    elif command == "stamp":
        # stamp FILE TEXT: appends a line to a file.
        path, _, text = rest.rpartition(" ")
        with open(path, "a") as file:
            file.write(text + "\n")
        answer["message"] = agent_message("stamped")
    elif command == "history":
        texts = [text_of(message) for message in params["history"]]
        answer["message"] = agent_message(json.dumps(texts))
    elif command == "metadata":
        answer["message"] = agent_message(json.dumps(params.get("metadata"), sort_keys=True))
    elif command == "ask":
        answer = {"state": "input_required", "message": agent_message(rest)}
    elif command == "reject":
        answer = {"state": "rejected", "message": agent_message(rest)}
    elif command == "fail":
        answer = {"state": "failed", "message": agent_message(rest)}
    elif command == "error":
        send({"id": request, "error": {"code": 1, "message": rest}})
        return
    elif command == "hang":
        # Ignores cancellation too.
        with open(rest, "w"):
            pass
        threading.Event().wait()
    elif command == "crash":
        os._exit(3)
    elif command == "rubbish":
        for line in [
            b"Traceback (most recent call last):\n",
            b"\xff\xfe not even text \x80\n",
            b"{\"jsonrpc\": \"2.0\", \"method\": \"agent.text\"\n",
            b"[" * 100_000 + b"\n",
            b"null\n",
            b"42\n",
            b"{}\n",
            b"\n",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"unknown-id\",\"result\":{}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.unknown\",\"params\":{}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.text\",\"params\":{\"taskId\":\"not-a-task\",\"delta\":\"x\"}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.text\",\"params\":{\"taskId\":7}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.artifact\",\"params\":[]}\n",
        ]:
            raw(line)
        answer["message"] = agent_message("no rubbish")
    elif command == "nonsense":
        # A response with an invalid result.
        send({"id": request, "result": {"state": "sideways", "message": 7}})
        return
    elif command == "flood":
        # A very long line.
        block = b"x" * (1 << 20)
        for _ in range(int(rest)):
            raw(block)
        raw(b"\n")
        answer["message"] = agent_message("flooded")
    else:
        answer["message"] = agent_message("You said: " + command + (" " + rest if rest else ""))
    if not CANCELED[task].is_set():
        send({"id": request, "result": answer})


def main():
    for line in sys.stdin.buffer:
        message = json.loads(line)
        params = message.get("params") or {}
        if message.get("method") == "agent.run":
            threading.Thread(target=run, args=(message["id"], params), daemon=True).start()
        elif message.get("method") == "agent.cancel":
            CANCELED.setdefault(params["taskId"], threading.Event()).set()
    # The zone has closed the input, so running turns are abandoned.
    os._exit(0)


if __name__ == "__main__":
    # Output on stderr must not affect the protocol.
    print("agent started", time.time(), file=sys.stderr, flush=True)
    main()
