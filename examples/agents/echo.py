"""Example agent for Interzone: repeats the text of a message word by word."""

import json
import sys
import threading

write_lock = threading.Lock()
stops = {}


def send(message):
    line = json.dumps({"jsonrpc": "2.0", **message})
    with write_lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def run(request_id, params, stop):
    task_id = params["taskId"]
    parts = params["message"]["parts"]
    text = " ".join(p.get("content", "") for p in parts if p["type"] == "TextPart")
    send({"method": "agent.status", "params": {"taskId": task_id, "text": "reading"}})
    state = "completed"
    for word in text.split():
        if stop.is_set():
            state = "failed"
            break
        send({"method": "agent.text", "params": {"taskId": task_id, "delta": word + " "}})
    stops.pop(task_id, None)
    send({"id": request_id, "result": {"state": state}})


for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {})
    if message.get("method") == "agent.run":
        stop = stops[params["taskId"]] = threading.Event()
        arguments = (message["id"], params, stop)
        threading.Thread(target=run, args=arguments, daemon=True).start()
    elif message.get("method") == "agent.cancel" and params["taskId"] in stops:
        stops[params["taskId"]].set()
