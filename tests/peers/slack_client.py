"""Tests a playground with Slack's unmodified Python SDK: all methods that a zone uses, the stream helper and the
three-step upload.

Usage: slack_client.py API_URL TOKEN THREAD_TS
The thread is in C0GENERAL and was started by U0ALEX.
"""

import sys

import urllib.request

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
from slack_sdk.models.blocks import MarkdownBlock
from slack_sdk.models.metadata import Metadata

API, TOKEN, THREAD = sys.argv[1:]
CHANNEL, USER, TEAM = "C0GENERAL", "U0ALEX", "T0PLAY"
client = WebClient(token=TOKEN, base_url=API)


def expect_error(expected, call, **arguments):
    try:
        call(**arguments)
    except SlackApiError as error:
        assert error.response["error"] == expected, error
        assert error.response.status_code == 200, error
        return error.response
    raise AssertionError(f"no error {expected}")


def users_and_channels():
    identity = client.auth_test()
    assert identity["team_id"] == TEAM and identity["bot_id"], identity
    assert client.team_info()["team"]["id"] == TEAM
    assert client.users_info(user="U0HANA", include_locale=True)["user"]["locale"] == "ja-JP"
    expect_error("user_not_found", client.users_info, user="U0UNKNOWN")
    # The SDK follows the cursors.
    users = [user["id"] for page in client.users_list(limit=2) for user in page["members"]]
    assert len(users) == len(set(users)) == 5, users
    assert client.conversations_info(channel=CHANNEL)["channel"]["is_member"]
    names = [c["name"] for page in client.conversations_list(limit=1) for c in page["channels"]]
    assert "general" in names and "secret" not in names, names
    members = [m for page in client.conversations_members(channel=CHANNEL, limit=1) for m in page["members"]]
    assert USER in members and identity["user_id"] in members
    assert client.conversations_open(users=USER)["channel"]["id"] == "D0ALEX"
    expect_error("invalid_auth", WebClient(token="xoxb-other", base_url=API).auth_test)
    expect_error("not_authed", WebClient(base_url=API).auth_test)


def messages():
    metadata = Metadata(event_type="interzone_reply", event_payload={"key": "k1"})
    posted = client.chat_postMessage(
        channel=CHANNEL, thread_ts=THREAD, text="plain",
        blocks=[MarkdownBlock(text="**bold**")], metadata=metadata)
    assert posted["message"]["blocks"][0]["type"] == "markdown"
    client.chat_update(channel=CHANNEL, ts=posted["ts"], text="changed")
    found = client.conversations_replies(channel=CHANNEL, ts=THREAD, include_all_metadata=True)
    last = found["messages"][-1]
    assert last["metadata"]["event_payload"]["key"] == "k1" and last["text"] == "changed", last
    assert [m["ts"] for m in found["messages"]] == sorted(m["ts"] for m in found["messages"])
    assert client.conversations_history(channel=CHANNEL)["messages"][-1]["ts"] == THREAD
    expect_error("no_text", client.chat_postMessage, channel=CHANNEL, text="")
    expect_error("msg_too_long", client.chat_postMessage, channel=CHANNEL, markdown_text="x" * 12_001)
    client.chat_postMessage(channel=CHANNEL, thread_ts=THREAD, markdown_text="# as Markdown")
    client.chat_delete(channel=CHANNEL, ts=posted["ts"])
    expect_error("message_not_found", client.chat_delete, channel=CHANNEL, ts=posted["ts"])
    assert client.chat_postEphemeral(channel=CHANNEL, user=USER, thread_ts=THREAD, text="psst")["message_ts"]
    client.assistant_threads_setStatus(channel_id=CHANNEL, thread_ts=THREAD, status="is thinking…")
    client.reactions_add(channel=CHANNEL, timestamp=THREAD, name="eyes")
    expect_error("already_reacted", client.reactions_add, channel=CHANNEL, timestamp=THREAD, name="eyes")
    got = client.reactions_get(channel=CHANNEL, timestamp=THREAD)
    assert got["message"]["reactions"][0]["name"] == "eyes"
    client.reactions_remove(channel=CHANNEL, timestamp=THREAD, name="eyes")
    expect_error("no_reaction", client.reactions_remove, channel=CHANNEL, timestamp=THREAD, name="eyes")


def streams():
    expect_error("missing_recipient_user_id", client.chat_startStream, channel=CHANNEL, thread_ts=THREAD)
    stream = client.chat_stream(
        channel=CHANNEL, thread_ts=THREAD, recipient_user_id=USER, recipient_team_id=TEAM, buffer_size=4)
    for piece in ["**one", " two", "** three"]:
        stream.append(markdown_text=piece)
    feedback = {"type": "feedback_buttons", "action_id": "f",
                "positive_button": {"text": {"type": "plain_text", "text": "+"}, "value": "good"},
                "negative_button": {"text": {"type": "plain_text", "text": "-"}, "value": "bad"}}
    stopped = stream.stop(blocks=[{"type": "context_actions", "elements": [feedback]}])
    assert stopped["message"]["text"] == "**one two** three", stopped
    ts = stopped["ts"]
    expect_error("message_not_in_streaming_state", client.chat_appendStream,
            channel=CHANNEL, ts=ts, markdown_text="more")
    # The three methods without the helper.
    ts = client.chat_startStream(channel=CHANNEL, thread_ts=THREAD, recipient_user_id=USER,
                                 recipient_team_id=TEAM, markdown_text="a")["ts"]
    client.chat_appendStream(channel=CHANNEL, ts=ts, markdown_text="b")
    assert client.chat_stopStream(channel=CHANNEL, ts=ts, markdown_text="c")["message"]["text"] == "abc"


def files():
    done = client.files_upload_v2(
        channel=CHANNEL, thread_ts=THREAD, initial_comment="here it is",
        file_uploads=[{"filename": "表.csv", "content": "a,b\n1,2\n", "title": "Table"},
                      {"filename": "notes.txt", "content": "hello"}])
    assert [file["title"] for file in done["files"]] == ["Table", "notes.txt"], done
    info = client.files_info(file=done["files"][0]["id"])["file"]
    assert info["shares"]["public"][CHANNEL][0]["thread_ts"] == THREAD, info
    request = urllib.request.Request(info["url_private_download"], headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as response:
        assert response.read() == b"a,b\n1,2\n"
        assert response.headers["content-type"] == "text/csv"
    with urllib.request.urlopen(info["url_private_download"]) as response:
        assert response.headers["content-type"].startswith("text/html")


def limits():
    # The test injects a 429 for this method. The SDK waits for Retry-After and retries.
    retrying = WebClient(token=TOKEN, base_url=API, retry_handlers=[RateLimitErrorRetryHandler(max_retry_count=1)])
    assert retrying.api_test()["ok"]


def tokens():
    expect_error("invalid_client_id", client.oauth_v2_access, client_id="x", client_secret="y", code="z")
    assert client.auth_revoke(test=True)["revoked"] is False


users_and_channels()
messages()
streams()
files()
limits()
tokens()
print("all methods passed")
