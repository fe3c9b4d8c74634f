//! Circuit breaker: a peer that keeps failing gets no calls for a while.

use crate::calls::{create_params, get_params};
use crate::scripted_peer::{PeerAction, ScriptedPeer, task_result};
use interzone_client::{BreakerPolicy, Client, Error, RetryPolicy};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::advance;

struct FailingPeer {
    script: ScriptedPeer,
    is_healthy: Arc<AtomicBool>,
    client: Client,
}

fn failing_peer(failure: PeerAction) -> FailingPeer {
    let is_healthy = Arc::new(AtomicBool::new(false));
    let healthy_now = is_healthy.clone();
    let script = ScriptedPeer::new(move |request| {
        if healthy_now.load(Ordering::Relaxed) {
            request.result(task_result("t-1"))
        } else {
            failure.clone()
        }
    });
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    FailingPeer {
        script,
        is_healthy,
        client,
    }
}

fn is_open(error: &Error) -> bool {
    matches!(error, Error::CircuitOpen { .. })
}

#[tokio::test(start_paused = true)]
async fn five_failures_open_breaker_for_a_minute() {
    for failure in [
        PeerAction::NotConnected,
        PeerAction::Broken,
        PeerAction::status(503),
        PeerAction::Hang,
    ] {
        let peer = failing_peer(failure);
        for _ in 0..5 {
            let error = peer
                .client
                .tasks_create(&create_params())
                .await
                .unwrap_err();
            assert!(!is_open(&error), "{error:?}");
        }
        let error = peer.client.tasks_get(&get_params("t-1")).await.unwrap_err();
        assert!(is_open(&error) && error.is_retryable());
        assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
        assert_eq!(peer.script.requests().len(), 5, "no call reaches the peer");
        advance(Duration::from_secs(59)).await;
        assert!(is_open(
            &peer.client.tasks_get(&get_params("t-1")).await.unwrap_err()
        ));
        // The probe fails, and another minute begins.
        advance(Duration::from_secs(1)).await;
        assert!(!is_open(
            &peer.client.tasks_get(&get_params("t-1")).await.unwrap_err()
        ));
        assert!(is_open(
            &peer.client.tasks_get(&get_params("t-1")).await.unwrap_err()
        ));
        // The next probe succeeds.
        peer.is_healthy.store(true, Ordering::Relaxed);
        advance(Duration::from_secs(60)).await;
        for _ in 0..3 {
            peer.client.tasks_get(&get_params("t-1")).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn half_open_breaker_allows_one_probe() {
    let peer = failing_peer(PeerAction::Hang);
    for _ in 0..5 {
        peer.client.tasks_get(&get_params("t-1")).await.unwrap_err();
    }
    advance(Duration::from_secs(60)).await;
    let calls = (0..10).map(|_| peer.client.call_raw("tasks.get", &()));
    let outcomes = futures_util::future::join_all(calls).await;
    let open = outcomes
        .iter()
        .filter(|outcome| is_open(outcome.as_ref().unwrap_err()));
    assert_eq!(open.count(), 9);
    assert_eq!(peer.script.requests().len(), 6);
    // A dropped probe lets the next call probe.
    advance(Duration::from_secs(60)).await;
    let params = get_params("t-1");
    let probe = tokio::time::timeout(Duration::from_millis(1), peer.client.tasks_get(&params));
    assert!(probe.await.is_err());
    peer.is_healthy.store(true, Ordering::Relaxed);
    peer.client.tasks_get(&get_params("t-1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rpc_errors_do_not_count_and_success_resets_breaker() {
    let script = ScriptedPeer::new(|request| request.error(404, -40001, json!({})));
    let client = script.client();
    for _ in 0..20 {
        assert!(!is_open(
            &client.tasks_get(&get_params("t-1")).await.unwrap_err()
        ));
    }
    let calls = AtomicUsize::new(0);
    let script =
        ScriptedPeer::new(
            move |request| match calls.fetch_add(1, Ordering::Relaxed) % 5 {
                4 => request.result(task_result("t-1")),
                _ => PeerAction::NotConnected,
            },
        );
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    for _ in 0..20 {
        let outcome = client.tasks_get(&get_params("t-1")).await;
        assert!(!outcome.is_err_and(|error| is_open(&error)));
    }
}

#[tokio::test(start_paused = true)]
async fn breaker_policies_are_applied() {
    let script = ScriptedPeer::steps(vec![PeerAction::NotConnected]);
    let one = BreakerPolicy::default().failures(1).open_for(Duration::MAX);
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .breaker(one)
        .build()
        .unwrap();
    client.tasks_get(&get_params("t-1")).await.unwrap_err();
    assert!(is_open(
        &client.tasks_get(&get_params("t-1")).await.unwrap_err()
    ));
    let never = script
        .builder()
        .retry(RetryPolicy::never())
        .breaker(BreakerPolicy::never());
    let client = never.build().unwrap();
    for _ in 0..20 {
        assert!(!is_open(
            &client.tasks_get(&get_params("t-1")).await.unwrap_err()
        ));
    }
}
