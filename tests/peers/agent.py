"""A command agent for the tests: JSON-RPC, one message a line, on stdin and stdout.

The first word of a message says what happens, so that a test can have every good and bad behaviour
of an agent by asking for it. Only Python itself is needed.
"""

import json
import os
import sys
import threading
import time

OUT = threading.Lock()
CANCELED = {}


def raw(line):
    """Writes bytes as they are, whole."""
    with OUT:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def send(message):
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def notify(method, **params):
    send({"method": method, "params": params})


def text_of(message):
    return "".join(part.get("content") or "" for part in message["parts"] if part["type"] == "TextPart")


def said(text):
    return {"role": "agent", "parts": [{"type": "TextPart", "content": text}]}


def wait_for_file(path, task):
    """The test opens a gate by making a file; a call to stop opens it too."""
    while not os.path.exists(path):
        if CANCELED[task].wait(0.01):
            return False
    return True


def run(request, params):
    task = params["taskId"]
    CANCELED[task] = threading.Event()
    word, _, rest = text_of(params["message"]).partition(" ")
    answer = {"state": "completed"}

    if word == "echo":
        answer["message"] = said(rest)
    elif word == "words":
        for piece in rest.split():
            notify("agent.text", taskId=task, delta=piece + " ")
        answer["message"] = said(" ".join(rest.split()) + " ")
    elif word == "status":
        notify("agent.status", taskId=task, text=rest)
        answer["message"] = said("told")
    elif word == "file":
        name, _, content = rest.partition(" ")
        part = {"type": "FilePart", "content": content, "mimeType": "text/plain", "filename": name}
        artifact = {"artifactId": "a-" + name, "name": name, "parts": [part]}
        notify("agent.artifact", taskId=task, artifact=artifact, lastChunk=True)
        answer["message"] = said("made " + name)
    elif word == "gate":
        # gate FOLDER N: N pieces of text, each when FOLDER has a file of its number.
        folder, _, count = rest.rpartition(" ")
        with open(os.path.join(folder, f"began-{os.getpid()}"), "w"):
            pass
        notify("agent.status", taskId=task, text="at the gate")
        for number in range(1, int(count) + 1):
            if not wait_for_file(os.path.join(folder, str(number)), task):
                return
            notify("agent.text", taskId=task, delta=f"piece {number};")
        answer["message"] = said("".join(f"piece {n};" for n in range(1, int(count) + 1)))
    elif word == "stamp":
        # stamp FILE WORD: leaves its mark behind those of others.
        path, _, mark = rest.rpartition(" ")
        with open(path, "a") as file:
            file.write(mark + "\n")
        answer["message"] = said("stamped")
    elif word == "history":
        spoken = [text_of(message) for message in params["history"]]
        answer["message"] = said(json.dumps(spoken))
    elif word == "metadata":
        answer["message"] = said(json.dumps(params.get("metadata"), sort_keys=True))
    elif word == "ask":
        answer = {"state": "input_required", "message": said(rest)}
    elif word == "reject":
        answer = {"state": "rejected", "message": said(rest)}
    elif word == "fail":
        answer = {"state": "failed", "message": said(rest)}
    elif word == "error":
        send({"id": request, "error": {"code": 1, "message": rest}})
        return
    elif word == "hang":
        # Deaf to a call to stop as well.
        with open(rest, "w"):
            pass
        threading.Event().wait()
    elif word == "crash":
        os._exit(3)
    elif word == "rubbish":
        for line in [
            b"Traceback (most recent call last):\n",
            b"\xff\xfe not even text \x80\n",
            b"{\"jsonrpc\": \"2.0\", \"method\": \"agent.text\"\n",
            b"[" * 100_000 + b"\n",
            b"null\n",
            b"42\n",
            b"{}\n",
            b"\n",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"nobody-asked\",\"result\":{}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.unknown\",\"params\":{}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.text\",\"params\":{\"taskId\":\"not-a-task\",\"delta\":\"x\"}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.text\",\"params\":{\"taskId\":7}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.artifact\",\"params\":[]}\n",
        ]:
            raw(line)
        answer["message"] = said("no rubbish")
    elif word == "nonsense":
        # An answer that is no answer.
        send({"id": request, "result": {"state": "sideways", "message": 7}})
        return
    elif word == "flood":
        # A line that does not end.
        block = b"x" * (1 << 20)
        for _ in range(int(rest)):
            raw(block)
        raw(b"\n")
        answer["message"] = said("flooded")
    else:
        answer["message"] = said("You said: " + word + (" " + rest if rest else ""))
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
    # Whoever started this is gone; so is everything that it asked for.
    os._exit(0)


if __name__ == "__main__":
    # Time is only asked for to show on stderr when the program began: noise that must not matter.
    print("agent begins", time.time(), file=sys.stderr, flush=True)
    main()
