//! Carrying out what waits in one channel of the outbox: bounded, in order within a group, held for as
//! long as it takes, and tried again until it has arrived or is given up.

use crate::reply::{Carried, Poster};
use async_trait::async_trait;
use futures_util::FutureExt;
use interzone_edge::health::Heart;
use interzone_edge::telemetry::Metrics;
use interzone_hub::ports::StoreError;
use interzone_hub::{HeldEntry, Hub, HubError, OutboxEntry, RetryPolicy};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many entries are claimed at once at most.
const BATCH: usize = 64;

/// How often it is tried to say what became of an entry.
const SETTLE: u32 = 5;

/// How long something may be told to come later. Whoever asked has gone home by then.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// The kind of the notes on how often an entry was told to come later, by its id.
const WAITS: &str = "slack.waits";

/// Whoever carries entries of one channel.
#[async_trait]
pub(crate) trait Carrier: Send + Sync {
    /// Carries one entry. It may be broken off at any moment, and the same entry may come again.
    async fn carry(&self, entry: &OutboxEntry) -> Carried;

    /// The entry has been tried for the last time, and this was why it did not arrive.
    async fn given_up(&self, entry: &OutboxEntry, why: &str) {
        let _ = (entry, why);
    }
}

#[async_trait]
impl Carrier for Poster {
    async fn carry(&self, entry: &OutboxEntry) -> Carried {
        Self::carry(self, entry).await
    }

    async fn given_up(&self, entry: &OutboxEntry, why: &str) {
        Self::given_up(self, entry, why).await;
    }
}

/// How one channel is carried.
#[derive(Clone, Copy, Debug)]
pub struct ChannelOptions {
    /// How many entries are on their way at once.
    pub concurrency: usize,
    /// How long an entry is held without a sign of life. A node that dies holds up its entries this
    /// long; whoever lives holds on for as long as it takes.
    pub hold: Duration,
    /// How long one attempt may take.
    pub limit: Duration,
    /// When to try again.
    pub retry: RetryPolicy,
}

/// One channel of the outbox.
#[derive(Clone)]
pub(super) struct Outbox {
    pub(super) hub: Hub,
    pub(super) channel: &'static str,
    pub(super) carrier: Arc<dyn Carrier>,
    pub(super) options: ChannelOptions,
    pub(super) look_every: Duration,
    /// Whether what is due when it is told to stop is still carried.
    pub(super) to_the_end: bool,
    pub(super) metrics: Arc<Metrics>,
}

impl Outbox {
    /// Carries whatever is due until told to stop; then waits for what is on its way. What is cut off
    /// is handed back, so that another node, or the next start of this one, takes it over at once.
    pub(super) async fn keep_carrying(
        self,
        bell: Arc<Notify>,
        heart: Heart,
        stop: CancellationToken,
        cut: CancellationToken,
    ) {
        let channels = [self.channel.to_owned()];
        let mut on_the_way = JoinSet::new();
        while !stop.is_cancelled() {
            let (wait, failed) = match self.claim(&channels, &mut on_the_way, &cut).await {
                Ok(wait) => {
                    heart.well();
                    (wait, false)
                }
                Err(error) => (heart.failed(&error), true),
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = bell.notified(), if !failed => {}
                Some(_) = on_the_way.join_next(), if !on_the_way.is_empty() && !failed => {}
                () = tokio::time::sleep(wait) => {}
            }
            while on_the_way.try_join_next().is_some() {}
        }
        // What is due by now, and what follows from it, leaves before the node does.
        while self.to_the_end && !cut.is_cancelled() {
            if self.claim(&channels, &mut on_the_way, &cut).await.is_err() {
                break;
            }
            if on_the_way.join_next().await.is_none() {
                break;
            }
        }
        while on_the_way.join_next().await.is_some() {}
    }

    /// Takes what is due as far as there is room. Answers how long to wait for more.
    async fn claim(
        &self,
        channels: &[String],
        on_the_way: &mut JoinSet<()>,
        cut: &CancellationToken,
    ) -> Result<Duration, HubError> {
        loop {
            // Looking first is cheap, and most hints are about somebody else's channel.
            let Some(wait) = self.hub.next_out(channels).await? else {
                return Ok(self.look_every);
            };
            if !wait.is_zero() {
                let wait = wait.max(Duration::from_millis(1));
                return Ok(wait.min(self.look_every));
            }
            let most = self.options.concurrency.max(1);
            let room = most.saturating_sub(on_the_way.len()).min(BATCH);
            if room == 0 {
                // Somebody arrives, and then there is room.
                return Ok(self.look_every);
            }
            let entries = self.hub.take_out(channels, self.options.hold, room).await?;
            if entries.is_empty() {
                // Another node was faster.
                return Ok(self.look_every);
            }
            for entry in entries {
                let (outbox, cut) = (self.clone(), cut.clone());
                on_the_way.spawn(async move { outbox.carry(entry, &cut).await });
            }
        }
    }

    async fn carry(&self, entry: HeldEntry, cut: &CancellationToken) {
        if entry.lease().is_lost() {
            tracing::warn!(channel = self.channel, id = %entry.id, "the lease of an entry was over before it began");
            return;
        }
        let began = Instant::now();
        let work = AssertUnwindSafe(self.carrier.carry(&entry)).catch_unwind();
        let later = |why: &str| Carried::Later {
            why: why.to_owned(),
            after: None,
        };
        let carried = tokio::select! {
            biased;
            carried = work => carried.unwrap_or_else(|_| {
                // What it panicked with may hold what the user said, so it is not told on.
                tracing::error!(channel = self.channel, id = %entry.id, "a carrier panicked");
                later("the carrier broke")
            }),
            () = self.hold_on(&entry) => {
                tracing::warn!(channel = self.channel, id = %entry.id, "an entry was lost to another node");
                return;
            }
            () = cut.cancelled() => {
                self.hand_back(&entry).await;
                return;
            }
            () = tokio::time::sleep(self.options.limit) => later("it took too long"),
        };
        let word = match &carried {
            Carried::Arrived => "arrived",
            Carried::Later { .. } => "later",
            Carried::Never { .. } => "never",
        };
        let took = began.elapsed().as_secs_f64();
        self.metrics.request(self.channel, word, took);
        self.settle(&entry, &carried).await;
    }

    /// Holds an entry on for as long as it is polled. It ends when the entry is somebody else's, or may
    /// be by now.
    async fn hold_on(&self, entry: &HeldEntry) {
        let hold = self.options.hold;
        let (usual, soon) = (hold / 3, (hold / 15).min(Duration::from_secs(1)));
        let mut wait = usual;
        while let Some(left) = entry.lease().left() {
            tokio::time::sleep(wait.min(left)).await;
            let left = entry.lease().left().unwrap_or_default();
            if left.is_zero() {
                tracing::warn!(channel = self.channel, id = %entry.id, "the lease of an entry could not be renewed in time");
                return;
            }
            match tokio::time::timeout(left, self.hub.keep_holding(entry, hold)).await {
                Ok(Ok(true)) => wait = usual,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the lease of an entry is not renewed yet");
                    wait = soon;
                }
                Err(_) => {}
            }
        }
        // It is held for as long as this process lives.
        std::future::pending().await
    }

    async fn hand_back(&self, entry: &OutboxEntry) {
        if let Err(error) = self.hub.hand_back(entry, "the node was stopped").await {
            let (channel, id) = (self.channel, &entry.id);
            tracing::warn!(channel, %id, %error, "an entry could not be handed back; it is abandoned");
        }
    }

    fn is_old(&self, entry: &OutboxEntry) -> bool {
        self.hub.now().since(entry.created_at) >= OLD
    }

    /// How often an entry was told to come later, after so many times more. Nobody else has it meanwhile.
    async fn waits(&self, entry: &OutboxEntry, more: u32) -> u32 {
        let (store, now, id) = (self.hub.store(), self.hub.now(), entry.id.as_str());
        let known = store.record(WAITS, id, now).await;
        let known = known.map(|known| known.and_then(|known| known.value.parse::<u32>().ok()));
        // At worst an attempt is counted that was none.
        let waits = known.ok().flatten().unwrap_or(0).min(entry.attempt);
        if more == 0 {
            return waits;
        }
        let waits = waits.saturating_add(more).min(entry.attempt);
        let until = Some(now.after(OLD.saturating_mul(2)));
        let value = waits.to_string();
        let kept = store.put_record(WAITS, id, &value, None, until, now);
        if let Err(error) = kept.await {
            tracing::debug!(%id, %error, "that an entry waits could not be noted");
        }
        waits
    }

    async fn settle(&self, entry: &OutboxEntry, carried: &Carried) {
        let retry = &self.options.retry;
        let (why, last) = match carried {
            Carried::Arrived => ("", false),
            // Who is told to come later has not failed: what waits for its turn is not used up by it.
            Carried::Later {
                why,
                after: Some(_),
            } => {
                self.waits(entry, 1).await;
                (why.as_str(), self.is_old(entry))
            }
            Carried::Later { why, after: None } => {
                let used_up = entry.attempt >= retry.attempts
                    && entry.attempt - self.waits(entry, 0).await >= retry.attempts;
                (why.as_str(), used_up)
            }
            Carried::Never { why } => (why.as_str(), true),
        };
        if last {
            let (channel, id) = (self.channel, &entry.id);
            tracing::error!(channel, %id, why, "an entry is given up; the dead letters have it");
            self.carrier.given_up(entry, why).await;
        }
        let mut wait = Duration::from_millis(50);
        for attempt in 1..=SETTLE {
            let settled = match carried {
                Carried::Arrived => self.hub.arrived(entry).await,
                Carried::Later { why, after } => {
                    let (hub, retry) = (&self.hub, patience(retry, *after));
                    hub.did_not_arrive(entry, &retry, why, *after, !last).await
                }
                Carried::Never { why } => {
                    let hub = &self.hub;
                    hub.did_not_arrive(entry, retry, why, None, false).await
                }
            };
            match settled {
                Ok(_) => return,
                Err(error) if attempt == SETTLE || !may_pass(&error) => {
                    let (channel, id) = (self.channel, &entry.id);
                    tracing::warn!(channel, %id, %error, "what became of an entry could not be kept; it is tried again");
                    return;
                }
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait = wait.saturating_mul(2);
        }
    }
}

/// Whether trying again may help. Where it is not known whether something was written, it is found out
/// by trying again.
fn may_pass(error: &HubError) -> bool {
    error.is_transient() || matches!(error, HubError::Store(StoreError::InDoubt(_)))
}

/// How long an entry waits at least. Whoever says when knows best: waits grow only where nobody does, for
/// otherwise many short ones would become a long one. Whether there is another try is decided elsewhere.
fn patience(retry: &RetryPolicy, told: Option<Duration>) -> RetryPolicy {
    let longest = match told {
        Some(_) => retry.first,
        None => retry.longest,
    };
    RetryPolicy {
        attempts: u32::MAX,
        longest,
        ..*retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_slack_names_does_not_grow() {
        let retry = RetryPolicy::default();
        for attempt in [1, 5, 18, 1_000] {
            let told = patience(&retry, Some(Duration::from_secs(1)));
            assert!(told.wait_after(attempt, 7).unwrap() <= retry.first);
        }
        let grown = patience(&retry, None).wait_after(18, 7).unwrap();
        assert!(grown >= retry.longest / 2, "{grown:?}");
    }
}
