//! A peer that keeps failing is left alone.

use crate::calls::{create, get};
use crate::script::{Script, Step, task_result};
use interzone_client::{BreakerPolicy, Client, Error, RetryPolicy};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::advance;

struct Peer {
    script: Script,
    well: Arc<AtomicBool>,
    client: Client,
}

fn peer(failure: Step) -> Peer {
    let well = Arc::new(AtomicBool::new(false));
    let now = well.clone();
    let script = Script::new(move |seen| {
        if now.load(Ordering::Relaxed) {
            seen.result(task_result("t-1"))
        } else {
            failure.clone()
        }
    });
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    Peer {
        script,
        well,
        client,
    }
}

fn is_open(error: &Error) -> bool {
    matches!(error, Error::CircuitOpen { .. })
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_open_it_for_a_minute() {
    for failure in [
        Step::NotConnected,
        Step::Broken,
        Step::status(503),
        Step::Hang,
    ] {
        let peer = peer(failure);
        for _ in 0..5 {
            let error = peer.client.tasks_create(&create()).await.unwrap_err();
            assert!(!is_open(&error), "{error:?}");
        }
        let error = peer.client.tasks_get(&get("t-1")).await.unwrap_err();
        assert!(is_open(&error) && error.is_retryable());
        assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
        assert_eq!(peer.script.seen().len(), 5, "the peer is left alone");
        advance(Duration::from_secs(59)).await;
        assert!(is_open(
            &peer.client.tasks_get(&get("t-1")).await.unwrap_err()
        ));
        // The probe fails, and another minute begins.
        advance(Duration::from_secs(1)).await;
        assert!(!is_open(
            &peer.client.tasks_get(&get("t-1")).await.unwrap_err()
        ));
        assert!(is_open(
            &peer.client.tasks_get(&get("t-1")).await.unwrap_err()
        ));
        // The next does not.
        peer.well.store(true, Ordering::Relaxed);
        advance(Duration::from_secs(60)).await;
        for _ in 0..3 {
            peer.client.tasks_get(&get("t-1")).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_probes_while_others_wait() {
    let peer = peer(Step::Hang);
    for _ in 0..5 {
        peer.client.tasks_get(&get("t-1")).await.unwrap_err();
    }
    advance(Duration::from_secs(60)).await;
    let calls = (0..10).map(|_| peer.client.call_raw("tasks.get", &()));
    let outcomes = futures_util::future::join_all(calls).await;
    let open = outcomes
        .iter()
        .filter(|outcome| is_open(outcome.as_ref().unwrap_err()));
    assert_eq!(open.count(), 9);
    assert_eq!(peer.script.seen().len(), 6);
    // A probe that its caller gives up lets the next one probe.
    advance(Duration::from_secs(60)).await;
    let params = get("t-1");
    let probe = tokio::time::timeout(Duration::from_millis(1), peer.client.tasks_get(&params));
    assert!(probe.await.is_err());
    peer.well.store(true, Ordering::Relaxed);
    peer.client.tasks_get(&get("t-1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refusals_do_not_count_and_successes_begin_anew() {
    let script = Script::new(|seen| seen.error(404, -40001, json!({})));
    let client = script.client();
    for _ in 0..20 {
        assert!(!is_open(&client.tasks_get(&get("t-1")).await.unwrap_err()));
    }
    let calls = AtomicUsize::new(0);
    let script = Script::new(
        move |seen| match calls.fetch_add(1, Ordering::Relaxed) % 5 {
            4 => seen.result(task_result("t-1")),
            _ => Step::NotConnected,
        },
    );
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    for _ in 0..20 {
        let outcome = client.tasks_get(&get("t-1")).await;
        assert!(!outcome.is_err_and(|error| is_open(&error)));
    }
}

#[tokio::test(start_paused = true)]
async fn policies_are_kept() {
    let script = Script::steps(vec![Step::NotConnected]);
    let one = BreakerPolicy::default().failures(1).open_for(Duration::MAX);
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .breaker(one)
        .build()
        .unwrap();
    client.tasks_get(&get("t-1")).await.unwrap_err();
    assert!(is_open(&client.tasks_get(&get("t-1")).await.unwrap_err()));
    let never = script
        .builder()
        .retry(RetryPolicy::never())
        .breaker(BreakerPolicy::never());
    let client = never.build().unwrap();
    for _ in 0..20 {
        assert!(!is_open(&client.tasks_get(&get("t-1")).await.unwrap_err()));
    }
}
