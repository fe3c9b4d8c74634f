"""Peer: the unmodified server of the ACP Python SDK, with tasks in memory.

All per-request work is enabled, as by default: validation, logging, CORS and token verification. One fix is
needed to accept any token: the SDK passes `cache_ttl` to PyJWT, which has no such parameter.
"""

import datetime
import http.server
import itertools
import json
import os
import sys
import threading
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

port, certificate, key = int(sys.argv[1]), sys.argv[2], sys.argv[3]
private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key()))
jwks = json.dumps({"keys": [{**public, "kid": "k", "use": "sig", "alg": "RS256"}]}).encode()


class Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(jwks)

    def log_message(self, *words):
        pass


keys = http.server.HTTPServer(("127.0.0.1", 0), Keys)
threading.Thread(target=keys.serve_forever, daemon=True).start()
os.environ["OAUTH_JWKS_URL"] = f"http://127.0.0.1:{keys.server_port}/"
os.environ["OAUTH_ISSUER"] = "https://issuer.test"
os.environ["OAUTH_AUDIENCE"] = "https://acp.test"

made = jwt.PyJWKClient.__init__
jwt.PyJWKClient.__init__ = lambda self, *args, cache_ttl=None, **named: made(self, *args, **named)

from acp.server.acp_server import ACPServer  # noqa: E402  (it reads the environment when it is loaded)

SCOPES = "acp:agent:identify acp:tasks:read acp:tasks:write"
now = int(time.time())
claims = {"iss": "https://issuer.test", "aud": "https://acp.test", "sub": "bench", "scope": SCOPES, "iat": now, "exp": now + 36000}
token = jwt.encode(claims, private, algorithm="RS256", headers={"kid": "k"})
server = ACPServer("peer")
tasks = {}
numbers = itertools.count(1)


def plain(value):
    return value.model_dump(by_alias=True, mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


@server.method_handler("tasks.create")
async def create(params, context):
    given = plain(params)
    task = {
        "taskId": f"task-{next(numbers)}",
        "status": "SUBMITTED",
        "createdAt": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "messages": [given["initialMessage"]],
        "artifacts": [],
    }
    tasks[task["taskId"]] = task
    return {"type": "task", "task": task}


@server.method_handler("tasks.get")
async def get(params, context):
    return {"type": "task", "task": tasks[plain(params)["taskId"]]}


print(token, flush=True)
server.run(host="127.0.0.1", port=port, ssl_certfile=certificate, ssl_keyfile=key)
