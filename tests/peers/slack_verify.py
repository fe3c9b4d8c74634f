"""Slack's own verifier of signatures, unmodified. Takes one JSON object a line, {"secret", "timestamp",
"signature", "body"}, and answers each with `good` or `bad`; ends with its input.
"""

import json
import sys

from slack_sdk.signature import SignatureVerifier

for line in sys.stdin:
    said = json.loads(line)
    verifier = SignatureVerifier(said["secret"])
    good = verifier.is_valid(said["body"], said["timestamp"], said["signature"])
    print("good" if good else "bad", flush=True)
