//! The quiet workers: one removes what is old, one measures how much waits.

use super::options::{WorkerMetrics, WorkerOptions};
use interzone_edge::health::Heart;
use interzone_hub::{Caller, Hub, HubError};
use interzone_protocol::vocab::PrincipalId;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Who removes things, as far as anybody asks.
const SWEEPER: &str = "interzone";

/// How many steps one sweep has at most; what is left then waits for the next.
const STEPS: u32 = 1_000;

/// Removes what is old now and then, until told to stop.
pub(super) async fn keep_sweeping(
    hub: Hub,
    options: Arc<WorkerOptions>,
    heart: Heart,
    stop: CancellationToken,
) {
    loop {
        let wait = match sweep(&hub, &options, &heart, &stop).await {
            Ok(()) => {
                heart.well();
                options.sweep_every
            }
            Err(error) => heart.failed(&error),
        };
        if passed(wait, &stop).await {
            return;
        }
    }
}

async fn sweep(
    hub: &Hub,
    options: &WorkerOptions,
    heart: &Heart,
    stop: &CancellationToken,
) -> Result<(), HubError> {
    let unusable = |_| HubError::Invalid {
        field: "sweeper",
        reason: "its name is no principal",
    };
    let sweeper = Caller::operator(PrincipalId::new(SWEEPER).map_err(unusable)?);
    heart.beat();
    let forgotten = hub.forget_old_addresses(&sweeper).await?;
    if forgotten > 0 {
        tracing::info!(
            tasks = forgotten,
            "addresses of old attachments are forgotten"
        );
    }
    for _ in 0..STEPS {
        if stop.is_cancelled() {
            return Ok(());
        }
        heart.beat();
        if hub.sweep(&sweeper, &options.retention).await?.total() == 0 {
            break;
        }
    }
    Ok(hub.store().tidy_up().await?)
}

/// Measures how much waits now and then, until told to stop.
pub(super) async fn keep_measuring(
    hub: Hub,
    options: Arc<WorkerOptions>,
    metrics: Arc<dyn WorkerMetrics>,
    heart: Heart,
    stop: CancellationToken,
) {
    loop {
        let wait = match measure(&hub, metrics.as_ref()).await {
            Ok(()) => {
                heart.well();
                options.gauges_every
            }
            Err(error) => heart.failed(&error),
        };
        if passed(wait, &stop).await {
            return;
        }
    }
}

async fn measure(hub: &Hub, metrics: &dyn WorkerMetrics) -> Result<(), HubError> {
    let (waiting, held) = hub.store().work_depth(hub.now()).await?;
    metrics.queue(waiting, held);
    let (waiting, dead) = hub.store().outbox_depth().await?;
    metrics.outbox(waiting, dead);
    Ok(())
}

/// Lets time pass. Answers whether it is time to stop instead.
async fn passed(wait: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = stop.cancelled() => true,
        () = tokio::time::sleep(wait) => false,
    }
}
