"""AgentCore's door as far as it can be known: takes InvokeAgentRuntime, lets botocore judge the
signature, and passes the body on to a zone as it is.

On stdin a JSON object {zone, token, region, access_key, secret_key, session_token}; on stdout the port.
The CA of the zone is in SSL_CERT_FILE. GET /seen tells what was taken."""

import hashlib
import http.client
import json
import re
import ssl
import sys
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SETUP = json.loads(sys.stdin.readline())
SERVICE = "bedrock-agentcore"
PATH = re.compile(r"/runtimes/arn%3Aaws%3Abedrock-agentcore%3A[^/]+/invocations")
PROOF = re.compile(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})")
WINDOW = timedelta(minutes=5)
SEEN = []
LOCK = threading.Lock()


def fault(handler, body):
    """What is wrong with the proof, by the platform's word for it; nothing if it is right."""
    headers = {name.lower(): value for name, value in handler.headers.items()}
    proof = PROOF.fullmatch(headers.get("authorization", ""))
    if not proof:
        return "MissingAuthenticationTokenException"
    scope, names, signature = proof.groups()
    access, date, region, service, end = scope.split("/")
    names = names.split(";")
    if (access, service, end) != (SETUP["access_key"], SERVICE, "aws4_request"):
        return "UnrecognizedClientException"
    if headers.get("x-amz-security-token") != SETUP["session_token"]:
        return "UnrecognizedClientException"
    if region != SETUP["region"]:
        return "InvalidSignatureException"
    stamp = headers.get("x-amz-date", "")
    sent = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if abs(datetime.now(timezone.utc) - sent) > WINDOW or not stamp.startswith(date):
        return "InvalidSignatureException"
    must = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if not must <= set(names):
        return "InvalidSignatureException"
    request = AWSRequest(
        method=handler.command,
        url=f"http://{headers['host']}{handler.path}",
        data=body,
        headers={name: headers[name] for name in names},
    )
    request.context["timestamp"] = stamp
    credentials = Credentials(access, SETUP["secret_key"], SETUP["session_token"])
    judge = SigV4Auth(credentials, SERVICE, region)
    text = judge.string_to_sign(request, judge.canonical_request(request))
    return None if judge.signature(text, request) == signature else "InvalidSignatureException"


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value, kind=None):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if kind:
            self.send_header("x-amzn-errortype", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with LOCK:
            self.answer(200, SEEN)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        session = self.headers.get("x-amzn-bedrock-agentcore-runtime-session-id", "")
        if not PATH.fullmatch(urlsplit(self.path).path) or not 33 <= len(session) <= 256:
            return self.answer(400, {"message": "no"}, "ValidationException")
        wrong = fault(self, body)
        if wrong:
            return self.answer(403, {"message": "no"}, wrong)
        with LOCK:
            SEEN.append({"sha256": hashlib.sha256(body).hexdigest(), "session": session,
                         "traceparent": self.headers.get("traceparent")})
        self.forward(body)

    def forward(self, body):
        zone = urlsplit(SETUP["zone"])
        line = http.client.HTTPSConnection(zone.hostname, zone.port, context=ssl.create_default_context())
        passed = ["content-type", "accept", "traceparent"]
        headers = {name: self.headers[name] for name in passed if self.headers.get(name)}
        headers["authorization"] = f"Bearer {SETUP['token']}"
        line.request("POST", "/jsonrpc", body, headers)
        answer = line.getresponse()
        self.send_response(answer.status)
        self.send_header("content-type", answer.getheader("content-type", ""))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            while piece := answer.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            # Whoever asked has gone; the zone learns it by the closed line.
            self.close_connection = True
        finally:
            line.close()


server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
server.daemon_threads = True
print(server.server_port, flush=True)
# Ends with whoever started it.
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
