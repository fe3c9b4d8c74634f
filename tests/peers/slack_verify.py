"""Verifies signatures with Slack's Python SDK. Reads one JSON object per line, {"secret", "timestamp", "signature",
"body"}, and prints `good` or `bad` for each. Exits at the end of its input.
"""

import json
import sys

from slack_sdk.signature import SignatureVerifier

for line in sys.stdin:
    request = json.loads(line)
    verifier = SignatureVerifier(request["secret"])
    good = verifier.is_valid(request["body"], request["timestamp"], request["signature"])
    print("good" if good else "bad", flush=True)
