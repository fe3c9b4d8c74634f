//! Checks of ACP's stream methods, chunks, and watching by SSE.

use super::assertions::{string, timestamp};
use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::events::SseReader;
use super::http_client::{CheckClient, RequestIdentity};
use super::tasks::{create_task, succeeded, task_id};
use http::StatusCode;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde_json::{Value, json};

const METHODS: &str = "ACP §3";
const STATES: &str = "ACP §4";
const ERRORS: &str = "ACP §5";
const WATCH: &str = "ACP §7";

const NO_SSE: &str = "the server has no SSE events at this URL, which ACP does not require";

pub(super) async fn check(probe: &CheckClient, out: &mut Checks) {
    out.group("streams");
    if let Err(flaw) = probe.require_token() {
        out.record("all stream methods", METHODS, Err(flaw));
        return;
    }
    out.record("stream.start creates a stream", METHODS, start(probe).await);
    out.record("stream.message is accepted", METHODS, message(probe).await);
    out.record("stream.end closes a stream", STATES, end(probe).await);
    out.record("stream.chunk is accepted", METHODS, chunk(probe).await);
    out.record("an unknown stream is refused", ERRORS, unknown(probe).await);
    out.record("invalid params are refused", ERRORS, wrong(probe).await);
    out.record(
        "messages are delivered by SSE",
        WATCH,
        messages_are_delivered(probe).await,
    );
    out.record(
        "a watch resumes after Last-Event-ID",
        WATCH,
        watch_resumes(probe).await,
    );
    out.record(
        "a task can be watched to its end by SSE",
        WATCH,
        task_is_watched(probe).await,
    );
    out.record(
        "watching requires a token",
        WATCH,
        watch_requires_token(probe).await,
    );
}

fn user_message(text: &str) -> Value {
    json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}

async fn start_stream(probe: &CheckClient, params: Value) -> Result<Value, CheckFailure> {
    let mut result = probe.call("stream.start", params).await?.result()?;
    match result.get_mut("stream") {
        Some(stream) => Ok(stream.take()),
        None => Err(CheckFailure::violation("the result has no `stream`")),
    }
}

async fn new_stream(probe: &CheckClient) -> Result<String, CheckFailure> {
    string(&start_stream(probe, json!({})).await?, "streamId")
}

async fn start(probe: &CheckClient) -> CheckOutcome {
    let without = r#"{"jsonrpc":"2.0","method":"stream.start","id":1}"#;
    probe.post(without).await?.result()?;
    let stream = start_stream(probe, json!({"metadata": {"a": 1}})).await?;
    string(&stream, "streamId")?;
    timestamp(&stream, "createdAt")?;
    if string(&stream, "status")? != "ACTIVE" {
        return Err(CheckFailure::violation("the status is not ACTIVE"));
    }
    if !stream.get("participants").is_some_and(Value::is_array) {
        return Err(CheckFailure::violation(
            "`participants` is missing or not a list",
        ));
    }
    if stream.pointer("/metadata/a") != Some(&json!(1)) {
        return Err(CheckFailure::violation("metadata is changed or lost"));
    }
    Ok("with and without params".to_owned())
}

async fn message(probe: &CheckClient) -> CheckOutcome {
    let id = new_stream(probe).await?;
    let params = json!({"streamId": id, "message": user_message("hello")});
    succeeded(&probe.call("stream.message", params).await?)
}

async fn end(probe: &CheckClient) -> CheckOutcome {
    let id = new_stream(probe).await?;
    succeeded(&probe.call("stream.end", json!({"streamId": id})).await?)?;
    let closed = &[codes::STREAM_ALREADY_CLOSED];
    probe
        .call("stream.end", json!({"streamId": id}))
        .await?
        .refused_with(closed)?;
    let params = json!({"streamId": id, "message": user_message("too late")});
    probe
        .call("stream.message", params)
        .await?
        .refused_with(closed)?;
    Ok("and then refuses stream.message and stream.end".to_owned())
}

async fn chunk(probe: &CheckClient) -> CheckOutcome {
    let id = new_stream(probe).await?;
    let params =
        json!({"streamId": id, "chunk": user_message("a piece"), "sequence": 1, "isLast": true});
    succeeded(&probe.call("stream.chunk", params.clone()).await?)?;
    let silent = json!({"jsonrpc": "2.0", "method": "stream.chunk", "params": params});
    probe.post(silent.to_string()).await?.has_no_response()?;
    // isLast ends the message, not the stream.
    let params = json!({"streamId": id, "message": user_message("hello")});
    match succeeded(&probe.call("stream.message", params).await?) {
        Ok(_) => Ok("isLast does not close the stream".to_owned()),
        Err(_) => Err(CheckFailure::violation("isLast closes the stream")),
    }
}

async fn unknown(probe: &CheckClient) -> CheckOutcome {
    let id = "interzone-check-unknown-id";
    let no_stream = &[codes::STREAM_NOT_FOUND];
    let calls = [
        (
            "stream.message",
            json!({"streamId": id, "message": user_message("hello")}),
        ),
        ("stream.end", json!({"streamId": id})),
        (
            "stream.chunk",
            json!({"streamId": id, "chunk": user_message("hello"), "sequence": 1}),
        ),
    ];
    for (method, params) in calls {
        probe.call(method, params).await?.refused_with(no_stream)?;
    }
    Ok("by stream.message, stream.end and stream.chunk".to_owned())
}

async fn wrong(probe: &CheckClient) -> CheckOutcome {
    let calls = [
        ("stream.start", json!({"participants": "me"})),
        ("stream.message", json!({"streamId": "a"})),
        ("stream.end", json!({})),
        (
            "stream.chunk",
            json!({"streamId": "a", "chunk": user_message("hello"), "sequence": "one"}),
        ),
    ];
    for (method, params) in calls {
        let answer = probe.call(method, params).await?;
        answer.refused_with(&[ErrorCode::INVALID_PARAMS])?;
    }
    Ok(String::new())
}

/// Opens a watch; skips the check if the server has none.
async fn open(
    probe: &CheckClient,
    path: &str,
    after: Option<u64>,
) -> Result<SseReader, CheckFailure> {
    let response = probe.open(path, after).await?;
    if response.status() == StatusCode::NOT_FOUND {
        return Err(CheckFailure::skipped(NO_SSE));
    }
    SseReader::from_response(response)
}

async fn messages_are_delivered(probe: &CheckClient) -> CheckOutcome {
    let id = new_stream(probe).await?;
    let mut events = open(probe, &format!("/streams/{id}/events"), None).await?;
    let params = json!({"streamId": id, "message": user_message("echo heard")});
    succeeded(&probe.call("stream.message", params).await?)?;
    // The first event is our own message, the others are the agent's response.
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    while numbers.len() < 2 {
        let event = events.next().await?;
        if event.method != "stream.chunk" {
            continue;
        }
        numbers.push(event.params.get("sequence").and_then(Value::as_u64));
        texts.push(event.params.pointer("/chunk/role").cloned());
        if event.id.is_none() {
            return Err(CheckFailure::warning(
                "a chunk has no event id, so a watch cannot resume after it",
            ));
        }
    }
    if numbers != [Some(1), Some(2)] {
        return Err(CheckFailure::violation(
            "`sequence` does not count from 1 without gaps",
        ));
    }
    if texts.last() != Some(&Some(json!("agent"))) {
        return Err(CheckFailure::warning("no agent responds on the stream"));
    }
    Ok("the message and the agent's response, numbered from 1".to_owned())
}

async fn watch_resumes(probe: &CheckClient) -> CheckOutcome {
    let id = new_stream(probe).await?;
    let path = format!("/streams/{id}/events");
    let mut events = open(probe, &path, None).await?;
    for sequence in 1..=2 {
        let params =
            json!({"streamId": id, "chunk": user_message("a piece"), "sequence": sequence});
        succeeded(&probe.call("stream.chunk", params).await?)?;
    }
    let first = loop {
        let event = events.next().await?;
        if event.method == "stream.chunk" {
            break event;
        }
    };
    let Some(after) = first.id else {
        return Err(CheckFailure::warning(
            "a chunk has no event id, so a watch cannot resume after it",
        ));
    };
    drop(events);
    let mut events = open(probe, &path, Some(after)).await?;
    let next = events.next().await?;
    match (next.params.get("sequence").and_then(Value::as_u64), next.id) {
        (Some(2), Some(id)) if id > after => Ok("without gaps or duplicates".to_owned()),
        _ => Err(CheckFailure::violation(
            "after Last-Event-ID, a different event than the next one is sent",
        )),
    }
}

async fn task_is_watched(probe: &CheckClient) -> CheckOutcome {
    let id = task_id(&create_task(probe, "hello").await?)?;
    let mut events = open(probe, &format!("/tasks/{id}/events"), None).await?;
    let mut last = None;
    while let Some(event) = events.next_or_end().await? {
        if event.method == "task.notification" {
            last = event.params.pointer("/data/status").cloned().or(last);
        }
    }
    match last.as_ref().and_then(Value::as_str) {
        Some(status @ ("COMPLETED" | "FAILED" | "CANCELED")) => Ok(format!("ends after {status}")),
        _ => Err(CheckFailure::violation(
            "the event stream ended before the task did",
        )),
    }
}

async fn watch_requires_token(probe: &CheckClient) -> CheckOutcome {
    let id = new_stream(probe).await?;
    let path = format!("/streams/{id}/events");
    let answer = probe.get(&path, RequestIdentity::Anonymous).await?;
    match answer.status {
        StatusCode::UNAUTHORIZED => {}
        StatusCode::NOT_FOUND => return Err(CheckFailure::skipped(NO_SSE)),
        status => {
            return Err(CheckFailure::violation(format!(
                "HTTP {} without a token",
                status.as_u16()
            )));
        }
    }
    let path = "/streams/interzone-check-unknown-id/events";
    match probe.get(path, RequestIdentity::Caller).await?.status {
        StatusCode::NOT_FOUND => Ok("HTTP 401 without one, 404 for an unknown stream".to_owned()),
        status => Err(CheckFailure::violation(format!(
            "HTTP {} for an unknown stream",
            status.as_u16()
        ))),
    }
}
