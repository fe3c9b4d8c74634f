//! Noting that requests were answered, so that an operator finds them again: a short queue, and one
//! loop that writes what is in it by the batch. No call ever waits for it; when it cannot keep up,
//! notes are dropped and counted. What was said has no place in a note.

#[cfg(test)]
mod tests;

use interzone_edge::audit::Entry;
use interzone_edge::telemetry::Metrics;
use interzone_hub::ports::{Pair, PairStore};
use interzone_jsonrpc::RequestId;
use interzone_protocol::Dialect;
use interzone_protocol::acp::Method;
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How many notes may wait.
const PLACES: usize = 8192;
/// How many are written at once. Calls that write wait meanwhile, so they are few.
const BATCH: usize = 64;
/// How long a note waits for others.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a store that did not write is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long somebody who looks for a note waits for those on their way to be written.
const LOOKING: Duration = Duration::from_secs(2);
/// As much of an id is kept, so that it is whole JSON whatever its length.
const LONGEST_ID: usize = 200;

/// Which calls are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Those between the zones.
    Zone,
    /// All of them but looking for them.
    All,
}

impl Recorded {
    fn has(self, method: &str) -> bool {
        // Whoever looks for a request looks for somebody's, not for looking: the audit has those.
        match self {
            Self::All => method != Method::PairsFind.name(),
            Self::Zone => Dialect::of_method(method) == Some(Dialect::Zone),
        }
    }
}

/// What stands in the queue.
#[derive(Debug)]
enum Queued {
    Note(Box<Pair>),
    /// Somebody looks for what was noted before.
    Wanted(oneshot::Sender<()>),
}

/// Takes notes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PairLog {
    recorded: Recorded,
    queue: mpsc::Sender<Queued>,
    metrics: Arc<Metrics>,
}

/// The other end: the notes that wait to be written.
#[derive(Debug)]
pub struct PairBacklog {
    queue: mpsc::Receiver<Queued>,
    metrics: Arc<Metrics>,
}

impl PairLog {
    /// A log of these calls, and its other end, which somebody must [keep](PairBacklog::keep).
    pub fn new(recorded: Recorded, metrics: Arc<Metrics>) -> (Self, PairBacklog) {
        let (sender, queue) = mpsc::channel(PLACES);
        let log = Self {
            recorded,
            queue: sender,
            metrics: Arc::clone(&metrics),
        };
        (log, PairBacklog { queue, metrics })
    }

    /// Notes a call by what the audit says of it.
    pub(crate) fn note(&self, entry: &Entry<'_>, id: Option<&RequestId<'_>>) {
        if !self.recorded.has(entry.method) {
            return;
        }
        let since = entry.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let kept = |text: &str| Pair::cut(text).to_owned();
        let pair = Pair {
            at: Timestamp::from_millis(millis),
            took: entry.latency,
            id: id.map(written),
            method: kept(entry.method),
            who: kept(entry.who),
            client: kept(entry.client),
            correlation: kept(entry.correlation),
            task: entry.subject.and_then(|id| TaskId::new(id).ok()),
            outcome: kept(entry.outcome),
            code: entry.code,
            address: entry.address,
        };
        if self.queue.try_send(Queued::Note(Box::new(pair))).is_err() {
            self.metrics.pairs_dropped(1);
        }
    }

    /// Waits until what was noted before is written, so that whoever looks for a request finds one that
    /// was just answered. A store in trouble is not waited for long.
    pub(crate) async fn settled(&self) {
        let (written, told) = oneshot::channel();
        let written = async {
            if self.queue.send(Queued::Wanted(written)).await.is_ok() {
                let _ = told.await;
            }
        };
        let _ = tokio::time::timeout(LOOKING, written).await;
    }
}

/// An id as JSON writes it, a long one cut.
pub(crate) fn written(id: &RequestId<'_>) -> String {
    let short = match id {
        RequestId::Number(number) => RequestId::Number(*number),
        RequestId::String(text) => {
            let end = text.floor_char_boundary(LONGEST_ID);
            RequestId::from(text.get(..end).unwrap_or_default())
        }
    };
    // An id always has a JSON form.
    serde_json::to_string(&short).unwrap_or_default()
}

impl PairBacklog {
    /// Writes notes until told to stop, and then what is left. Stop it when nobody takes notes any
    /// more, and before the store closes.
    pub async fn keep(mut self, store: Arc<dyn PairStore>, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let first = tokio::select! {
                () = stop.cancelled() => break,
                first = self.queue.recv() => first,
            };
            let wanted = match first {
                None => return,
                Some(Queued::Wanted(wanted)) => Some(wanted),
                Some(Queued::Note(pair)) => {
                    batch.push(*pair);
                    self.fill(&mut batch, &stop).await
                }
            };
            let written = self.write(&*store, &mut batch).await;
            // Whoever looks is told by this being dropped: there is nothing to wait for any more.
            drop(wanted);
            if !written {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
        self.queue.close();
        while let Some(queued) = self.queue.recv().await {
            if let Queued::Note(pair) = queued {
                batch.push(*pair);
            }
            if batch.len() >= BATCH {
                self.write(&*store, &mut batch).await;
            }
        }
        self.write(&*store, &mut batch).await;
    }

    /// Waits a moment for more, as one commit costs as much as many; not if somebody looks for them.
    async fn fill(
        &mut self,
        batch: &mut Vec<Pair>,
        stop: &CancellationToken,
    ) -> Option<oneshot::Sender<()>> {
        let over = tokio::time::sleep(PATIENCE);
        tokio::pin!(over);
        while batch.len() < BATCH {
            tokio::select! {
                biased;
                queued = self.queue.recv() => match queued {
                    Some(Queued::Note(pair)) => batch.push(*pair),
                    Some(Queued::Wanted(wanted)) => return Some(wanted),
                    None => return None,
                },
                () = &mut over => return None,
                () = stop.cancelled() => return None,
            }
        }
        None
    }

    /// Writes a batch, or counts it as lost: whether a store in trouble wrote it is not worth finding
    /// out. Answers whether it was written.
    async fn write(&self, store: &dyn PairStore, batch: &mut Vec<Pair>) -> bool {
        let pairs = std::mem::replace(batch, Vec::with_capacity(BATCH));
        if pairs.is_empty() {
            return true;
        }
        let count = pairs.len() as u64;
        match store.note_pairs(pairs).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, count, "answered requests could not be noted");
                self.metrics.pairs_dropped(count);
                false
            }
        }
    }
}
