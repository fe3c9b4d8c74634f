//! Watches: every event once, across broken connections, silence and refreshed tokens.

use crate::scripted_peer::{BodyPart, PeerAction, RecordedRequest, ScriptedPeer, task};
use futures_util::StreamExt;
use interzone_client::{
    ClientCredentials, Error, InvalidResponse, RetryPolicy, StreamWatch, TaskWatch, WatchEvent,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

fn sse_event(id: Option<u64>, method: &str, params: &Value) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = json!({"jsonrpc": "2.0", "method": method, "params": params});
    format!("{id}event: {method}\ndata: {data}\n\n")
}

fn task_notification(id: Option<u64>, event: &str, data: Value) -> String {
    let params =
        json!({"taskId": "t-1", "event": event, "timestamp": "2026-01-02T03:04:05Z", "data": data});
    sse_event(id, "task.notification", &params)
}

fn status_event(id: Option<u64>, status: &str) -> String {
    task_notification(id, "STATUS_CHANGE", task("t-1", status))
}

fn completed_event(id: Option<u64>) -> String {
    task_notification(id, "COMPLETED", task("t-1", "COMPLETED"))
}

fn text_event(id: Option<u64>, run: u64, offset: u64, delta: &str) -> String {
    let params = json!({"taskId": "t-1", "run": run, "offset": offset, "delta": delta});
    sse_event(id, "interzone.task.text", &params)
}

fn chunk_event(id: u64) -> String {
    let message = json!({"role": "agent", "parts": [{"type": "TextPart", "content": "hi"}]});
    let params = json!({"streamId": "s-1", "chunk": message, "sequence": id - 1, "isLast": true});
    sse_event(Some(id), "stream.chunk", &params)
}

fn event_stream(parts: &[&str], end: Vec<BodyPart>) -> PeerAction {
    let mut pieces = vec![
        BodyPart::Text(": hello\n\n".to_owned()),
        BodyPart::Text(parts.concat()),
    ];
    pieces.extend(end);
    PeerAction::events(pieces)
}

/// Short description of an event.
fn describe(event: &WatchEvent) -> String {
    match event {
        WatchEvent::StatusChange(task) => task.status.0.acp().to_owned(),
        WatchEvent::Message(message) => format!("message {}", message.text()),
        WatchEvent::Artifact(artifact) => format!("artifact {}", artifact.name()),
        WatchEvent::Text { run, offset, delta } => format!("text {run} {offset} {delta}"),
        WatchEvent::StatusLine(line) => format!("line {line}"),
        WatchEvent::Completed(_) => "completed".to_owned(),
        WatchEvent::Failed(_) => "failed".to_owned(),
        WatchEvent::Chunk(chunk) => format!("chunk {}", chunk.sequence),
        WatchEvent::StreamState { status, reason } => {
            format!("stream {} {reason:?}", status.name())
        }
        WatchEvent::Other { method, .. } => format!("other {method}"),
        other => format!("{other:?}"),
    }
}

async fn collect_task_events(watch: &mut TaskWatch) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(event) = watch.next().await {
        items.push(event.map_or_else(|error| format!("error {error}"), |event| describe(&event)));
    }
    assert!(watch.next().await.is_none(), "the watch stays ended");
    items
}

async fn collect_stream_events(watch: &mut StreamWatch) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(event) = watch.next().await {
        items.push(describe(&event.unwrap()));
    }
    items
}

fn last_event_id(request: &RecordedRequest) -> Option<&str> {
    request.header("last-event-id")
}

#[tokio::test(start_paused = true)]
async fn task_watch_yields_all_events() {
    let message = json!({"role": "agent", "parts": [{"type": "TextPart", "content": "hi"}]});
    let artifact = json!({"artifactId": "a-1", "name": "a.csv", "parts": []});
    let line = json!({"taskId": "t-1", "text": "reading"});
    let script = ScriptedPeer::steps(vec![event_stream(
        &[
            &status_event(Some(1), "SUBMITTED"),
            &status_event(Some(2), "WORKING"),
            &sse_event(None, "interzone.task.status", &line),
            &text_event(None, 5, 0, "Hel"),
            &text_event(Some(3), 5, 0, "Hello"),
            &task_notification(Some(4), "NEW_MESSAGE", message),
            &task_notification(Some(5), "NEW_ARTIFACT", artifact),
            &sse_event(None, "interzone.task.future", &json!({"x": 1})),
            &status_event(None, "COMPLETED"),
            &completed_event(Some(6)),
            &status_event(Some(7), "WORKING"),
        ],
        vec![BodyPart::Stall],
    )]);
    let mut watch = script.client().watch_task("t-1", None);
    assert!(
        script.requests().is_empty(),
        "it connects on the first `next`"
    );
    let expected = [
        "SUBMITTED",
        "WORKING",
        "line reading",
        "text 5 0 Hel",
        "text 5 3 lo",
        "message hi",
        "artifact a.csv",
        "other interzone.task.future",
        "COMPLETED",
        "completed",
    ];
    assert_eq!(collect_task_events(&mut watch).await, expected);
    assert_eq!(watch.position(), Some(6));
    let request = &script.requests()[0];
    assert_eq!(
        (request.verb.as_str(), request.path.as_str()),
        ("GET", "/tasks/t-1/events")
    );
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    assert_eq!(last_event_id(request), None);
}

#[tokio::test(start_paused = true)]
async fn watch_resumes_exactly_once_at_any_break() {
    let all_events = [
        status_event(Some(1), "SUBMITTED"),
        status_event(Some(2), "WORKING"),
        text_event(None, 5, 0, "Hél"),
        text_event(Some(3), 5, 0, "Héllo"),
        text_event(Some(4), 5, 6, " wörld"),
        status_event(None, "COMPLETED"),
        completed_event(Some(5)),
    ];
    let wire = all_events.concat();
    let expected = [
        "SUBMITTED",
        "WORKING",
        "Héllo wörld",
        "COMPLETED",
        "completed",
    ];
    for cut in (0..wire.len()).filter(|cut| wire.is_char_boundary(*cut)) {
        let (first, full) = (wire[..cut].to_owned(), wire.clone());
        let broken = AtomicUsize::new(0);
        let script = ScriptedPeer::new(move |request| {
            if broken.fetch_add(1, Ordering::Relaxed) == 0 {
                return event_stream(&[&first], vec![BodyPart::Break]);
            }
            // The server resumes after the last event id, but repeats one event.
            let after: u64 = last_event_id(request).map_or(0, |after| after.parse().unwrap());
            let from = match after {
                0 | 1 => 0,
                n => full.find(&format!("id: {n}\n")).unwrap(),
            };
            event_stream(&[&full[from..]], vec![])
        });
        let mut watch = script.client().watch_task("t-1", None);
        let mut events: Vec<String> = Vec::new();
        let mut text = String::new();
        while let Some(event) = watch.next().await {
            match event.unwrap() {
                WatchEvent::Text { offset, delta, .. } => {
                    assert_eq!(offset, text.len() as u64, "cut at {cut}");
                    text.push_str(&delta);
                }
                other => {
                    if !text.is_empty() {
                        events.push(std::mem::take(&mut text));
                    }
                    events.push(describe(&other));
                }
            }
        }
        assert_eq!(events, expected, "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_starts_after_given_position() {
    let script = ScriptedPeer::steps(vec![event_stream(
        &[&status_event(Some(8), "WORKING"), &completed_event(Some(9))],
        vec![],
    )]);
    let mut watch = script.client().watch_task("t/../1", Some(7));
    assert_eq!(
        collect_task_events(&mut watch).await,
        ["WORKING", "completed"]
    );
    let request = &script.requests()[0];
    assert_eq!(last_event_id(request), Some("7"));
    assert_eq!(
        request.path, "/tasks/t%2F..%2F1/events",
        "an id is one segment"
    );
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_reopened_despite_caller_timeouts() {
    let quiet = event_stream(&[&status_event(Some(1), "WORKING")], vec![BodyPart::Stall]);
    let lively = BodyPart::Text(": keep-alive\n\n".to_owned());
    let pause = BodyPart::Pause(Duration::from_secs(30));
    let end = BodyPart::Text(completed_event(Some(2)));
    let slow = PeerAction::events(vec![
        pause.clone(),
        lively.clone(),
        pause.clone(),
        lively,
        pause,
        end,
    ]);
    let script = ScriptedPeer::steps(vec![quiet, slow]);
    let mut watch = script.client().watch_task("t-1", None);
    let started_at = Instant::now();
    let mut items = Vec::new();
    loop {
        // A caller that cancels `next` every ten seconds.
        match tokio::time::timeout(Duration::from_secs(10), watch.next()).await {
            Ok(Some(event)) => items.push(describe(&event.unwrap())),
            Ok(None) => break,
            Err(_) => {}
        }
        assert!(started_at.elapsed() < Duration::from_secs(600), "{items:?}");
    }
    assert_eq!(items, ["WORKING", "completed"]);
    let calls = script.requests();
    assert_eq!(calls.len(), 2, "keep-alives prevent a reconnect");
    let waited = calls[1].received_at - calls[0].received_at;
    assert!(
        waited >= Duration::from_secs(45) && waited < Duration::from_secs(47),
        "{waited:?}"
    );
    assert_eq!(last_event_id(&calls[1]), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn watch_reconnects_while_peer_is_unavailable() {
    let steps = vec![
        event_stream(
            &[&status_event(Some(1), "WORKING"), "retry: 2000\n\n"],
            vec![BodyPart::Break],
        ),
        PeerAction::NotConnected,
        PeerAction::status(503).with_header("retry-after", "3"),
        PeerAction::Broken,
        PeerAction::NotConnected,
        PeerAction::NotConnected,
        PeerAction::NotConnected,
        PeerAction::Hang,
        event_stream(
            &[&task_notification(
                Some(2),
                "STATUS_CHANGE",
                task("t-1", "CANCELED"),
            )],
            vec![BodyPart::Stall],
        ),
    ];
    let script = ScriptedPeer::steps(steps);
    let mut watch = script.client().watch_task("t-1", None);
    assert_eq!(
        collect_task_events(&mut watch).await,
        ["WORKING", "CANCELED"]
    );
    let requests = script.requests();
    assert_eq!(requests.len(), 9);
    assert!(
        requests[1].received_at - requests[0].received_at >= Duration::from_secs(2),
        "as long as the peer requested"
    );
    assert!(requests[3].received_at - requests[2].received_at >= Duration::from_secs(3));
    assert!(
        requests
            .iter()
            .skip(1)
            .all(|call| last_event_id(call) == Some("1"))
    );
    let unreachable = ScriptedPeer::steps(vec![PeerAction::NotConnected]);
    let started_at = Instant::now();
    let mut watch = unreachable.client().watch_task("t-1", None);
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(error.is_retryable());
    assert!(
        started_at.elapsed() >= Duration::from_secs(300)
            && started_at.elapsed() < Duration::from_secs(330)
    );
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_end_watch() {
    for (status, code) in [
        (401, -40007),
        (403, -40006),
        (403, -40008),
        (404, -40001),
        (200, -40001),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no"}});
        let script = ScriptedPeer::steps(vec![PeerAction::json(status, &body)]);
        let mut watch = script.client().watch_task("t-1", None);
        let error = watch.next().await.unwrap().unwrap_err();
        assert_eq!(
            error.code().map(|code| i64::from(code.get())),
            Some(code),
            "{error:?}"
        );
        assert!(watch.next().await.is_none());
        assert_eq!(script.requests().len(), 1);
    }
    let large = format!("data: {}\n\n", "x".repeat(2000));
    type Check = fn(&Error) -> bool;
    let cases: [(PeerAction, Check); 4] = [
        (PeerAction::text(200, "text/html", "<p>"), |error| {
            matches!(
                error,
                Error::InvalidResponse(InvalidResponse::ContentType { .. })
            )
        }),
        (event_stream(&["data: rubbish\n\n"], vec![]), |error| {
            matches!(error, Error::InvalidResponse(InvalidResponse::Envelope(_)))
        }),
        (
            event_stream(
                &["data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n\n"],
                vec![],
            ),
            |error| {
                matches!(
                    error,
                    Error::InvalidResponse(InvalidResponse::UnexpectedKind)
                )
            },
        ),
        (event_stream(&[&large], vec![]), |error| {
            matches!(
                error,
                Error::InvalidResponse(InvalidResponse::EventTooLarge { limit: 1000 })
            )
        }),
    ];
    for (step, check) in cases {
        let script = ScriptedPeer::steps(vec![step]);
        let client = script.builder().max_response(1000).build().unwrap();
        let mut watch = client.watch_task("t-1", None);
        let error = watch.next().await.unwrap().unwrap_err();
        assert!(check(&error), "{error:?}");
        assert!(watch.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn watch_refreshes_token() {
    let issued = AtomicUsize::new(0);
    let script = ScriptedPeer::new(move |request| {
        if request.path == "/token" {
            let number = issued.fetch_add(1, Ordering::Relaxed) + 1;
            let token = json!({"access_token": format!("token-{number}"), "expires_in": 3600});
            return PeerAction::json(200, &token);
        }
        match (request.header("authorization"), last_event_id(request)) {
            (Some("Bearer token-1"), None) => {
                event_stream(&[&status_event(Some(1), "WORKING")], vec![])
            }
            (Some("Bearer token-2"), Some("1")) => {
                event_stream(&[&completed_event(Some(2))], vec![])
            }
            _ => PeerAction::status(401),
        }
    });
    let credentials = ClientCredentials::new("me", "s3cret").token_url("https://login.test/token");
    let client = script.builder().credentials(credentials).build().unwrap();
    let mut watch = client.watch_task("t-1", None);
    assert_eq!(
        collect_task_events(&mut watch).await,
        ["WORKING", "completed"]
    );
    let scope = script.requests_to("/token")[0].form("scope");
    assert_eq!(scope.as_deref(), Some("acp:agent:identify acp:tasks:read"));
}

#[tokio::test(start_paused = true)]
async fn watch_of_finished_task_ends() {
    let script = ScriptedPeer::steps(vec![event_stream(&[], vec![])]);
    let mut watch = script.client().watch_task("t-1", Some(9));
    assert!(collect_task_events(&mut watch).await.is_empty());
    assert_eq!(
        script.requests().len(),
        3,
        "a restart of the peer looks the same, so it retries"
    );
}

#[tokio::test(start_paused = true)]
async fn events_without_id_are_yielded() {
    let failed = task_notification(None, "FAILED", task("t-1", "FAILED"));
    let pause = BodyPart::Pause(Duration::from_secs(20));
    let working = status_event(None, "WORKING");
    let script = ScriptedPeer::steps(vec![event_stream(
        &[&working],
        vec![pause, BodyPart::Text(failed)],
    )]);
    let mut watch = script.client().watch_task("t-1", None);
    let started_at = Instant::now();
    assert_eq!(describe(&watch.next().await.unwrap().unwrap()), "WORKING");
    assert!(
        started_at.elapsed() < Duration::from_secs(1),
        "without delay"
    );
    assert_eq!(collect_task_events(&mut watch).await, ["failed"]);
}

#[tokio::test(start_paused = true)]
async fn watch_stream_is_send() {
    let script = ScriptedPeer::steps(vec![event_stream(
        &[&status_event(Some(1), "WORKING"), &completed_event(Some(2))],
        vec![],
    )]);
    let watch = script.client().watch_task("t-1", None);
    let collect = tokio::spawn(watch.into_stream().collect::<Vec<_>>());
    assert_eq!(collect.await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn stream_watch_ends_when_closed() {
    let closed = json!({"streamId": "s-1", "status": "CLOSED", "reason": "enough"});
    let paused = json!({"streamId": "s-1", "status": "PAUSED"});
    let script = ScriptedPeer::steps(vec![
        event_stream(&[&chunk_event(2), &chunk_event(3)], vec![BodyPart::Break]),
        event_stream(
            &[
                &chunk_event(3),
                &chunk_event(4),
                &sse_event(Some(5), "interzone.stream.state", &paused),
                &sse_event(Some(6), "interzone.stream.state", &closed),
            ],
            vec![BodyPart::Stall],
        ),
    ]);
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    let mut watch = client.watch_stream("s-1", None);
    let expected = [
        "chunk 1",
        "chunk 2",
        "chunk 3",
        "stream PAUSED None",
        "stream CLOSED Some(\"enough\")",
    ];
    assert_eq!(collect_stream_events(&mut watch).await, expected);
    assert_eq!(script.requests()[1].path, "/streams/s-1/events");
    assert_eq!(last_event_id(&script.requests()[1]), Some("3"));
    assert_eq!(watch.position(), Some(6));
}
