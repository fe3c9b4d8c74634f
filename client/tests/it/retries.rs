//! Retries: which failures are retried, and which never.

use crate::calls::{create_params, get_params};
use crate::scripted_peer::{PeerAction, ScriptedPeer, task_result};
use interzone_client::{Error, TransportError};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Peer that performs the step once, and answers from then on.
fn fail_once(step: PeerAction) -> ScriptedPeer {
    let calls = AtomicUsize::new(0);
    ScriptedPeer::new(move |request| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => step.clone(),
        _ => request.result(task_result("t-1")),
    })
}

#[tokio::test(start_paused = true)]
async fn only_safe_failures_are_retried() {
    // The failure, and whether a read and a write are retried.
    let cases = [
        (PeerAction::NotConnected, true, true),
        (PeerAction::Broken, true, false),
        (PeerAction::status(500), true, false),
        (PeerAction::status(502), true, false),
        (
            PeerAction::status(503).with_header("retry-after", "1"),
            true,
            false,
        ),
        (PeerAction::status(429), true, true),
        (
            PeerAction::status(429).with_header("retry-after", "1"),
            true,
            true,
        ),
        (PeerAction::status(404), false, false),
        (PeerAction::status(401), false, false),
        (PeerAction::text(200, "text/html", "<p>"), false, false),
        (PeerAction::Hang, false, false),
    ];
    for (step, read, write) in cases {
        let description = format!("{step:?}");
        let script = fail_once(step.clone());
        let outcome = script.client().tasks_get(&get_params("t-1")).await;
        assert_eq!(outcome.is_ok(), read, "read, {description}: {outcome:?}");
        assert_eq!(
            script.requests().len(),
            1 + usize::from(read),
            "read, {description}"
        );
        let script = fail_once(step);
        let outcome = script.client().tasks_create(&create_params()).await;
        assert_eq!(outcome.is_ok(), write, "write, {description}: {outcome:?}");
        assert_eq!(
            script.requests().len(),
            1 + usize::from(write),
            "write, {description}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rpc_errors_are_not_retried() {
    for code in [-32600, -32601, -32602, -40001, -40005, -40006, -40008] {
        let script = ScriptedPeer::new(move |request| request.error(200, code, json!({})));
        assert!(script.client().tasks_get(&get_params("t-1")).await.is_err());
        assert_eq!(script.requests().len(), 1, "{code}");
    }
    let calls = AtomicUsize::new(0);
    let script = ScriptedPeer::new(move |request| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => request.error(200, -32003, json!({"retryAfter": 2})),
        _ => request.result(task_result("t-1")),
    });
    let started_at = Instant::now();
    script
        .client()
        .tasks_create(&create_params())
        .await
        .unwrap();
    assert!(
        started_at.elapsed() >= Duration::from_secs(2),
        "it waits as long as the server requests"
    );
}

#[tokio::test(start_paused = true)]
async fn retries_end_after_four_attempts() {
    let script = ScriptedPeer::steps(vec![PeerAction::NotConnected]);
    let started_at = Instant::now();
    let error = script
        .client()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        Error::Transport(TransportError::NotConnected(_))
    ));
    assert!(error.is_retryable());
    let requests = script.requests();
    assert_eq!(requests.len(), 4);
    // Up to 0.2, 0.4 and 0.8 seconds.
    assert!(started_at.elapsed() <= Duration::from_millis(1400));
    let ids: std::collections::HashSet<_> = requests
        .iter()
        .map(|call| call.header("x-correlation-id"))
        .collect();
    assert_eq!(ids.len(), 1, "all attempts are one call");
    let bodies: std::collections::HashSet<_> =
        requests.iter().map(|call| call.body.clone()).collect();
    assert_eq!(bodies.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_delays_have_jitter() {
    let script = ScriptedPeer::steps(vec![PeerAction::NotConnected]);
    let mut waits = std::collections::HashSet::new();
    for _ in 0..8 {
        let client = script.client();
        let before = script.requests().len();
        let _ = client.tasks_get(&get_params("t-1")).await;
        let requests = script.requests();
        waits.insert(requests[before + 1].received_at - requests[before].received_at);
    }
    assert!(
        waits.len() > 4,
        "clients that failed together must not retry together: {waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_wait_does_not_exceed_deadline() {
    let script = ScriptedPeer::steps(vec![
        PeerAction::status(429).with_header("retry-after", "60"),
    ]);
    let started_at = Instant::now();
    let error = script
        .client()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(started_at.elapsed(), Duration::ZERO, "it fails at once");
    assert_eq!(script.requests().len(), 1);
    // A first attempt that takes most of the time leaves little for the second.
    let slow = PeerAction::Delayed(Duration::from_secs(4), Box::new(PeerAction::Broken));
    let script = ScriptedPeer::steps(vec![slow, PeerAction::Hang]);
    let started_at = Instant::now();
    let error = script
        .client()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }));
    assert_eq!(started_at.elapsed(), Duration::from_secs(5));
}
