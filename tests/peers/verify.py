"""Lets the ACP SDK's own verifier judge signed webhooks: a JSON list of {body, signature, secret}
on stdin, a JSON list of verdicts on stdout."""

import json
import sys

from acp.core.webhooks import WebhookManager

verify = WebhookManager().verify_signature
print(json.dumps([verify(each["body"], each["signature"], each["secret"]) for each in json.load(sys.stdin)]))
