//! Request log for operators: a bounded queue, and a writer that stores its records in batches. Calls never wait
//! for it; when the writer cannot keep up, records are dropped and counted. Records contain no content.

#[cfg(test)]
mod tests;

use interzone_edge::audit::AuditEntry;
use interzone_edge::telemetry::Metrics;
use interzone_hub::ports::{RequestLogEntry, RequestLogStore};
use interzone_jsonrpc::RequestId;
use interzone_protocol::Dialect;
use interzone_protocol::acp::Method;
use interzone_protocol::vocab::{TaskId, Timestamp};
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Capacity of the queue.
const QUEUE_CAPACITY: usize = 8192;
/// Records per write. Calls that write to the store wait during a write, so it is small.
const BATCH_SIZE: usize = 64;
/// Time a record waits for others.
const BATCH_DELAY: Duration = Duration::from_millis(200);
/// Pause after a failed write.
const FAILURE_BACKOFF: Duration = Duration::from_secs(1);
/// Time a search waits for queued records to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a recorded request id, which keeps its JSON complete.
const MAX_ID_LEN: usize = 200;

/// Calls to record.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RequestLogScope {
    /// Calls between the zones.
    Zone,
    /// All calls except searches of this log.
    All,
}

impl RequestLogScope {
    fn includes(self, method: &str) -> bool {
        // Searches of the request log are in the audit log.
        match self {
            Self::All => method != Method::RequestsFind.name(),
            Self::Zone => Dialect::of_method(method) == Some(Dialect::Zone),
        }
    }
}

/// Item of the queue.
#[derive(Debug)]
enum RequestLogItem {
    Record(Box<RequestLogEntry>),
    /// Request to signal when everything queued before is written.
    Flush(oneshot::Sender<()>),
}

/// Request log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestLog {
    scope: RequestLogScope,
    queue: mpsc::Sender<RequestLogItem>,
    metrics: Arc<Metrics>,
}

/// Writer of the request log, the receiving end of the queue.
#[derive(Debug)]
pub struct RequestLogWriter {
    queue: mpsc::Receiver<RequestLogItem>,
    metrics: Arc<Metrics>,
}

impl RequestLog {
    /// Creates a log and its writer, which must be [run](RequestLogWriter::run).
    pub fn new(scope: RequestLogScope, metrics: Arc<Metrics>) -> (Self, RequestLogWriter) {
        let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
        let log = Self {
            scope,
            queue: sender,
            metrics: Arc::clone(&metrics),
        };
        (log, RequestLogWriter { queue, metrics })
    }

    /// Records a call from its audit entry.
    pub(crate) fn record(&self, entry: &AuditEntry<'_>, id: Option<&RequestId<'_>>) {
        if !self.scope.includes(entry.method) {
            return;
        }
        let since = entry.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let truncated = |text: &str| RequestLogEntry::truncate(text).to_owned();
        let record = RequestLogEntry {
            answered_at: Timestamp::from_millis(millis),
            duration: entry.latency,
            id: id.map(id_json),
            method: truncated(entry.method),
            principal: truncated(entry.principal),
            client: truncated(entry.client),
            correlation_id: truncated(entry.correlation),
            task: entry.subject.and_then(|id| TaskId::new(id).ok()),
            outcome: truncated(entry.outcome),
            code: entry.code,
            address: entry.address,
        };
        if self
            .queue
            .try_send(RequestLogItem::Record(Box::new(record)))
            .is_err()
        {
            self.metrics.record_request_log_dropped(1);
        }
    }

    /// Waits until everything recorded before is written, so that a search finds a request that was just answered.
    /// Gives up after a timeout if the store is slow.
    pub(crate) async fn flushed(&self) {
        let (sender, receiver) = oneshot::channel();
        let flush = async {
            if self.queue.send(RequestLogItem::Flush(sender)).await.is_ok() {
                let _ = receiver.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flush).await;
    }
}

/// Returns an id as JSON, truncated if long.
pub(crate) fn id_json(id: &RequestId<'_>) -> String {
    let truncated = match id {
        RequestId::Number(number) => RequestId::Number(*number),
        RequestId::String(text) => {
            let end = text.floor_char_boundary(MAX_ID_LEN);
            RequestId::from(text.get(..end).unwrap_or_default())
        }
    };
    // An id always has a JSON form.
    serde_json::to_string(&truncated).unwrap_or_default()
}

impl RequestLogWriter {
    /// Writes records until stopped, then the remaining ones. Stop it after the last call is served and before the
    /// store closes.
    pub async fn run(mut self, store: Arc<dyn RequestLogStore>, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH_SIZE);
        loop {
            let first = tokio::select! {
                () = stop.cancelled() => break,
                first = self.queue.recv() => first,
            };
            let flush = match first {
                None => return,
                Some(RequestLogItem::Flush(flush)) => Some(flush),
                Some(RequestLogItem::Record(record)) => {
                    batch.push(*record);
                    self.fill(&mut batch, &stop).await
                }
            };
            let is_written = self.write(&*store, &mut batch).await;
            // Dropping the sender signals the flush, written or not.
            drop(flush);
            if !is_written {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(FAILURE_BACKOFF) => {}
                }
            }
        }
        self.queue.close();
        while let Some(queued) = self.queue.recv().await {
            if let RequestLogItem::Record(record) = queued {
                batch.push(*record);
            }
            if batch.len() >= BATCH_SIZE {
                self.write(&*store, &mut batch).await;
            }
        }
        self.write(&*store, &mut batch).await;
    }

    /// Waits briefly for more records, since one commit costs as much as many; returns early on a flush request.
    async fn fill(
        &mut self,
        batch: &mut Vec<RequestLogEntry>,
        stop: &CancellationToken,
    ) -> Option<oneshot::Sender<()>> {
        let deadline = tokio::time::sleep(BATCH_DELAY);
        tokio::pin!(deadline);
        while batch.len() < BATCH_SIZE {
            tokio::select! {
                biased;
                queued = self.queue.recv() => match queued {
                    Some(RequestLogItem::Record(pair)) => batch.push(*pair),
                    Some(RequestLogItem::Flush(wanted)) => return Some(wanted),
                    None => return None,
                },
                () = &mut deadline => return None,
                () = stop.cancelled() => return None,
            }
        }
        None
    }

    /// Writes a batch. If the store fails, it is counted as dropped and not retried. Returns true on success.
    async fn write(&self, store: &dyn RequestLogStore, batch: &mut Vec<RequestLogEntry>) -> bool {
        let records = std::mem::replace(batch, Vec::with_capacity(BATCH_SIZE));
        if records.is_empty() {
            return true;
        }
        let count = records.len() as u64;
        match store.append_requests(records).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, count, "request log write failed");
                self.metrics.record_request_log_dropped(count);
                false
            }
        }
    }
}
