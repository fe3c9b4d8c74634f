"""Calls an agent with the ACP Python SDK and waits for the answer.

Usage: ask.py URL TOKEN TEXT
`interzone token` prints a token. Set SSL_CERT_FILE to the CA if the system does not trust it.
"""

import asyncio
import sys

from acp.client.acp_client import ACPClient
from acp.models.generated import Message, Part, TasksCreateParams, TasksGetParams

URL, TOKEN, TEXT = sys.argv[1:]


async def main():
    async with ACPClient(URL, oauth_token=TOKEN) as client:
        message = Message(role="user", parts=[Part(type="TextPart", content=TEXT)])
        task = (await client.tasks_create(TasksCreateParams(initialMessage=message)))["task"]
        while task["status"] in ("SUBMITTED", "WORKING"):
            await asyncio.sleep(0.2)
            task = (await client.tasks_get(TasksGetParams(taskId=task["taskId"])))["task"]
        print(task["status"], task["messages"][-1]["parts"][0]["content"])


asyncio.run(main())
