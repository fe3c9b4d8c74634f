"""Fake model server with OpenAI's chat completions API, streamed, on a loopback port.

The first answer reads the attached CSV from the request and calls the tool that creates a file with the sum. The second
answer, after the tool result, is a short text. Arguments: the port and the expected key.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, KEY = int(sys.argv[1]), sys.argv[2]


def delta(**members):
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


def end(reason):
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def answer_events(request):
    messages = request["messages"]
    if messages[-1]["role"] == "tool":
        yield delta(content="Here are ")
        yield delta(content="the sums.")
        yield end("stop")
        return
    question = text_of(messages[-1])
    total = sum(
        int(line.split(",")[1])
        for line in question.splitlines()
        if line.count(",") == 1 and line.split(",")[1].strip().isdigit()
    )
    arguments = json.dumps(
        {"file_name": "sums.csv", "format": "csv", "content": f"what,sum\nall,{total}\n"}
    )
    half = len(arguments) // 2
    yield delta(role="assistant", content="One moment. ")
    call = {"index": 0, "id": "call-1", "type": "function"}
    function = {"name": "create_file", "arguments": arguments[:half]}
    yield delta(tool_calls=[{**call, "function": function}])
    yield delta(tool_calls=[{"index": 0, "function": {"arguments": arguments[half:]}}])
    yield end("tool_calls")


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_authorized = self.headers.get("authorization") == f"Bearer {KEY}"
        if not is_authorized or self.path != "/v1/chat/completions" or not body.get("stream"):
            self.send_response(401)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in answer_events(body):
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", PORT), Model)
print("ready", flush=True)
server.serve_forever()
