//! Tests of the request log: scope, batching, dropping.

use super::{BATCH_DELAY, BATCH_SIZE, QUEUE_CAPACITY, RequestLog, RequestLogScope, id_json};
use async_trait::async_trait;
use interzone_edge::audit::AuditEntry;
use interzone_edge::telemetry::Metrics;
use interzone_hub::ports::{RequestLogEntry, RequestLogStore, RequestQuery, StoreError};
use interzone_jsonrpc::RequestId;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

fn entry<'a>(method: &'a str, subject: Option<&'a str>) -> AuditEntry<'a> {
    AuditEntry {
        at: SystemTime::now(),
        principal: "anna",
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

/// Store that keeps each batch.
#[derive(Default)]
struct BatchStore(Mutex<Vec<Vec<RequestLogEntry>>>);

#[async_trait]
impl RequestLogStore for BatchStore {
    async fn append_requests(&self, pairs: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        self.0.lock().unwrap().push(pairs);
        Ok(())
    }

    async fn find_requests(&self, _: &RequestQuery) -> Result<Vec<RequestLogEntry>, StoreError> {
        Ok(self.0.lock().unwrap().concat())
    }
}

/// Store that fails.
struct FailingStore;

#[async_trait]
impl RequestLogStore for FailingStore {
    async fn append_requests(&self, _: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        Err(StoreError::Full)
    }

    async fn find_requests(&self, _: &RequestQuery) -> Result<Vec<RequestLogEntry>, StoreError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn queued_records_are_written_on_stop() {
    let store = Arc::new(BatchStore::default());
    let (log, writer) = RequestLog::new(RequestLogScope::Zone, Arc::default());
    log.record(&entry("tasks.create", None), None);
    let id = RequestId::from(7);
    log.record(&entry("execute_task", Some("t-1")), Some(&id));
    for _ in 0..2 * BATCH_SIZE {
        log.record(&entry("get_task_result", None), None);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(store.clone(), stop).await;
    let found = store.0.lock().unwrap().concat();
    assert_eq!(found.len(), 1 + 2 * BATCH_SIZE, "only calls between zones");
    let first = &found[0];
    assert_eq!(first.id.as_deref(), Some("7"));
    assert_eq!(first.task.as_ref().unwrap().as_str(), "t-1");
}

#[tokio::test]
async fn records_are_written_in_batches() {
    let store = Arc::new(BatchStore::default());
    let (log, writer) = RequestLog::new(RequestLogScope::All, Arc::default());
    for _ in 0..=BATCH_SIZE {
        log.record(&entry("tasks.get", None), None);
    }
    let stop = CancellationToken::new();
    let writing = tokio::spawn(writer.run(store.clone(), stop.clone()));
    // The writer ends when the log is dropped.
    drop(log);
    writing.await.unwrap();
    let sizes: Vec<usize> = store.0.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH_SIZE, 1]);
}

/// Lets the writer run, advances the clock, and lets it run again.
async fn advance(by: Duration) {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(by).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn record_is_written_after_batch_delay() {
    let store = Arc::new(BatchStore::default());
    let (log, writer) = RequestLog::new(RequestLogScope::All, Arc::default());
    let stop = CancellationToken::new();
    let writing = tokio::spawn(writer.run(store.clone(), stop.clone()));
    log.record(&entry("tasks.get", None), None);
    advance(BATCH_DELAY - Duration::from_millis(1)).await;
    assert!(store.0.lock().unwrap().is_empty());
    advance(Duration::from_millis(2)).await;
    assert_eq!(store.0.lock().unwrap().len(), 1);
    stop.cancel();
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn records_the_store_rejects_are_counted_as_dropped() {
    let metrics = Arc::new(Metrics::new());
    let (log, writer) = RequestLog::new(RequestLogScope::All, metrics.clone());
    log.record(&entry("tasks.get", None), None);
    drop(log);
    writer
        .run(Arc::new(FailingStore), CancellationToken::new())
        .await;
    let text = metrics.encode();
    assert!(
        text.contains("interzone_request_log_dropped_total 1\n"),
        "{text}"
    );
}

#[tokio::test]
async fn records_over_queue_capacity_are_dropped_and_counted() {
    let metrics = Arc::new(Metrics::new());
    let (log, writer) = RequestLog::new(RequestLogScope::All, metrics.clone());
    for _ in 0..QUEUE_CAPACITY + 3 {
        log.record(&entry("tasks.get", None), None);
    }
    let text = metrics.encode();
    assert!(
        text.contains("interzone_request_log_dropped_total 3\n"),
        "{text}"
    );
    drop(writer);
}

#[test]
fn request_id_is_json_and_truncated() {
    assert_eq!(id_json(&RequestId::from(1)), "1");
    assert_eq!(id_json(&RequestId::from("1")), "\"1\"");
    let long = RequestId::from("é".repeat(500));
    let truncated = id_json(&long);
    assert!(truncated.len() < 256, "{truncated}");
    assert!(serde_json::from_str::<String>(&truncated).is_ok());
}

#[tokio::test(start_paused = true)]
async fn flush_waits_for_records_queued_before() {
    let store = Arc::new(BatchStore::default());
    let (log, writer) = RequestLog::new(RequestLogScope::All, Arc::default());
    let stop = CancellationToken::new();
    let writing = tokio::spawn(writer.run(store.clone(), stop.clone()));
    let started = tokio::time::Instant::now();
    log.flushed().await;
    log.record(&entry("tasks.get", None), None);
    log.flushed().await;
    assert_eq!(store.0.lock().unwrap().len(), 1);
    assert!(
        started.elapsed() < BATCH_DELAY,
        "a flush skips the batch delay"
    );
    stop.cancel();
    writing.await.unwrap();
    log.flushed().await;
}
