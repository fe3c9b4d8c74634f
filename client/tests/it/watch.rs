//! Watching: through broken connections, silence and renewed tokens, each event once.

use crate::script::{Piece, Script, Seen, Step, task};
use futures_util::StreamExt;
use interzone_client::{
    AnswerFault, ClientCredentials, Error, RetryPolicy, StreamWatch, TaskWatch, Watched,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

fn sse(id: Option<u64>, method: &str, params: &Value) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = json!({"jsonrpc": "2.0", "method": method, "params": params});
    format!("{id}event: {method}\ndata: {data}\n\n")
}

fn told(id: Option<u64>, event: &str, data: Value) -> String {
    let params =
        json!({"taskId": "t-1", "event": event, "timestamp": "2026-01-02T03:04:05Z", "data": data});
    sse(id, "task.notification", &params)
}

fn status(id: Option<u64>, status: &str) -> String {
    told(id, "STATUS_CHANGE", task("t-1", status))
}

fn done(id: Option<u64>) -> String {
    told(id, "COMPLETED", task("t-1", "COMPLETED"))
}

fn text(id: Option<u64>, run: u64, offset: u64, delta: &str) -> String {
    let params = json!({"taskId": "t-1", "run": run, "offset": offset, "delta": delta});
    sse(id, "interzone.task.text", &params)
}

fn chunk(id: u64) -> String {
    let message = json!({"role": "agent", "parts": [{"type": "TextPart", "content": "hi"}]});
    let params = json!({"streamId": "s-1", "chunk": message, "sequence": id - 1, "isLast": true});
    sse(Some(id), "stream.chunk", &params)
}

fn events(parts: &[&str], end: Vec<Piece>) -> Step {
    let mut pieces = vec![
        Piece::Text(": hello\n\n".to_owned()),
        Piece::Text(parts.concat()),
    ];
    pieces.extend(end);
    Step::events(pieces)
}

/// An event in a few letters.
fn brief(event: &Watched) -> String {
    match event {
        Watched::StatusChange(task) => task.status.0.acp().to_owned(),
        Watched::Message(message) => format!("message {}", message.text()),
        Watched::Artifact(artifact) => format!("artifact {}", artifact.name()),
        Watched::Text { run, offset, delta } => format!("text {run} {offset} {delta}"),
        Watched::StatusLine(line) => format!("line {line}"),
        Watched::Completed(_) => "completed".to_owned(),
        Watched::Failed(_) => "failed".to_owned(),
        Watched::Chunk(chunk) => format!("chunk {}", chunk.sequence),
        Watched::StreamState { status, reason } => format!("stream {} {reason:?}", status.name()),
        Watched::Other { method, .. } => format!("other {method}"),
        other => format!("{other:?}"),
    }
}

async fn all(watch: &mut TaskWatch) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        seen.push(event.map_or_else(|error| format!("error {error}"), |event| brief(&event)));
    }
    assert!(watch.next().await.is_none(), "it stays over");
    seen
}

async fn all_of_stream(watch: &mut StreamWatch) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        seen.push(brief(&event.unwrap()));
    }
    seen
}

fn after(seen: &Seen) -> Option<&str> {
    seen.header("last-event-id")
}

#[tokio::test(start_paused = true)]
async fn a_task_from_beginning_to_end() {
    let message = json!({"role": "agent", "parts": [{"type": "TextPart", "content": "hi"}]});
    let artifact = json!({"artifactId": "a-1", "name": "a.csv", "parts": []});
    let line = json!({"taskId": "t-1", "text": "reading"});
    let script = Script::steps(vec![events(
        &[
            &status(Some(1), "SUBMITTED"),
            &status(Some(2), "WORKING"),
            &sse(None, "interzone.task.status", &line),
            &text(None, 5, 0, "Hel"),
            &text(Some(3), 5, 0, "Hello"),
            &told(Some(4), "NEW_MESSAGE", message),
            &told(Some(5), "NEW_ARTIFACT", artifact),
            &sse(None, "interzone.task.future", &json!({"x": 1})),
            &status(None, "COMPLETED"),
            &done(Some(6)),
            &status(Some(7), "WORKING"),
        ],
        vec![Piece::Stall],
    )]);
    let mut watch = script.client().watch_task("t-1", None);
    assert!(script.seen().is_empty(), "it connects when it is asked");
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
    assert_eq!(all(&mut watch).await, expected);
    assert_eq!(watch.position(), Some(6));
    let seen = &script.seen()[0];
    assert_eq!(
        (seen.verb.as_str(), seen.path.as_str()),
        ("GET", "/tasks/t-1/events")
    );
    assert_eq!(seen.header("accept"), Some("text/event-stream"));
    assert_eq!(after(seen), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_told_twice_wherever_it_breaks() {
    let whole = [
        status(Some(1), "SUBMITTED"),
        status(Some(2), "WORKING"),
        text(None, 5, 0, "Hél"),
        text(Some(3), 5, 0, "Héllo"),
        text(Some(4), 5, 6, " wörld"),
        status(None, "COMPLETED"),
        done(Some(5)),
    ];
    let wire = whole.concat();
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
        let script = Script::new(move |seen| {
            if broken.fetch_add(1, Ordering::Relaxed) == 0 {
                return events(&[&first], vec![Piece::Break]);
            }
            // The server goes on after what was seen, but repeats one to be sure.
            let after: u64 = after(seen).map_or(0, |after| after.parse().unwrap());
            let from = match after {
                0 | 1 => 0,
                n => full.find(&format!("id: {n}\n")).unwrap(),
            };
            events(&[&full[from..]], vec![])
        });
        let mut watch = script.client().watch_task("t-1", None);
        let mut story: Vec<String> = Vec::new();
        let mut words = String::new();
        while let Some(event) = watch.next().await {
            match event.unwrap() {
                Watched::Text { offset, delta, .. } => {
                    assert_eq!(offset, words.len() as u64, "cut at {cut}");
                    words.push_str(&delta);
                }
                other => {
                    if !words.is_empty() {
                        story.push(std::mem::take(&mut words));
                    }
                    story.push(brief(&other));
                }
            }
        }
        assert_eq!(story, expected, "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_after_what_was_seen() {
    let script = Script::steps(vec![events(
        &[&status(Some(8), "WORKING"), &done(Some(9))],
        vec![],
    )]);
    let mut watch = script.client().watch_task("t/../1", Some(7));
    assert_eq!(all(&mut watch).await, ["WORKING", "completed"]);
    let seen = &script.seen()[0];
    assert_eq!(after(seen), Some("7"));
    assert_eq!(
        seen.path, "/tasks/t%2F..%2F1/events",
        "an id is one segment"
    );
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_even_by_a_busy_caller() {
    let quiet = events(&[&status(Some(1), "WORKING")], vec![Piece::Stall]);
    let lively = Piece::Text(": keep-alive\n\n".to_owned());
    let pause = Piece::Pause(Duration::from_secs(30));
    let end = Piece::Text(done(Some(2)));
    let slow = Step::events(vec![
        pause.clone(),
        lively.clone(),
        pause.clone(),
        lively,
        pause,
        end,
    ]);
    let script = Script::steps(vec![quiet, slow]);
    let mut watch = script.client().watch_task("t-1", None);
    let begun = Instant::now();
    let mut seen = Vec::new();
    loop {
        // A caller that looks at other things every ten seconds.
        match tokio::time::timeout(Duration::from_secs(10), watch.next()).await {
            Ok(Some(event)) => seen.push(brief(&event.unwrap())),
            Ok(None) => break,
            Err(_) => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "{seen:?}");
    }
    assert_eq!(seen, ["WORKING", "completed"]);
    let calls = script.seen();
    assert_eq!(calls.len(), 2, "keep-alives keep it alive");
    let waited = calls[1].at - calls[0].at;
    assert!(
        waited >= Duration::from_secs(45) && waited < Duration::from_secs(47),
        "{waited:?}"
    );
    assert_eq!(after(&calls[1]), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_away_is_waited_for() {
    let steps = vec![
        events(
            &[&status(Some(1), "WORKING"), "retry: 2000\n\n"],
            vec![Piece::Break],
        ),
        Step::NotConnected,
        Step::status(503).with("retry-after", "3"),
        Step::Broken,
        Step::NotConnected,
        Step::NotConnected,
        Step::NotConnected,
        Step::Hang,
        events(
            &[&told(Some(2), "STATUS_CHANGE", task("t-1", "CANCELED"))],
            vec![Piece::Stall],
        ),
    ];
    let script = Script::steps(steps);
    let mut watch = script.client().watch_task("t-1", None);
    assert_eq!(all(&mut watch).await, ["WORKING", "CANCELED"]);
    let seen = script.seen();
    assert_eq!(seen.len(), 9);
    assert!(
        seen[1].at - seen[0].at >= Duration::from_secs(2),
        "as long as the peer asked"
    );
    assert!(seen[3].at - seen[2].at >= Duration::from_secs(3));
    assert!(seen.iter().skip(1).all(|call| after(call) == Some("1")));
    let gone = Script::steps(vec![Step::NotConnected]);
    let begun = Instant::now();
    let mut watch = gone.client().watch_task("t-1", None);
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(error.is_retryable());
    assert!(
        begun.elapsed() >= Duration::from_secs(300) && begun.elapsed() < Duration::from_secs(330)
    );
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_mended_ends_it() {
    for (status, code) in [
        (401, -40007),
        (403, -40006),
        (403, -40008),
        (404, -40001),
        (200, -40001),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no"}});
        let script = Script::steps(vec![Step::json(status, &body)]);
        let mut watch = script.client().watch_task("t-1", None);
        let error = watch.next().await.unwrap().unwrap_err();
        assert_eq!(
            error.code().map(|code| i64::from(code.get())),
            Some(code),
            "{error:?}"
        );
        assert!(watch.next().await.is_none());
        assert_eq!(script.seen().len(), 1);
    }
    let large = format!("data: {}\n\n", "x".repeat(2000));
    type Check = fn(&Error) -> bool;
    let cases: [(Step, Check); 4] = [
        (Step::text(200, "text/html", "<p>"), |error| {
            matches!(error, Error::Answer(AnswerFault::ContentType { .. }))
        }),
        (events(&["data: rubbish\n\n"], vec![]), |error| {
            matches!(error, Error::Answer(AnswerFault::Envelope(_)))
        }),
        (
            events(
                &["data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n\n"],
                vec![],
            ),
            |error| matches!(error, Error::Answer(AnswerFault::Kind)),
        ),
        (events(&[&large], vec![]), |error| {
            matches!(
                error,
                Error::Answer(AnswerFault::EventTooLarge { limit: 1000 })
            )
        }),
    ];
    for (step, check) in cases {
        let script = Script::steps(vec![step]);
        let client = script.builder().max_response(1000).build().unwrap();
        let mut watch = client.watch_task("t-1", None);
        let error = watch.next().await.unwrap().unwrap_err();
        assert!(check(&error), "{error:?}");
        assert!(watch.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_on_the_way() {
    let issued = AtomicUsize::new(0);
    let script = Script::new(move |seen| {
        if seen.path == "/token" {
            let number = issued.fetch_add(1, Ordering::Relaxed) + 1;
            let token = json!({"access_token": format!("token-{number}"), "expires_in": 3600});
            return Step::json(200, &token);
        }
        match (seen.header("authorization"), after(seen)) {
            (Some("Bearer token-1"), None) => events(&[&status(Some(1), "WORKING")], vec![]),
            (Some("Bearer token-2"), Some("1")) => events(&[&done(Some(2))], vec![]),
            _ => Step::status(401),
        }
    });
    let credentials = ClientCredentials::new("me", "s3cret").token_url("https://login.test/token");
    let client = script.builder().credentials(credentials).build().unwrap();
    let mut watch = client.watch_task("t-1", None);
    assert_eq!(all(&mut watch).await, ["WORKING", "completed"]);
    let scope = script.seen_at("/token")[0].form("scope");
    assert_eq!(scope.as_deref(), Some("acp:agent:identify acp:tasks:read"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_what_is_over_ends() {
    let script = Script::steps(vec![events(&[], vec![])]);
    let mut watch = script.client().watch_task("t-1", Some(9));
    assert!(all(&mut watch).await.is_empty());
    assert_eq!(
        script.seen().len(),
        3,
        "a restart of the peer looks the same, so it looks again"
    );
}

#[tokio::test(start_paused = true)]
async fn events_without_numbers_are_told_too() {
    let failed = told(None, "FAILED", task("t-1", "FAILED"));
    let pause = Piece::Pause(Duration::from_secs(20));
    let working = status(None, "WORKING");
    let script = Script::steps(vec![events(&[&working], vec![pause, Piece::Text(failed)])]);
    let mut watch = script.client().watch_task("t-1", None);
    let begun = Instant::now();
    assert_eq!(brief(&watch.next().await.unwrap().unwrap()), "WORKING");
    assert!(begun.elapsed() < Duration::from_secs(1), "and soon");
    assert_eq!(all(&mut watch).await, ["failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_a_stream_that_may_go_to_another_thread() {
    let script = Script::steps(vec![events(
        &[&status(Some(1), "WORKING"), &done(Some(2))],
        vec![],
    )]);
    let watch = script.client().watch_task("t-1", None);
    let collect = tokio::spawn(watch.into_stream().collect::<Vec<_>>());
    assert_eq!(collect.await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_until_it_is_closed() {
    let closed = json!({"streamId": "s-1", "status": "CLOSED", "reason": "enough"});
    let paused = json!({"streamId": "s-1", "status": "PAUSED"});
    let script = Script::steps(vec![
        events(&[&chunk(2), &chunk(3)], vec![Piece::Break]),
        events(
            &[
                &chunk(3),
                &chunk(4),
                &sse(Some(5), "interzone.stream.state", &paused),
                &sse(Some(6), "interzone.stream.state", &closed),
            ],
            vec![Piece::Stall],
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
    assert_eq!(all_of_stream(&mut watch).await, expected);
    assert_eq!(script.seen()[1].path, "/streams/s-1/events");
    assert_eq!(after(&script.seen()[1]), Some("3"));
    assert_eq!(watch.position(), Some(6));
}
