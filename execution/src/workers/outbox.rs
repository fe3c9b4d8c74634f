//! Carrying out what must leave by one channel of the outbox: bounded, in order within a group, and
//! tried again until it has arrived or is given up.

use super::may_pass;
use super::options::{CarrierOptions, WorkerMetrics};
use async_trait::async_trait;
use futures_util::FutureExt;
use interzone_edge::health::Heart;
use interzone_hub::{HeldEntry, Hub, HubError, OutboxEntry};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How many entries are claimed at once at most.
const BATCH: usize = 64;

/// How often it is tried to say what became of an entry.
const SETTLE: u32 = 5;

/// What became of an attempt to carry an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It arrived.
    Arrived,
    /// It did not.
    Failed {
        /// Why, in words for the operator; nothing of its content.
        why: String,
        /// The wait that the receiver asked for.
        wait: Option<Duration>,
        /// Whether trying again may help.
        may_help: bool,
    },
    /// The carrier has told the hub itself.
    Settled {
        /// Whether it arrived.
        arrived: bool,
    },
}

/// Whoever carries entries of one channel.
#[async_trait]
pub trait Carrier: Send + Sync {
    /// Carries one entry. It may be broken off, and the same entry may come again, with the same id.
    ///
    /// # Errors
    /// The store did not do it; the entry is tried again if that may help.
    async fn carry(&self, hub: &Hub, entry: &OutboxEntry) -> Result<Carried, HubError>;
}

/// One channel of the outbox.
#[derive(Clone)]
pub(super) struct Outbox {
    pub(super) hub: Hub,
    pub(super) channel: &'static str,
    pub(super) carrier: Arc<dyn Carrier>,
    pub(super) limits: CarrierOptions,
    pub(super) look_every: Duration,
    pub(super) metrics: Arc<dyn WorkerMetrics>,
}

impl Outbox {
    /// Carries whatever is due until told to stop; then waits for what is on its way, unless it is cut
    /// off.
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
            let (wait, failed) = match self.claim(&channels, &mut on_the_way).await {
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
        // What is cut off is due again when its lease is over, or when the file is opened next.
        tokio::select! {
            () = cut.cancelled() => {}
            () = async { while on_the_way.join_next().await.is_some() {} } => {}
        }
    }

    /// Takes what is due as far as there is room. Answers how long to wait for more.
    async fn claim(
        &self,
        channels: &[String],
        on_the_way: &mut JoinSet<()>,
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
            let most = self.limits.concurrency.max(1);
            let room = most.saturating_sub(on_the_way.len()).min(BATCH);
            if room == 0 {
                // Somebody arrives, and then there is room.
                return Ok(self.look_every);
            }
            let entries = self.hub.take_out(channels, self.limits.hold, room).await?;
            if entries.is_empty() {
                // Another node was faster.
                return Ok(self.look_every);
            }
            for entry in entries {
                let outbox = self.clone();
                on_the_way.spawn(async move { outbox.carry(entry).await });
            }
        }
    }

    async fn carry(&self, entry: HeldEntry) {
        let limit = self.limits.hold.saturating_mul(3) / 4;
        // If the node was suspended meanwhile, there is less time, or another node has it by now.
        let limit = entry.lease().left().map_or(limit, |left| left.min(limit));
        if limit.is_zero() {
            tracing::warn!(channel = self.channel, id = %entry.id, "the lease of a delivery was over before it began");
            return;
        }
        let carried = AssertUnwindSafe(self.carrier.carry(&self.hub, &entry)).catch_unwind();
        let failed = |why: &str, may_help| Carried::Failed {
            why: why.to_owned(),
            wait: None,
            may_help,
        };
        let (carried, word) = match tokio::time::timeout(limit, carried).await {
            Ok(Ok(Ok(carried))) => {
                let arrived = matches!(
                    carried,
                    Carried::Arrived | Carried::Settled { arrived: true }
                );
                (carried, if arrived { "arrived" } else { "failed" })
            }
            Ok(Ok(Err(error))) => {
                let may_help = !matches!(error, HubError::Invalid { .. });
                (failed(&error.to_string(), may_help), "failed")
            }
            Ok(Err(_)) => {
                tracing::error!(channel = self.channel, id = %entry.id, "a carrier panicked");
                (failed("the carrier broke", true), "broke")
            }
            Err(_) => (failed("it took too long", true), "failed"),
        };
        self.metrics.delivery(self.channel, word);
        self.settle(&entry, &carried).await;
    }

    async fn settle(&self, entry: &OutboxEntry, carried: &Carried) {
        let mut wait = Duration::from_millis(50);
        for attempt in 1..=SETTLE {
            let settled = match carried {
                Carried::Settled { .. } => return,
                Carried::Arrived => self.hub.arrived(entry).await,
                Carried::Failed {
                    why,
                    wait,
                    may_help,
                } => {
                    let retry = &self.limits.retry;
                    self.hub
                        .did_not_arrive(entry, retry, why, *wait, *may_help)
                        .await
                }
            };
            match settled {
                Ok(_) => return,
                Err(error) if attempt == SETTLE || !may_pass(&error) => {
                    let (channel, id) = (self.channel, &entry.id);
                    tracing::warn!(channel, %id, %error, "what became of a delivery could not be kept; it is tried again");
                    return;
                }
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait = wait.saturating_mul(2);
        }
    }
}
