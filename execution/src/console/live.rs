//! Live updates of open console pages. One task collects changes for a short interval, reads and renders
//! them once and broadcasts the result; a page that falls behind reloads its rows.

pub(super) mod counts;
mod rows;
pub(super) mod sse;
mod update_log;

use super::Console;
use super::metrics_history::{MetricsSnapshot, SAMPLE_INTERVAL};
use super::viewer_slots::ViewerSlots;
use counts::OverviewCounts;
use interzone_hub::Subject;
use interzone_hub::ports::{ChangeHint, Store, StoreError};
use rows::LiveChanges;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use update_log::UpdateLog;

/// Interval at which collected changes are sent.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which the counters are read.
const COUNT_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of changes per update; if there are more, the latest are sent and marked incomplete.
const MAX_CHANGES: usize = 250;
/// Timeout of the store reads for one update.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);
/// Seconds before expiry at which tokens are renewed.
const RENEW_AHEAD_SECS: u64 = 60;

/// Live updates and their viewers.
pub(super) struct LiveUpdates {
    updates: UpdateLog,
    slots: Arc<ViewerSlots>,
}

impl LiveUpdates {
    pub(super) fn new() -> Self {
        Self {
            updates: UpdateLog::new(),
            slots: Arc::default(),
        }
    }

    /// Returns the update number that a page embeds to receive later changes. Call it before reading any
    /// data for the page.
    pub(super) fn cursor(&self, store: &dyn Store) -> u64 {
        self.updates.cursor(store)
    }
}

/// Changed subjects since the last update: each once, the latest last.
#[derive(Default)]
struct PendingChanges {
    order: VecDeque<Subject>,
    queued: HashSet<Subject>,
    /// True if some changes are not listed.
    is_incomplete: bool,
}

impl PendingChanges {
    fn push(&mut self, subject: Subject) {
        if !self.queued.insert(subject.clone()) {
            return;
        }
        self.order.push_back(subject);
        if self.order.len() > MAX_CHANGES
            && let Some(oldest) = self.order.pop_front()
        {
            self.queued.remove(&oldest);
            self.is_incomplete = true;
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty() && !self.is_incomplete
    }
}

/// Collects and publishes changes until `stop` is cancelled.
pub(super) async fn run(console: &Console, stop: &CancellationToken) {
    let updates = &console.live.updates;
    let mut tick = interval(FLUSH_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hints = None;
    let mut pending = PendingChanges::default();
    let mut sample_at = Instant::now();
    let mut count_at = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            hint = next_hint(&mut hints) => match hint {
                Ok(ChangeHint::Subject(subject, _)) => pending.push(subject),
                Ok(ChangeHint::Everything) | Err(RecvError::Lagged(_)) => pending.is_incomplete = true,
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => {
                let now = Instant::now();
                if now >= sample_at {
                    sample_at = now + SAMPLE_INTERVAL;
                    console.metrics_history.record(MetricsSnapshot::parse(&console.zone.metrics.encode()));
                    renew_tokens(console, stop).await;
                    updates.publish_unlogged("event: sample\ndata: null\n\n");
                }
                if !updates.has_viewers() {
                    // No viewers: stop collecting.
                    (hints, pending) = (None, PendingChanges::default());
                    continue;
                }
                // Hints received since a page was rendered come first, in the next round.
                hints = updates.take_hints().or(hints);
                let is_count_due = now >= count_at;
                if pending.is_empty() && !is_count_due {
                    continue;
                }
                if is_count_due {
                    count_at = now + COUNT_INTERVAL;
                }
                let publishing = timeout(STORE_TIMEOUT, publish(console, std::mem::take(&mut pending), is_count_due));
                match stop.run_until_cancelled(publishing).await {
                    None => return,
                    Some(Ok(Ok(()))) => {}
                    // Viewers must learn that there were changes.
                    Some(Ok(Err(_)) | Err(_)) => pending.is_incomplete = true,
                }
            }
        }
    }
}

async fn next_hint(
    hints: &mut Option<broadcast::Receiver<ChangeHint>>,
) -> Result<ChangeHint, RecvError> {
    match hints {
        Some(wakes) => wakes.recv().await,
        None => std::future::pending().await,
    }
}

async fn publish(
    console: &Console,
    pending: PendingChanges,
    with_counts: bool,
) -> Result<(), StoreError> {
    let hub = &console.zone.hub;
    let store: &dyn Store = hub.store().as_ref();
    let (mut tasks, mut streams) = (Vec::new(), Vec::new());
    for subject in pending.order {
        match subject {
            Subject::Task(id) => tasks.extend(store.task(&id).await?),
            Subject::Stream(id) => streams.extend(store.stream(&id).await?),
        }
    }
    let mut changes = LiveChanges::new(&console.names, &tasks, &streams);
    changes.more = pending.is_incomplete;
    if with_counts {
        changes.counts = Some(OverviewCounts::load(hub).await?);
    }
    if let Ok(json) = serde_json::to_string(&changes) {
        console.live.updates.publish("changes", &json);
    }
    Ok(())
}

/// Renews tokens that expire soon. A session whose token cannot be renewed ends.
async fn renew_tokens(console: &Console, stop: &CancellationToken) {
    let Some(sign_in) = &console.sign_in else {
        return;
    };
    let now = console.zone.hub.now().as_millis() / 1_000;
    let deadline = u64::try_from(now)
        .unwrap_or(0)
        .saturating_add(RENEW_AHEAD_SECS);
    for (key, proof) in console.sessions.expiring(deadline) {
        let renewing = sign_in.renew(&console.zone, &proof);
        match stop.run_until_cancelled(renewing).await {
            None => return,
            Some(Ok(proof)) => console.sessions.renew(&key, Some(proof)),
            // The issuer may be back soon; the current token stays valid until it expires.
            Some(Err(super::code_flow::SignInError::IssuerUnavailable)) => {}
            Some(Err(_)) => console.sessions.renew(&key, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::TaskId;

    #[test]
    fn pending_changes_are_bounded_and_deduplicated() {
        let mut pending = PendingChanges::default();
        let subject = |number: usize| Subject::Task(TaskId::new(format!("t{number}")).unwrap());
        assert!(pending.is_empty());
        for _ in 0..3 {
            pending.push(subject(0));
        }
        assert_eq!(pending.order, [subject(0)]);
        assert!(!pending.is_incomplete && !pending.is_empty());
        for number in 0..1_000 {
            pending.push(subject(number));
        }
        let taken = std::mem::take(&mut pending);
        assert_eq!(taken.order.len(), MAX_CHANGES);
        assert_eq!(taken.order.back(), Some(&subject(999)));
        assert!(taken.is_incomplete, "dropped changes must be reported");
        assert!(pending.is_empty());
    }
}
