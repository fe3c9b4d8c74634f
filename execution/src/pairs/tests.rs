//! Notes: which calls, in what words, how they are batched, and that nobody waits for them.

use super::{BATCH, PATIENCE, PLACES, PairLog, Recorded, written};
use async_trait::async_trait;
use interzone_edge::audit::Entry;
use interzone_edge::telemetry::Metrics;
use interzone_hub::ports::{Pair, PairQuery, PairStore, StoreError};
use interzone_jsonrpc::RequestId;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

fn entry<'a>(method: &'a str, subject: Option<&'a str>) -> Entry<'a> {
    Entry {
        at: SystemTime::now(),
        who: "anna",
        client: "laptop",
        method,
        id: None,
        subject,
        outcome: "ok",
        code: None,
        latency: Duration::from_millis(2),
        correlation: "c-1",
        address: None,
    }
}

/// Keeps each batch as it came.
#[derive(Default)]
struct Kept(Mutex<Vec<Vec<Pair>>>);

#[async_trait]
impl PairStore for Kept {
    async fn note_pairs(&self, pairs: Vec<Pair>) -> Result<(), StoreError> {
        self.0.lock().unwrap().push(pairs);
        Ok(())
    }

    async fn pairs(&self, _: &PairQuery) -> Result<Vec<Pair>, StoreError> {
        Ok(self.0.lock().unwrap().concat())
    }
}

/// Takes nothing.
struct Broken;

#[async_trait]
impl PairStore for Broken {
    async fn note_pairs(&self, _: Vec<Pair>) -> Result<(), StoreError> {
        Err(StoreError::Full)
    }

    async fn pairs(&self, _: &PairQuery) -> Result<Vec<Pair>, StoreError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn what_was_noted_before_the_stop_is_written() {
    let store = Arc::new(Kept::default());
    let (log, backlog) = PairLog::new(Recorded::Zone, Arc::default());
    log.note(&entry("tasks.create", None), None);
    let id = RequestId::from(7);
    log.note(&entry("execute_task", Some("t-1")), Some(&id));
    for _ in 0..2 * BATCH {
        log.note(&entry("get_task_result", None), None);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    backlog.keep(store.clone(), stop).await;
    let found = store.0.lock().unwrap().concat();
    assert_eq!(found.len(), 1 + 2 * BATCH, "only calls between zones");
    let first = &found[0];
    assert_eq!(first.id.as_deref(), Some("7"));
    assert_eq!(first.task.as_ref().unwrap().as_str(), "t-1");
}

#[tokio::test]
async fn a_batch_is_one_commit() {
    let store = Arc::new(Kept::default());
    let (log, backlog) = PairLog::new(Recorded::All, Arc::default());
    for _ in 0..=BATCH {
        log.note(&entry("tasks.get", None), None);
    }
    let stop = CancellationToken::new();
    let writing = tokio::spawn(backlog.keep(store.clone(), stop.clone()));
    // When nobody can note any more, it ends by itself.
    drop(log);
    writing.await.unwrap();
    let sizes: Vec<usize> = store.0.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH, 1]);
}

/// Lets the writer get on, then sets the clock on, then lets it get on again.
async fn settle(by: Duration) {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(by).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_waits_for_others_but_not_long() {
    let store = Arc::new(Kept::default());
    let (log, backlog) = PairLog::new(Recorded::All, Arc::default());
    let stop = CancellationToken::new();
    let writing = tokio::spawn(backlog.keep(store.clone(), stop.clone()));
    log.note(&entry("tasks.get", None), None);
    settle(PATIENCE - Duration::from_millis(1)).await;
    assert!(store.0.lock().unwrap().is_empty());
    settle(Duration::from_millis(2)).await;
    assert_eq!(store.0.lock().unwrap().len(), 1);
    stop.cancel();
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_store_does_not_take_is_counted() {
    let metrics = Arc::new(Metrics::new());
    let (log, backlog) = PairLog::new(Recorded::All, metrics.clone());
    log.note(&entry("tasks.get", None), None);
    drop(log);
    backlog
        .keep(Arc::new(Broken), CancellationToken::new())
        .await;
    let text = metrics.encode();
    assert!(text.contains("interzone_pairs_dropped_total 1\n"), "{text}");
}

#[tokio::test]
async fn too_many_are_dropped_and_counted_and_nobody_waits() {
    let metrics = Arc::new(Metrics::new());
    let (log, backlog) = PairLog::new(Recorded::All, metrics.clone());
    for _ in 0..PLACES + 3 {
        log.note(&entry("tasks.get", None), None);
    }
    let text = metrics.encode();
    assert!(text.contains("interzone_pairs_dropped_total 3\n"), "{text}");
    drop(backlog);
}

#[test]
fn an_id_is_written_as_json_and_never_long() {
    assert_eq!(written(&RequestId::from(1)), "1");
    assert_eq!(written(&RequestId::from("1")), "\"1\"");
    let long = RequestId::from("é".repeat(500));
    let short = written(&long);
    assert!(short.len() < 256, "{short}");
    assert!(serde_json::from_str::<String>(&short).is_ok());
}

#[tokio::test(start_paused = true)]
async fn whoever_looks_finds_what_was_noted_before() {
    let store = Arc::new(Kept::default());
    let (log, backlog) = PairLog::new(Recorded::All, Arc::default());
    let stop = CancellationToken::new();
    let writing = tokio::spawn(backlog.keep(store.clone(), stop.clone()));
    let began = tokio::time::Instant::now();
    log.settled().await;
    log.note(&entry("tasks.get", None), None);
    log.settled().await;
    assert_eq!(store.0.lock().unwrap().len(), 1);
    assert!(began.elapsed() < PATIENCE, "it is not waited for more");
    stop.cancel();
    writing.await.unwrap();
    log.settled().await;
}
