//! Background workers of a node: questions, posts, background jobs and retention.

mod retention;

use crate::ask::AskHandler;
use crate::jobs::BackgroundJobHandler;
use crate::reply::POST_CHANNEL;
use crate::state::{ASK_CHANNEL, JOB_CHANNEL, VerificationState};
use interzone_delivery::{
    AttemptResult, DeliveryHandler, DeliveryOptions, HEARTBEAT_TIMEOUT, OutboxWorker, WorkerGroup,
};
use interzone_hub::ports::ChangeHint;
use interzone_hub::{Retention, RetryPolicy};
use retention::RetentionSweep;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Time for the workers to release their entries after the grace period.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum age of an entry that Slack keeps deferring; later its asker no longer waits.
const MAX_DEFERRED_AGE: Duration = Duration::from_secs(24 * 3600);

/// Options of the workers of a node.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Options of the question channel.
    pub asks: DeliveryOptions,
    /// Options of the post channel.
    pub posts: DeliveryOptions,
    /// Options of the background job channel.
    pub jobs: DeliveryOptions,
    /// Poll interval, for work without a change notification.
    pub poll_interval: Duration,
    /// Retention of finished work.
    pub retention: Retention,
    /// Interval of the retention sweep.
    pub sweep_interval: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        let channel = DeliveryOptions {
            concurrency: 64,
            lease: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(120),
            retry: RetryPolicy {
                initial_delay: Duration::from_secs(1),
                max_delay: Duration::from_secs(60),
                max_attempts: 12,
            },
            max_deferred_age: Some(MAX_DEFERRED_AGE),
        };
        Self {
            asks: channel,
            // Answers are retried for more than an hour; Slack outages have lasted as long.
            posts: DeliveryOptions {
                retry: RetryPolicy {
                    max_attempts: 60,
                    ..channel.retry
                },
                ..channel
            },
            jobs: channel,
            poll_interval: Duration::from_secs(1),
            retention: Retention::default(),
            sweep_interval: Duration::from_secs(60),
        }
    }
}

/// Starts the workers of a zone; requires a runtime. They run until `stop` is cancelled.
pub fn start_workers(
    zone: &VerificationState,
    options: &WorkerOptions,
    stop: &CancellationToken,
) -> WorkerGroup {
    let (hub, metrics) = (&zone.0.hub, &zone.0.metrics);
    let asks: Arc<dyn DeliveryHandler> = Arc::new(AskHandler(zone.clone()));
    let posts: Arc<dyn DeliveryHandler> = Arc::new(zone.0.replies.post_handler());
    let jobs: Arc<dyn DeliveryHandler> = Arc::new(BackgroundJobHandler(zone.clone()));
    let mut group = WorkerGroup::new(stop, RELEASE_TIMEOUT);
    // A question ends by its own budget; this limit is for one that hangs.
    let ask_timeout = zone.0.ask.budget.saturating_add(HEARTBEAT_TIMEOUT);
    let ask_options = DeliveryOptions {
        attempt_timeout: options.asks.attempt_timeout.max(ask_timeout),
        ..options.asks
    };
    // Answers are posted for as long as questions are processed; otherwise one that arrives within the grace period
    // would stay incomplete.
    let asks_done = CancellationToken::new();
    // Subscribed before the first poll, so that no change is missed.
    let wakeups: [Arc<Notify>; 3] = Default::default();
    let to_wake = wakeups.clone();
    let forwarding = hub.forward_changes(asks_done.clone(), move |hints| {
        if hints.iter().any(concerns_outbox) {
            to_wake.iter().for_each(|wakeup| wakeup.notify_one());
        }
    });
    group.spawn("wakes", Duration::MAX, |heartbeat| async move {
        forwarding.await;
        drop(heartbeat);
    });
    let channels = [
        (ASK_CHANNEL, asks, ask_options, group.stop_token()),
        (POST_CHANNEL, posts, options.posts, asks_done.clone()),
        (JOB_CHANNEL, jobs, options.jobs, asks_done.clone()),
    ];
    for ((channel, handler, channel_options, stop), wakeup) in channels.into_iter().zip(wakeups) {
        let metrics = metrics.clone();
        let outbox = OutboxWorker {
            hub: hub.clone(),
            channel,
            handler,
            options: channel_options,
            poll_interval: options.poll_interval,
            drain_on_stop: channel == POST_CHANNEL,
            on_attempt: Arc::new(move |result, latency| {
                metrics.record_request(channel, attempt_label(result), latency.as_secs_f64());
            }),
        };
        let kill = group.kill_token();
        let done_guard = (channel == ASK_CHANNEL).then(|| asks_done.clone().drop_guard());
        group.spawn(channel, HEARTBEAT_TIMEOUT, |heartbeat| async move {
            outbox.run(wakeup, heartbeat, stop, kill).await;
            drop(done_guard);
        });
    }
    let sweep = RetentionSweep {
        hub: hub.clone(),
        retention: options.retention,
        interval: options.sweep_interval,
        metrics: metrics.clone(),
    };
    let stop = group.stop_token();
    let max_silence = options.sweep_interval.saturating_add(HEARTBEAT_TIMEOUT);
    group.spawn("sweep", max_silence, |heartbeat| sweep.run(heartbeat, stop));
    group
}

/// Returns true if an entry may have become due.
const fn concerns_outbox(hint: &ChangeHint) -> bool {
    matches!(hint, ChangeHint::Outbox | ChangeHint::Everything)
}

/// Returns the metrics label of an attempt.
const fn attempt_label(result: AttemptResult) -> &'static str {
    match result {
        AttemptResult::Delivered => "delivered",
        AttemptResult::Retry | AttemptResult::Panicked => "retry",
        AttemptResult::Failed => "dead_letter",
    }
}
