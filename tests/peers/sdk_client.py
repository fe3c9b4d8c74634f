"""Tests a running zone with the unmodified client of the ACP Python SDK: all of its methods, and the others through its
`_call`. Results are validated with the models and the schema of the SDK.

Usage: sdk_client.py URL TOKEN OTHER_TOKEN WEAK_TOKEN STALE_TOKEN CALLBACK always-200|exact-status
SSL_CERT_FILE names the CA; the SDK has no other way to set it.
"""

import asyncio
import json
import sys

import httpx
from acp.client.acp_client import ACPClient
from acp.core.json_rpc import JsonRpcError
from acp.models.generated import (
    JsonRpcRequest,
    JsonRpcResponse,
    Jsonrpc,
    Message,
    Method,
    MethodResult,
    Part,
    StreamChunkParams,
    StreamEndParams,
    StreamMessageParams,
    StreamStartParams,
    TaskNotificationParams,
    TasksCancelParams,
    TasksCreateParams,
    TasksGetParams,
    TasksSendParams,
    TasksSubscribeParams,
)

from acp_schema import valid, valid_card

URL, TOKEN, OTHER, WEAK, STALE, CALLBACK, MODE = sys.argv[1:]
ALWAYS_200 = {"always-200": True, "exact-status": False}[MODE]


def message(text, **more):
    return Message(role="user", parts=[Part(type="TextPart", content=text, **more)])


def result(kind, value):
    """Validates a result with the SDK's models and schema, asserts its type and returns its content."""
    valid("MethodResult", value)
    MethodResult.model_validate(value)
    assert value["type"] == kind, value
    return value.get(kind, value.get("message"))


async def call(client, method, params):
    """Calls a method for which the SDK's client has no function."""
    request = JsonRpcRequest(
        jsonrpc=Jsonrpc.field_2_0,
        method=method,
        params=params.model_dump(by_alias=True, mode="json"),
        id=client._generate_id(),
    )
    answer = await client._call(request)
    valid("JsonRpcResponse", answer)
    JsonRpcResponse.model_validate(answer)
    assert answer["id"] == request.id
    return answer["result"]


async def expect_error(awaitable, code, always_200=None):
    """Asserts that the SDK raises an error with this code and returns its data. With always-200 the code is exact."""
    expected = always_200 if ALWAYS_200 and always_200 is not None else code
    try:
        answer = await awaitable
    except JsonRpcError as error:
        assert error.code == expected, f"{error.code} {error}, not {expected}"
        return error.data
    raise AssertionError(f"{answer}, not error {expected}")


async def wait_for_end(task_id, token=TOKEN):
    """Reads the events of a task until the zone ends the stream, and returns their names."""
    events = []
    async with httpx.AsyncClient(timeout=30) as http:
        headers = {"Authorization": f"Bearer {token}"}
        async with http.stream("GET", f"{URL}/tasks/{task_id}/events", headers=headers) as answer:
            assert answer.status_code == 200, answer.status_code
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    event = json.loads(line[5:])
                    if event["method"] == "task.notification":
                        TaskNotificationParams.model_validate(event["params"])
                        events.append(event["params"]["event"])
    return events


async def tasks(client):
    metadata = {"project": "naïve ☃", "deep": {"list": [1, 2.5, {"x": True}]}, "big": 9007199254740993}
    made = result("task", await client.tasks_create(TasksCreateParams(
        initialMessage=message("echo hello", width=640, transcript={"de": "hallo"}),
        assignTo="demo",
        priority="HIGH",
        metadata=metadata,
    )))
    assert made["status"] in ("SUBMITTED", "WORKING"), made
    assert made["artifacts"] == []
    assert made["messages"][0]["timestamp"].endswith("Z")
    assert made["messages"][0]["parts"][0]["width"] == 640
    assert made["messages"][0]["parts"][0]["transcript"] == {"de": "hallo"}
    returned = {key: value for key, value in made["metadata"].items() if key in metadata}
    assert returned == metadata, returned
    assert made["metadata"]["priority"] == "HIGH"
    assert made["assignedAgent"] == "demo"

    events = await wait_for_end(made["taskId"])
    assert events[-1] == "COMPLETED" and "STATUS_CHANGE" in events, events
    done = result("task", await client.tasks_get(TasksGetParams(taskId=made["taskId"])))
    assert done["status"] == "COMPLETED"
    assert [message["role"] for message in done["messages"]] == ["user", "agent"], done
    assert "hello" in done["messages"][1]["parts"][0]["content"]
    bare = result("task", await client.tasks_get(
        TasksGetParams(taskId=made["taskId"], includeMessages=False, includeArtifacts=False)))
    assert not bare.get("messages") and not bare.get("artifacts"), bare

    # The agent requires input, which is sent by tasks.send.
    asked = result("task", await client.tasks_create(
        TasksCreateParams(initialMessage=message("ask which one?"), assignTo="demo")))
    watch = asyncio.create_task(wait_for_end(asked["taskId"]))
    await wait_for_status(client, asked["taskId"], "INPUT_REQUIRED")
    result("success", await client.tasks_send(
        TasksSendParams(taskId=asked["taskId"], message=message("the blue one"))))
    assert (await watch)[-1] == "COMPLETED"
    data = await expect_error(client.tasks_send(
        TasksSendParams(taskId=asked["taskId"], message=message("too late"))), -40002)
    assert data["taskId"] == asked["taskId"] and data["currentStatus"] == "COMPLETED", data

    # A file.
    file = result("task", await client.tasks_create(
        TasksCreateParams(initialMessage=message("file csv a,b"), assignTo="demo")))
    assert "NEW_ARTIFACT" in await wait_for_end(file["taskId"])
    file = result("task", await client.tasks_get(TasksGetParams(taskId=file["taskId"])))
    assert len(file["artifacts"]) == 1 and file["artifacts"][0]["parts"], file
    return made["taskId"]


async def wait_for_status(client, task_id, status):
    """Polls the task until it has this status, for at most 30 s. The SDK's client has no watch."""
    async with asyncio.timeout(30):
        while True:
            task = result("task", await client.tasks_get(TasksGetParams(taskId=task_id)))
            if task["status"] == status:
                return task
            await asyncio.sleep(0.02)


async def cancel_and_subscribe(client, done):
    waiting = result("task", await client.tasks_create(
        TasksCreateParams(initialMessage=message("wait 60"), assignTo="demo")))
    subscription = result("subscription", await call(client, Method.tasks_subscribe, TasksSubscribeParams(
        taskId=waiting["taskId"], callbackUrl=CALLBACK, events=["STATUS_CHANGE", "NEW_MESSAGE"])))
    assert subscription["taskId"] == waiting["taskId"] and subscription["active"] is True
    assert subscription["callbackUrl"] == CALLBACK
    assert subscription["events"] == ["STATUS_CHANGE", "NEW_MESSAGE"]
    # Without events, the SDK's own default list is sent.
    again = result("subscription", await call(client, Method.tasks_subscribe, TasksSubscribeParams(
        taskId=waiting["taskId"], callbackUrl=CALLBACK)))
    assert again["subscriptionId"] != subscription["subscriptionId"]
    assert again["events"] == ["STATUS_CHANGE", "COMPLETED", "FAILED"]

    watch = asyncio.create_task(wait_for_end(waiting["taskId"]))
    result("success", await call(client, Method.tasks_cancel, TasksCancelParams(taskId=waiting["taskId"])))
    task = result("task", await client.tasks_get(TasksGetParams(taskId=waiting["taskId"])))
    assert task["status"] == "CANCELED", "the task is not canceled at once"
    assert "COMPLETED" not in await watch and "FAILED" not in await watch
    # Canceling again has no effect; a finished task cannot be canceled.
    result("success", await call(client, Method.tasks_cancel,
                                 TasksCancelParams(taskId=waiting["taskId"], reason="really")))
    await expect_error(call(client, Method.tasks_cancel, TasksCancelParams(taskId=done, reason="late")), -40002)
    result("notification", await call(client, Method.task_notification, TaskNotificationParams(
        taskId=done, event="STATUS_CHANGE", timestamp="2026-01-01T00:00:00Z")))


async def streams(client):
    started = result("stream", await client.stream_start(StreamStartParams()))
    assert started["status"] == "ACTIVE" and isinstance(started["participants"], list)
    stream = result("stream", await client.stream_start(
        StreamStartParams(participants=["demo"], metadata={"topic": "tea"})))
    assert "demo" in stream["participants"] and stream["metadata"]["topic"] == "tea"
    result("success", await client.stream_message(
        StreamMessageParams(streamId=stream["streamId"], message=message("echo over here"))))
    result("notification", await client.stream_chunk(StreamChunkParams(
        streamId=stream["streamId"], chunk=message("a piece"), sequence=1, isLast=True)))
    # isLast ends a message, not the stream.
    result("success", await client.stream_message(
        StreamMessageParams(streamId=stream["streamId"], message=message("echo again"))))
    result("success", await client.stream_end(StreamEndParams(streamId=stream["streamId"], reason="done")))
    for late in (
        client.stream_message(StreamMessageParams(streamId=stream["streamId"], message=message("late"))),
        client.stream_chunk(StreamChunkParams(streamId=stream["streamId"], chunk=message("late"), sequence=2)),
        client.stream_end(StreamEndParams(streamId=stream["streamId"])),
    ):
        data = await expect_error(late, -40004)
        assert data["streamId"] == stream["streamId"], data


async def errors(client, done):
    data = await expect_error(client.tasks_get(TasksGetParams(taskId="no-such-task")), -40001)
    assert data["taskId"] == "no-such-task" and "availableTasks" not in data, data
    await expect_error(client.stream_end(StreamEndParams(streamId="no-such-stream")), -40003)
    data = await expect_error(client.tasks_create(
        TasksCreateParams(initialMessage=message("hello"), assignTo="unknown")), -40005)
    assert data["agentId"] == "unknown", data
    data = await expect_error(call(client, Method.tasks_subscribe, TasksSubscribeParams(
        taskId=done, callbackUrl="https://127.0.0.1:1/hook")), -32602)
    assert "callbackUrl" in data["field"], data

    async with ACPClient(URL, oauth_token=OTHER) as other:
        await expect_error(other.tasks_get(TasksGetParams(taskId=done)), -40001)
    # The SDK does not read the body of 401 and 403, but creates its own error codes.
    async with ACPClient(URL, oauth_token=WEAK) as weak:
        result("task", await weak.tasks_get(TasksGetParams(taskId=done)))
        data = await expect_error(weak.tasks_create(
            TasksCreateParams(initialMessage=message("hello"))), -40006, always_200=-40008)
        if ALWAYS_200:
            assert "acp:tasks:write" in data["requiredScopes"], data
            assert sorted(data["providedScopes"]) == ["acp:agent:identify", "acp:tasks:read"], data
    async with ACPClient(URL, oauth_token=STALE) as stale:
        await expect_error(stale.tasks_get(TasksGetParams(taskId=done)), -40007, always_200=-40009)
    async with ACPClient(URL, oauth_token="rubbish") as forged:
        data = await expect_error(forged.tasks_get(TasksGetParams(taskId=done)), -40007)
        if ALWAYS_200:
            assert data["error"] == "invalid_token" and data["error_description"], data
            assert data["tokenUrl"].startswith("http"), data


async def card():
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{URL}/.well-known/agent.json")
        assert answer.status_code == 200
        found = valid_card(answer.json())
        assert found["url"] == f"{URL}/jsonrpc", found
        assert found["capabilities"]["streaming"] and found["capabilities"]["pushNotifications"]
        assert set(found["authentication"]["scopes"]) >= {"acp:agent:identify", "acp:tasks:write"}
        healthy = await http.get(f"{URL}/health")
        assert healthy.status_code == 200 and healthy.json()["status"] == "healthy", healthy.text


async def concurrent_creates(client):
    """Fifty concurrent calls create fifty tasks."""
    made = await asyncio.gather(*[
        client.tasks_create(TasksCreateParams(initialMessage=message(f"echo {n}"), assignTo="demo"))
        for n in range(50)
    ])
    assert len({result("task", task)["taskId"] for task in made}) == 50


async def main():
    await card()
    async with ACPClient(URL, oauth_token=TOKEN) as client:
        done = await tasks(client)
        await cancel_and_subscribe(client, done)
        await streams(client)
        await errors(client, done)
        await concurrent_creates(client)
    print("every method passed")


asyncio.run(main())
