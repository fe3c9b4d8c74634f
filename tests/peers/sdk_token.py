"""Requests a token with the OAuth2 client of the ACP SDK.

Usage: sdk_token.py TOKEN_URL CLIENT_ID CLIENT_SECRET SCOPE
SSL_CERT_FILE names the CA.
"""

import asyncio
import json
import sys

from acp.auth.oauth2_client import OAuth2ClientCredentials


async def main():
    url, client, secret, scope = sys.argv[1:]
    token = await OAuth2ClientCredentials(url, client, secret, scope=scope).get_token()
    answer = {"token": token.access_token, "type": token.token_type, "scope": token.scope, "lifetime": token.expires_in}
    print(json.dumps(answer))


asyncio.run(main())
