"""A token by the ACP SDK's own OAuth2 client.

Usage: sdk_token.py TOKEN_URL CLIENT_ID CLIENT_SECRET SCOPE
The certificate authority is named by SSL_CERT_FILE.
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
