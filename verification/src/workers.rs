//! Background workers of a node: questions, posts, background jobs and retention.

mod outbox;
mod retention;

pub use outbox::ChannelOptions;
pub(crate) use outbox::OutboxHandler;

use crate::ask::AskHandler;
use crate::jobs::BackgroundJobHandler;
use crate::reply::POST_CHANNEL;
use crate::state::{ASK_CHANNEL, JOB_CHANNEL, VerificationState};
use interzone_edge::worker_health::{HealthProbe, Heartbeat, Unhealthy};
use interzone_hub::ports::ChangeHint;
use interzone_hub::{Retention, RetryPolicy};
use outbox::ChannelWorker;
use retention::RetentionSweep;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time for the workers to release their entries after the grace period.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a heartbeat after which a worker counts as stuck.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of the workers of a node.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Options of the question channel.
    pub asks: ChannelOptions,
    /// Options of the post channel.
    pub posts: ChannelOptions,
    /// Options of the background job channel.
    pub jobs: ChannelOptions,
    /// Poll interval, for work without a change notification.
    pub poll_interval: Duration,
    /// Retention of finished work.
    pub retention: Retention,
    /// Interval of the retention sweep.
    pub sweep_interval: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        let channel = ChannelOptions {
            concurrency: 64,
            lease: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(120),
            retry: RetryPolicy {
                initial_delay: Duration::from_secs(1),
                max_delay: Duration::from_secs(60),
                max_attempts: 12,
            },
        };
        Self {
            asks: channel,
            // Answers are retried for more than an hour; Slack outages have lasted as long.
            posts: ChannelOptions {
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

/// All workers of a node.
///
/// Dropping them aborts everything, as if the node had crashed; [`Workers::join`] stops them gracefully.
pub struct Workers {
    loops: JoinSet<()>,
    probes: Vec<Arc<HealthProbe>>,
    stop: CancellationToken,
    kill: CancellationToken,
}

impl Workers {
    /// Starts the workers of a zone; requires a runtime. They run until `stop` is cancelled.
    pub fn start(
        zone: &VerificationState,
        options: &WorkerOptions,
        stop: &CancellationToken,
    ) -> Self {
        let (hub, metrics) = (&zone.0.hub, &zone.0.metrics);
        let asks: Arc<dyn OutboxHandler> = Arc::new(AskHandler(zone.clone()));
        let posts: Arc<dyn OutboxHandler> = Arc::new(zone.0.replies.post_handler());
        let jobs: Arc<dyn OutboxHandler> = Arc::new(BackgroundJobHandler(zone.clone()));
        let mut workers = Self {
            loops: JoinSet::new(),
            probes: Vec::new(),
            stop: stop.child_token(),
            kill: CancellationToken::new(),
        };
        // Subscribe before the first poll, so that no change is missed.
        let hints = hub.store().subscribe_changes();
        let mut wakeups = Vec::new();
        // A question ends by its own budget; this limit is for one that hangs.
        let ask_timeout = zone.0.ask.budget.saturating_add(HEARTBEAT_TIMEOUT);
        let ask_options = ChannelOptions {
            attempt_timeout: options.asks.attempt_timeout.max(ask_timeout),
            ..options.asks
        };
        // Answers are posted for as long as questions are processed; otherwise one that arrives within the grace period
        // would stay incomplete.
        let asks_done = CancellationToken::new();
        for (channel, handler, channel_options, stop) in [
            (ASK_CHANNEL, asks, ask_options, &workers.stop.clone()),
            (POST_CHANNEL, posts, options.posts, &asks_done),
            (JOB_CHANNEL, jobs, options.jobs, &asks_done),
        ] {
            let heartbeat = workers.heartbeat(channel, HEARTBEAT_TIMEOUT);
            let wakeup = Arc::new(Notify::new());
            wakeups.push(wakeup.clone());
            let outbox = ChannelWorker {
                hub: hub.clone(),
                channel,
                handler,
                options: channel_options,
                poll_interval: options.poll_interval,
                drain_on_stop: channel == POST_CHANNEL,
                metrics: metrics.clone(),
            };
            let (stop, cut) = (stop.clone(), workers.kill.clone());
            let done_guard = (channel == ASK_CHANNEL).then(|| asks_done.clone().drop_guard());
            workers.loops.spawn(async move {
                outbox.run(wakeup, heartbeat, stop, cut).await;
                drop(done_guard);
            });
        }
        let heartbeat = workers.heartbeat("wakes", Duration::MAX);
        workers
            .loops
            .spawn(forward_hints(hints, wakeups, heartbeat, asks_done));

        let heartbeat = workers.heartbeat(
            "sweep",
            options.sweep_interval.saturating_add(HEARTBEAT_TIMEOUT),
        );
        let sweep = RetentionSweep {
            hub: hub.clone(),
            retention: options.retention,
            interval: options.sweep_interval,
            metrics: metrics.clone(),
        };
        let stop = workers.stop.clone();
        workers.loops.spawn(sweep.run(heartbeat, stop));
        workers
    }

    fn heartbeat(&mut self, name: &'static str, timeout: Duration) -> Heartbeat {
        let (heartbeat, probe) = Heartbeat::new(name, timeout);
        self.probes.push(probe);
        heartbeat
    }

    /// Checks that every worker is alive and making progress.
    ///
    /// # Errors
    /// Names the first unhealthy worker.
    pub fn check_health(&self) -> Result<(), Unhealthy> {
        self.probes.iter().try_for_each(|pulse| pulse.check())
    }

    /// Stops the workers: no new work starts, and work in progress may finish within the grace period. Then it is
    /// released, so that another node, or the next start of this one, takes it over at once.
    pub async fn join(mut self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.join_all()).await.is_ok() {
            return;
        }
        self.kill.cancel();
        if tokio::time::timeout(RELEASE_TIMEOUT, self.join_all())
            .await
            .is_err()
        {
            tracing::error!("workers did not stop in time, aborting");
        }
    }

    async fn join_all(&mut self) {
        while let Some(result) = self.loops.join_next().await {
            if let Err(error) = result {
                tracing::error!(%error, "worker panicked");
            }
        }
    }
}

/// Wakes the outbox workers on change hints of the store until stopped. Pending wakeups are coalesced.
async fn forward_hints(
    mut hints: Receiver<ChangeHint>,
    wakeups: Vec<Arc<Notify>>,
    _heartbeat: Heartbeat,
    stop: CancellationToken,
) {
    let concerns_outbox =
        |wake: &ChangeHint| matches!(wake, ChangeHint::Outbox | ChangeHint::Everything);
    loop {
        let hint = tokio::select! {
            () = stop.cancelled() => return,
            wake = hints.recv() => wake,
        };
        let mut should_wake = match hint {
            Ok(wake) => concerns_outbox(&wake),
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => return,
        };
        // Hints arrive in groups; drain those that are already there.
        loop {
            should_wake |= match hints.try_recv() {
                Ok(wake) => concerns_outbox(&wake),
                Err(TryRecvError::Lagged(_)) => true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            };
        }
        if should_wake {
            wakeups.iter().for_each(|bell| bell.notify_one());
        }
    }
}
