"""Fake AgentCore endpoint, as far as it is documented: accepts InvokeAgentRuntime, verifies the signature with
botocore, and forwards the body unchanged to a zone.

Reads a JSON object {zone, token, region, access_key, secret_key, session_token} from stdin and prints its port.
SSL_CERT_FILE names the CA of the zone. GET /seen returns the accepted requests."""

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
AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})")
WINDOW = timedelta(minutes=5)
ACCEPTED = []
LOCK = threading.Lock()


def signature_error(handler, body):
    """Returns AWS's error code for an invalid signature, or None if it is valid."""
    headers = {name.lower(): value for name, value in handler.headers.items()}
    match = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if not match:
        return "MissingAuthenticationTokenException"
    scope, names, signature = match.groups()
    access, date, region, service, end = scope.split("/")
    names = names.split(";")
    if (access, service, end) != (SETUP["access_key"], SERVICE, "aws4_request"):
        return "UnrecognizedClientException"
    if headers.get("x-amz-security-token") != SETUP["session_token"]:
        return "UnrecognizedClientException"
    if region != SETUP["region"]:
        return "InvalidSignatureException"
    timestamp = headers.get("x-amz-date", "")
    sent = datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if abs(datetime.now(timezone.utc) - sent) > WINDOW or not timestamp.startswith(date):
        return "InvalidSignatureException"
    required = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if not required <= set(names):
        return "InvalidSignatureException"
    request = AWSRequest(
        method=handler.command,
        url=f"http://{headers['host']}{handler.path}",
        data=body,
        headers={name: headers[name] for name in names},
    )
    request.context["timestamp"] = timestamp
    credentials = Credentials(access, SETUP["secret_key"], SETUP["session_token"])
    signer = SigV4Auth(credentials, SERVICE, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return None if signer.signature(text, request) == signature else "InvalidSignatureException"


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def respond(self, status, value, error_type=None):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if error_type:
            self.send_header("x-amzn-errortype", error_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with LOCK:
            self.respond(200, ACCEPTED)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        session = self.headers.get("x-amzn-bedrock-agentcore-runtime-session-id", "")
        if not PATH.fullmatch(urlsplit(self.path).path) or not 33 <= len(session) <= 256:
            return self.respond(400, {"message": "rejected"}, "ValidationException")
        error = signature_error(self, body)
        if error:
            return self.respond(403, {"message": "rejected"}, error)
        with LOCK:
            ACCEPTED.append({"sha256": hashlib.sha256(body).hexdigest(), "session": session,
                             "traceparent": self.headers.get("traceparent")})
        self.forward(body)

    def forward(self, body):
        zone = urlsplit(SETUP["zone"])
        connection = http.client.HTTPSConnection(zone.hostname, zone.port, context=ssl.create_default_context())
        forwarded = ["content-type", "accept", "traceparent"]
        headers = {name: self.headers[name] for name in forwarded if self.headers.get(name)}
        headers["authorization"] = f"Bearer {SETUP['token']}"
        connection.request("POST", "/jsonrpc", body, headers)
        response = connection.getresponse()
        self.send_response(response.status)
        self.send_header("content-type", response.getheader("content-type", ""))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            while chunk := response.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            # The client has disconnected. Closing the connection informs the zone.
            self.close_connection = True
        finally:
            connection.close()


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
server.daemon_threads = True
print(server.server_port, flush=True)
# Exits at the end of its input, when the test has ended.
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
