//! What is tried again, and what never is.

use crate::calls::{create, get};
use crate::script::{Script, Step, task_result};
use interzone_client::{Error, TransportError};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Does the step once, and well from then on.
fn once(step: Step) -> Script {
    let calls = AtomicUsize::new(0);
    Script::new(move |seen| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => step.clone(),
        _ => seen.result(task_result("t-1")),
    })
}

#[tokio::test(start_paused = true)]
async fn only_what_cannot_be_done_twice_is_tried_again() {
    // What happens, and whether a read and a write are tried again.
    let cases = [
        (Step::NotConnected, true, true),
        (Step::Broken, true, false),
        (Step::status(500), true, false),
        (Step::status(502), true, false),
        (Step::status(503).with("retry-after", "1"), true, false),
        (Step::status(429), true, true),
        (Step::status(429).with("retry-after", "1"), true, true),
        (Step::status(404), false, false),
        (Step::status(401), false, false),
        (Step::text(200, "text/html", "<p>"), false, false),
        (Step::Hang, false, false),
    ];
    for (step, read, write) in cases {
        let said = format!("{step:?}");
        let script = once(step.clone());
        let outcome = script.client().tasks_get(&get("t-1")).await;
        assert_eq!(outcome.is_ok(), read, "read, {said}: {outcome:?}");
        assert_eq!(script.seen().len(), 1 + usize::from(read), "read, {said}");
        let script = once(step);
        let outcome = script.client().tasks_create(&create()).await;
        assert_eq!(outcome.is_ok(), write, "write, {said}: {outcome:?}");
        assert_eq!(script.seen().len(), 1 + usize::from(write), "write, {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_are_not_tried_again() {
    for code in [-32600, -32601, -32602, -40001, -40005, -40006, -40008] {
        let script = Script::new(move |seen| seen.error(200, code, json!({})));
        assert!(script.client().tasks_get(&get("t-1")).await.is_err());
        assert_eq!(script.seen().len(), 1, "{code}");
    }
    let calls = AtomicUsize::new(0);
    let script = Script::new(move |seen| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => seen.error(200, -32003, json!({"retryAfter": 2})),
        _ => seen.result(task_result("t-1")),
    });
    let begun = Instant::now();
    script.client().tasks_create(&create()).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "it waits as long as it was told"
    );
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_at_last() {
    let script = Script::steps(vec![Step::NotConnected]);
    let begun = Instant::now();
    let error = script.client().tasks_get(&get("t-1")).await.unwrap_err();
    assert!(matches!(
        error,
        Error::Transport(TransportError::NotConnected(_))
    ));
    assert!(error.is_retryable());
    let seen = script.seen();
    assert_eq!(seen.len(), 4);
    // Up to 0.2, 0.4 and 0.8 seconds.
    assert!(begun.elapsed() <= Duration::from_millis(1400));
    let ids: std::collections::HashSet<_> = seen
        .iter()
        .map(|call| call.header("x-correlation-id"))
        .collect();
    assert_eq!(ids.len(), 1, "all tries are one call");
    let bodies: std::collections::HashSet<_> = seen.iter().map(|call| call.body.clone()).collect();
    assert_eq!(bodies.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waits_differ() {
    let script = Script::steps(vec![Step::NotConnected]);
    let mut waits = std::collections::HashSet::new();
    for _ in 0..8 {
        let client = script.client();
        let before = script.seen().len();
        let _ = client.tasks_get(&get("t-1")).await;
        let seen = script.seen();
        waits.insert(seen[before + 1].at - seen[before].at);
    }
    assert!(
        waits.len() > 4,
        "clients that failed together must not come back together: {waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_wait_goes_beyond_the_deadline() {
    let script = Script::steps(vec![Step::status(429).with("retry-after", "60")]);
    let begun = Instant::now();
    let error = script.client().tasks_get(&get("t-1")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(begun.elapsed(), Duration::ZERO, "it says so at once");
    assert_eq!(script.seen().len(), 1);
    // A first try that takes most of the time leaves little for the second.
    let slow = Step::Late(Duration::from_secs(4), Box::new(Step::Broken));
    let script = Script::steps(vec![slow, Step::Hang]);
    let begun = Instant::now();
    let error = script.client().tasks_get(&get("t-1")).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }));
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
}
