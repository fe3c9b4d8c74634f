"""The peer: the server of the ACP Python SDK, with tasks kept in memory.

Its token check cannot work as shipped, so it is replaced by one that accepts everybody, in its
favour; validation and logging are left out for the same reason. Two methods, as few lines as do.
"""

import datetime
import itertools
import logging
import sys

import uvicorn
from acp.server import acp_server

logging.disable(logging.CRITICAL)


async def everybody(request):
    return acp_server.JsonRpcContext(user_id="bench", agent_id="bench", scopes=[])


acp_server.extract_auth_context = everybody
server = acp_server.ACPServer("peer", enable_cors=False, enable_validation=False, enable_logging=False)
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


port, certificate, key = int(sys.argv[1]), sys.argv[2], sys.argv[3]
uvicorn.run(server.get_app(), host="127.0.0.1", port=port, ssl_certfile=certificate, ssl_keyfile=key, log_level="critical", access_log=False)
