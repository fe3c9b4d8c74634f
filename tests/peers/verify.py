"""Verifies signed webhooks with the ACP SDK. Reads a JSON list of {body, signature, secret} from stdin and prints a
JSON list of results."""

import json
import sys

from acp.core.webhooks import WebhookManager

verify = WebhookManager().verify_signature
print(json.dumps([verify(each["body"], each["signature"], each["secret"]) for each in json.load(sys.stdin)]))
