//! The quiet worker: it removes what is old and measures how much waits.

use interzone_edge::health::Heart;
use interzone_edge::telemetry::Metrics;
use interzone_hub::{Caller, Hub, HubError, Retention};
use interzone_protocol::vocab::PrincipalId;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Who removes things, as far as anybody asks.
const SWEEPER: &str = "interzone";

/// How many steps one sweep has at most; what is left then waits for the next.
const STEPS: u32 = 1_000;

/// What is swept, and how often.
pub(super) struct Sweep {
    pub(super) hub: Hub,
    pub(super) retention: Retention,
    pub(super) every: Duration,
    pub(super) metrics: Arc<Metrics>,
}

impl Sweep {
    /// Removes what is old now and then, until told to stop.
    pub(super) async fn keep_sweeping(self, heart: Heart, stop: CancellationToken) {
        loop {
            let wait = match self.once(&heart, &stop).await {
                Ok(()) => {
                    heart.well();
                    self.every
                }
                Err(error) => heart.failed(&error),
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn once(&self, heart: &Heart, stop: &CancellationToken) -> Result<(), HubError> {
        let unusable = |_| HubError::Invalid {
            field: "sweeper",
            reason: "its name is no principal",
        };
        let sweeper = Caller::operator(PrincipalId::new(SWEEPER).map_err(unusable)?);
        for _ in 0..STEPS {
            if stop.is_cancelled() {
                return Ok(());
            }
            heart.beat();
            if self.hub.sweep(&sweeper, &self.retention).await?.total() == 0 {
                break;
            }
        }
        let (waiting, dead) = self.hub.store().outbox_depth().await?;
        self.metrics.outbox(waiting, dead);
        Ok(self.hub.store().tidy_up().await?)
    }
}
