//! Housekeeping workers: the retention sweep and the queue gauges.

use super::options::{WorkerMetrics, WorkerOptions};
use interzone_delivery::Heartbeat;
use interzone_hub::{Caller, Hub, HubError};
use interzone_protocol::vocab::PrincipalId;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Principal of the sweep.
const SWEEPER_PRINCIPAL: &str = "interzone";

/// Maximum steps of one sweep; the remainder waits for the next.
const MAX_SWEEP_STEPS: u32 = 1_000;

/// Removes expired data periodically until stopped.
pub(super) async fn run_sweep(
    hub: Hub,
    options: Arc<WorkerOptions>,
    heartbeat: Heartbeat,
    stop: CancellationToken,
) {
    loop {
        let wait = match sweep(&hub, &options, &heartbeat, &stop).await {
            Ok(()) => {
                heartbeat.report_ok();
                options.sweep_interval
            }
            Err(error) => heartbeat.report_failure(&error),
        };
        if sleep_or_stop(wait, &stop).await {
            return;
        }
    }
}

async fn sweep(
    hub: &Hub,
    options: &WorkerOptions,
    heartbeat: &Heartbeat,
    stop: &CancellationToken,
) -> Result<(), HubError> {
    let invalid_principal = |_| HubError::Invalid {
        field: "sweeper",
        reason: "its name is no principal",
    };
    let sweeper = Caller::operator(PrincipalId::new(SWEEPER_PRINCIPAL).map_err(invalid_principal)?);
    heartbeat.tick();
    let redacted = hub.backfill_strip_fetch_urls(&sweeper).await?;
    if redacted > 0 {
        tracing::info!(tasks = redacted, "download urls of old tasks removed");
    }
    for _ in 0..MAX_SWEEP_STEPS {
        if stop.is_cancelled() {
            return Ok(());
        }
        heartbeat.tick();
        if hub.sweep(&sweeper, &options.retention).await?.total() == 0 {
            break;
        }
    }
    Ok(hub.store().optimize().await?)
}

/// Updates the queue gauges periodically until stopped.
pub(super) async fn run_gauges(
    hub: Hub,
    options: Arc<WorkerOptions>,
    metrics: Arc<dyn WorkerMetrics>,
    heartbeat: Heartbeat,
    stop: CancellationToken,
) {
    loop {
        let wait = match update_gauges(&hub, metrics.as_ref()).await {
            Ok(()) => {
                heartbeat.report_ok();
                options.gauges_interval
            }
            Err(error) => heartbeat.report_failure(&error),
        };
        if sleep_or_stop(wait, &stop).await {
            return;
        }
    }
}

async fn update_gauges(hub: &Hub, metrics: &dyn WorkerMetrics) -> Result<(), HubError> {
    let (waiting, leased) = hub.store().work_depth(hub.now()).await?;
    metrics.queue(waiting, leased);
    let (waiting, dead) = hub.store().outbox_depth().await?;
    metrics.outbox(waiting, dead);
    Ok(())
}

/// Sleeps. Returns true if stopped in the meantime.
async fn sleep_or_stop(wait: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = stop.cancelled() => true,
        () = tokio::time::sleep(wait) => false,
    }
}
