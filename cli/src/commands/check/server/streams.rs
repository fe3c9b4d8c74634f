//! Streams: ACP's three methods about them, the chunks, and how both reach those who watch.

use super::events::Events;
use super::members::{string, timestamp};
use super::probe::{As, Probe};
use super::tasks::{begin, id_of, succeeded};
use super::verdict::{Checks, Finding, Flaw};
use http::StatusCode;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde_json::{Value, json};

const METHODS: &str = "ACP §3";
const STATES: &str = "ACP §4";
const ERRORS: &str = "ACP §5";
const WATCH: &str = "ACP §7";

const NO_SSE: &str = "the server offers no events by SSE at this address, which ACP leaves open";

pub(super) async fn check(probe: &Probe, out: &mut Checks) {
    out.group("streams");
    if let Err(flaw) = probe.need_token() {
        out.note("every method of streams", METHODS, Err(flaw));
        return;
    }
    out.note("stream.start begins a stream", METHODS, start(probe).await);
    out.note("stream.message is taken", METHODS, message(probe).await);
    out.note("stream.end closes a stream", STATES, end(probe).await);
    out.note("stream.chunk is taken", METHODS, chunk(probe).await);
    out.note("an unknown stream is refused", ERRORS, unknown(probe).await);
    out.note("wrong params are refused", ERRORS, wrong(probe).await);
    out.note("what is said is heard by SSE", WATCH, heard(probe).await);
    out.note(
        "a watcher resumes where it left off",
        WATCH,
        resumed(probe).await,
    );
    out.note(
        "a task is watched to its end by SSE",
        WATCH,
        task_watched(probe).await,
    );
    out.note(
        "nobody watches without a token",
        WATCH,
        guarded(probe).await,
    );
}

fn say(text: &str) -> Value {
    json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}

async fn begin_stream(probe: &Probe, params: Value) -> Result<Value, Flaw> {
    let mut result = probe.call("stream.start", params).await?.result()?;
    match result.get_mut("stream") {
        Some(stream) => Ok(stream.take()),
        None => Err(Flaw::broken("the result has no `stream`")),
    }
}

async fn new_stream(probe: &Probe) -> Result<String, Flaw> {
    string(&begin_stream(probe, json!({})).await?, "streamId")
}

async fn start(probe: &Probe) -> Finding {
    let without = r#"{"jsonrpc":"2.0","method":"stream.start","id":1}"#;
    probe.post(without).await?.result()?;
    let stream = begin_stream(probe, json!({"metadata": {"a": 1}})).await?;
    string(&stream, "streamId")?;
    timestamp(&stream, "createdAt")?;
    if string(&stream, "status")? != "ACTIVE" {
        return Err(Flaw::broken("the status is not ACTIVE"));
    }
    if !stream.get("participants").is_some_and(Value::is_array) {
        return Err(Flaw::broken("`participants` is missing or no list"));
    }
    if stream.pointer("/metadata/a") != Some(&json!(1)) {
        return Err(Flaw::broken("metadata is changed or lost"));
    }
    Ok("with and without params".to_owned())
}

async fn message(probe: &Probe) -> Finding {
    let id = new_stream(probe).await?;
    let params = json!({"streamId": id, "message": say("hello")});
    succeeded(&probe.call("stream.message", params).await?)
}

async fn end(probe: &Probe) -> Finding {
    let id = new_stream(probe).await?;
    succeeded(&probe.call("stream.end", json!({"streamId": id})).await?)?;
    let closed = &[codes::STREAM_ALREADY_CLOSED];
    probe
        .call("stream.end", json!({"streamId": id}))
        .await?
        .refused_with(closed)?;
    let params = json!({"streamId": id, "message": say("too late")});
    probe
        .call("stream.message", params)
        .await?
        .refused_with(closed)?;
    Ok("and then takes neither stream.message nor stream.end".to_owned())
}

async fn chunk(probe: &Probe) -> Finding {
    let id = new_stream(probe).await?;
    let params = json!({"streamId": id, "chunk": say("a piece"), "sequence": 1, "isLast": true});
    succeeded(&probe.call("stream.chunk", params.clone()).await?)?;
    let silent = json!({"jsonrpc": "2.0", "method": "stream.chunk", "params": params});
    probe.post(silent.to_string()).await?.silent()?;
    // It ends what was said, not the stream.
    let params = json!({"streamId": id, "message": say("hello")});
    match succeeded(&probe.call("stream.message", params).await?) {
        Ok(_) => Ok("isLast does not close the stream".to_owned()),
        Err(_) => Err(Flaw::broken("isLast closes the stream")),
    }
}

async fn unknown(probe: &Probe) -> Finding {
    let id = "interzone-check-nobody-has-this";
    let no_stream = &[codes::STREAM_NOT_FOUND];
    let calls = [
        (
            "stream.message",
            json!({"streamId": id, "message": say("hello")}),
        ),
        ("stream.end", json!({"streamId": id})),
        (
            "stream.chunk",
            json!({"streamId": id, "chunk": say("hello"), "sequence": 1}),
        ),
    ];
    for (method, params) in calls {
        probe.call(method, params).await?.refused_with(no_stream)?;
    }
    Ok("by stream.message, stream.end and stream.chunk".to_owned())
}

async fn wrong(probe: &Probe) -> Finding {
    let calls = [
        ("stream.start", json!({"participants": "me"})),
        ("stream.message", json!({"streamId": "a"})),
        ("stream.end", json!({})),
        (
            "stream.chunk",
            json!({"streamId": "a", "chunk": say("hello"), "sequence": "one"}),
        ),
    ];
    for (method, params) in calls {
        let answer = probe.call(method, params).await?;
        answer.refused_with(&[ErrorCode::INVALID_PARAMS])?;
    }
    Ok(String::new())
}

/// Opens a watch, or says why there is none.
async fn open(probe: &Probe, path: &str, after: Option<u64>) -> Result<Events, Flaw> {
    let response = probe.open(path, after).await?;
    if response.status() == StatusCode::NOT_FOUND {
        return Err(Flaw::unseen(NO_SSE));
    }
    Events::of(response)
}

async fn heard(probe: &Probe) -> Finding {
    let id = new_stream(probe).await?;
    let mut events = open(probe, &format!("/streams/{id}/events"), None).await?;
    let params = json!({"streamId": id, "message": say("echo heard")});
    succeeded(&probe.call("stream.message", params).await?)?;
    // The first is what we said ourselves, the others are the answer.
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
            return Err(Flaw::poor(
                "a chunk has no event id, so nobody can resume after it",
            ));
        }
    }
    if numbers != [Some(1), Some(2)] {
        return Err(Flaw::broken(
            "`sequence` does not count from 1 without a gap",
        ));
    }
    if texts.last() != Some(&Some(json!("agent"))) {
        return Err(Flaw::poor("no agent answers on the stream"));
    }
    Ok("our words and the agent's answer, numbered from 1".to_owned())
}

async fn resumed(probe: &Probe) -> Finding {
    let id = new_stream(probe).await?;
    let path = format!("/streams/{id}/events");
    let mut events = open(probe, &path, None).await?;
    for sequence in 1..=2 {
        let params = json!({"streamId": id, "chunk": say("a piece"), "sequence": sequence});
        succeeded(&probe.call("stream.chunk", params).await?)?;
    }
    let first = loop {
        let event = events.next().await?;
        if event.method == "stream.chunk" {
            break event;
        }
    };
    let Some(after) = first.id else {
        return Err(Flaw::poor(
            "a chunk has no event id, so nobody can resume after it",
        ));
    };
    drop(events);
    let mut events = open(probe, &path, Some(after)).await?;
    let next = events.next().await?;
    match (next.params.get("sequence").and_then(Value::as_u64), next.id) {
        (Some(2), Some(id)) if id > after => {
            Ok("by Last-Event-ID, without gap or double".to_owned())
        }
        _ => Err(Flaw::broken(
            "after Last-Event-ID comes something else than the next event",
        )),
    }
}

async fn task_watched(probe: &Probe) -> Finding {
    let id = id_of(&begin(probe, "hello").await?)?;
    let mut events = open(probe, &format!("/tasks/{id}/events"), None).await?;
    let mut last = None;
    while let Some(event) = events.until_end().await? {
        if event.method == "task.notification" {
            last = event.params.pointer("/data/status").cloned().or(last);
        }
    }
    match last.as_ref().and_then(Value::as_str) {
        Some(status @ ("COMPLETED" | "FAILED" | "CANCELED")) => Ok(format!("ends after {status}")),
        _ => Err(Flaw::broken("the events end before the task does")),
    }
}

async fn guarded(probe: &Probe) -> Finding {
    let id = new_stream(probe).await?;
    let path = format!("/streams/{id}/events");
    let answer = probe.get(&path, As::Nobody).await?;
    match answer.status {
        StatusCode::UNAUTHORIZED => {}
        StatusCode::NOT_FOUND => return Err(Flaw::unseen(NO_SSE)),
        status => {
            return Err(Flaw::broken(format!(
                "HTTP {} without a token",
                status.as_u16()
            )));
        }
    }
    let path = "/streams/interzone-check-nobody-has-this/events";
    match probe.get(path, As::Caller).await?.status {
        StatusCode::NOT_FOUND => Ok("HTTP 401 without one, 404 for an unknown stream".to_owned()),
        status => Err(Flaw::broken(format!(
            "HTTP {} for an unknown stream",
            status.as_u16()
        ))),
    }
}
