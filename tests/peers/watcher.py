"""Tests streams by WebSocket and SSE with the libraries `websockets` and `httpx`: live and replayed from any position,
without gaps and duplicates, and an agent's answer as chunks.

Usage: watcher.py URL TOKEN OTHER_TOKEN UNSCOPED_TOKEN
OTHER_TOKEN belongs to another principal; UNSCOPED_TOKEN has no scope for streams. SSL_CERT_FILE names the CA.
"""

import asyncio
import json
import ssl
import sys

import httpx
import websockets
from acp.models.generated import StreamChunkParams

from acp_schema import valid

URL, TOKEN, OTHER, UNSCOPED = sys.argv[1:]
SOCKET = URL.replace("https://", "wss://")
TLS = ssl.create_default_context()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def rpc(http, method, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await http.post(f"{URL}/jsonrpc", json=body, headers=bearer(TOKEN))).json()
    assert "result" in answer, answer
    return valid("JsonRpcResponse", answer)["result"]


def message(text):
    return {"role": "user", "parts": [{"type": "TextPart", "content": text}]}


def connect(stream, after=None, token=TOKEN):
    query = "" if after is None else f"?after={after}"
    return websockets.connect(
        f"{SOCKET}/streams/{stream}{query}", additional_headers=bearer(token), ssl=TLS)


def chunk(frame):
    assert frame["jsonrpc"] == "2.0" and frame["method"] == "stream.chunk" and "id" not in frame, frame
    StreamChunkParams.model_validate(frame["params"])
    valid("StreamChunkParams", frame["params"])
    return frame["params"]


def text(params):
    return "".join(part.get("content") or "" for part in params["chunk"]["parts"])


async def frames(socket, is_complete):
    """Receives frames until `is_complete` returns true for the list. The initial state of the stream is left out."""
    seen = []
    async with asyncio.timeout(30):
        while not is_complete(seen):
            frame = json.loads(await socket.recv())
            if frame.get("method") != "interzone.stream.state" or frame["params"]["status"] != "ACTIVE":
                seen.append(frame)
    return seen


def answered(count):
    """Returns a check for this number of complete messages of the agent."""
    def check(seen):
        done = [f for f in seen if f.get("method") == "stream.chunk"
                and f["params"]["chunk"]["role"] == "agent" and f["params"].get("isLast")]
        return len(done) >= count
    return check


async def sse(http, stream, after=None, by_header=True):
    """Returns all events of a closed stream, by SSE."""
    headers = bearer(TOKEN)
    path = f"{URL}/streams/{stream}/events"
    if after is not None and by_header:
        headers["Last-Event-ID"] = str(after)
    elif after is not None:
        path += f"?after={after}"
    events, event = [], {}
    async with http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, (await answer.aread())
        async for line in answer.aiter_lines():
            name, _, value = line.partition(":")
            if line == "" and event:
                events.append(event)
                event = {}
            elif name in ("id", "event", "data"):
                event[name] = value.lstrip()
    for event in events:
        event["data"] = json.loads(event["data"])
        assert event["event"] == event["data"]["method"], event
    return events


async def main():
    async with httpx.AsyncClient(timeout=30) as http:
        stream = (await rpc(http, "stream.start", participants=["demo"]))["stream"]["streamId"]

        # Two watchers: one sends on its socket, the other only receives.
        async with connect(stream) as sender, connect(stream) as receiver:
            request = {"jsonrpc": "2.0", "id": "s1", "method": "stream.message",
                       "params": {"streamId": stream, "message": message("stream 5")}}
            await sender.send(json.dumps(request))
            sender_frames = await frames(sender, lambda seen: answered(1)(seen) and any("id" in f for f in seen))
            responses = [frame for frame in sender_frames if "id" in frame]
            assert len(responses) == 1 and responses[0]["id"] == "s1", responses
            assert valid("JsonRpcResponse", responses[0])["result"]["type"] == "success"
            live = [frame for frame in sender_frames if "id" not in frame]
            received = await frames(receiver, answered(1))
            assert live == received, "the watchers received different frames"
            numbers = [chunk(frame)["sequence"] for frame in received]
            assert numbers == list(range(1, len(numbers) + 1)), numbers
            first = chunk(received[0])
            assert first["chunk"]["role"] == "user" and text(first) == "stream 5" and first["isLast"]
            pieces = [chunk(frame) for frame in received[1:]]
            assert len(pieces) > 1, "the answer was not streamed"
            assert [piece.get("isLast", False) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
            # An invalid message gets an error response on the socket.
            await receiver.send("{not json")
            bad = json.loads(await receiver.recv())
            assert bad["error"]["code"] == -32700 and bad["id"] is None, bad
            await receiver.send(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "stream.message",
                                            "params": {"streamId": "no-such", "message": message("x")}}))
            bad = json.loads(await receiver.recv())
            assert bad["error"]["code"] == -40003 and bad["id"] == 9, bad

        # Other invalid frames get an error response, or close only that socket.
        for frame in (b"\x00\xff", "[" * 200_000, "x" * (64 << 20)):
            async with connect(stream) as invalid:
                try:
                    await invalid.send(frame)
                    async with asyncio.timeout(30):
                        while "error" not in json.loads(await invalid.recv()):
                            pass
                except websockets.exceptions.ConnectionClosed as end:
                    assert end.rcvd is None or end.rcvd.code in (1003, 1008, 1009), end

        # A second message by POST, without a watcher; then replay from every position.
        await rpc(http, "stream.message", streamId=stream, message=message("echo more"))
        async with connect(stream, after=0) as late:
            replayed = await frames(late, answered(2))
        assert [chunk(frame) for frame in replayed[:len(received)]] == [chunk(frame) for frame in received]
        assert [chunk(frame)["sequence"] for frame in replayed] == list(range(1, len(replayed) + 1))
        ended = await rpc(http, "stream.end", streamId=stream, reason="enough")
        assert ended["type"] == "success"

        events = await sse(http, stream)
        chunks = [event for event in events if event["event"] == "stream.chunk"]
        sse_params = [event["data"]["params"] for event in chunks]
        assert sse_params == [frame["params"] for frame in replayed], "SSE and WebSocket returned different chunks"
        states = [event["data"]["params"]["status"] for event in events if event["event"] == "interzone.stream.state"]
        assert states[-1] == "CLOSED" and set(states[:-1]) <= {"ACTIVE"}, states
        assert events[-1]["event"] == "interzone.stream.state", events[-1]
        assert events[-1]["data"]["params"]["status"] == "CLOSED", events[-1]
        ids = [int(event["id"]) for event in events]
        assert ids == sorted(set(ids)), ids
        for cut, event in enumerate(events):
            for by_header in (True, False):
                rest = await sse(http, stream, after=int(event["id"]), by_header=by_header)
                assert rest == events[cut + 1:], f"after {event['id']}"
        for cut in (0, 2, len(events) - 2):
            async with connect(stream, after=int(events[cut]["id"])) as socket:
                rest = await frames(socket, lambda seen: len(seen) == len(events) - cut - 1)
            assert rest == [event["data"] for event in events[cut + 1:]], f"socket after {cut}"

        # Rejected before the upgrade, with an ACP error.
        for token, name, status, code in (
            ("rubbish", stream, 401, -40007),
            (UNSCOPED, stream, 403, -40008),
            (OTHER, stream, 404, -40003),
            (TOKEN, "no-such-stream", 404, -40003),
        ):
            answer = await http.get(f"{URL}/streams/{name}/events", headers=bearer(token))
            assert answer.status_code == status, (status, answer.status_code, answer.text)
            assert valid("JsonRpcResponse", {**answer.json(), "id": 0})["error"]["code"] == code, answer.text
            try:
                async with connect(name, token=token):
                    raise AssertionError("the socket was opened")
            except websockets.exceptions.InvalidStatus as rejection:
                assert rejection.response.status_code == status, rejection.response
                assert json.loads(rejection.response.body)["error"]["code"] == code
    print("watched")


asyncio.run(main())
