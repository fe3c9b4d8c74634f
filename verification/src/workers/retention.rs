//! Retention worker: removes expired data and updates the outbox metrics.

use interzone_delivery::Heartbeat;
use interzone_edge::telemetry::Metrics;
use interzone_hub::{Caller, Hub, HubError, Retention};
use interzone_protocol::vocab::PrincipalId;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Principal that removes expired data.
const SWEEPER_PRINCIPAL: &str = "interzone";

/// Maximum steps of one sweep; the remainder waits for the next.
const MAX_STEPS: u32 = 1_000;

/// Retention sweep.
pub(super) struct RetentionSweep {
    pub(super) hub: Hub,
    pub(super) retention: Retention,
    pub(super) interval: Duration,
    pub(super) metrics: Arc<Metrics>,
}

impl RetentionSweep {
    /// Sweeps periodically until stopped.
    pub(super) async fn run(self, heartbeat: Heartbeat, stop: CancellationToken) {
        loop {
            let wait = match self.sweep_once(&heartbeat, &stop).await {
                Ok(()) => {
                    heartbeat.report_ok();
                    self.interval
                }
                Err(error) => heartbeat.report_failure(&error),
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn sweep_once(
        &self,
        heartbeat: &Heartbeat,
        stop: &CancellationToken,
    ) -> Result<(), HubError> {
        let invalid_name = |_| HubError::Invalid {
            field: "sweeper",
            reason: "cannot be used as a principal",
        };
        let sweeper = Caller::operator(PrincipalId::new(SWEEPER_PRINCIPAL).map_err(invalid_name)?);
        for _ in 0..MAX_STEPS {
            if stop.is_cancelled() {
                return Ok(());
            }
            heartbeat.tick();
            if self.hub.sweep(&sweeper, &self.retention).await?.total() == 0 {
                break;
            }
        }
        let (waiting, dead) = self.hub.store().outbox_depth().await?;
        self.metrics.set_outbox(waiting, dead);
        Ok(self.hub.store().optimize().await?)
    }
}
