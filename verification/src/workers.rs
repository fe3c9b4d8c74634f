//! Workers: everything that goes on in a node without being called.
//!
//! Questions are asked, answers are posted, small errands are run, and what is old is removed. What each
//! of them is, is decided elsewhere; here is only when, how many at once, and how it ends.

mod outbox;
mod sweep;

pub(crate) use outbox::Carrier;
pub use outbox::ChannelOptions;

use crate::ask::Asker;
use crate::errands::Runner;
use crate::reply::POSTS;
use crate::zone::{ASK_CHANNEL, ERRAND_CHANNEL, Zone};
use interzone_edge::health::{Heart, Pulse, Unwell};
use interzone_hub::ports::Wake;
use interzone_hub::{Retention, RetryPolicy};
use outbox::Outbox;
use std::sync::Arc;
use std::time::Duration;
use sweep::Sweep;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long the workers may take to hand back what they have, once their grace is over.
const WIND_UP: Duration = Duration::from_secs(5);

/// How long a loop that looks often may be silent before it counts as stuck.
const SILENCE: Duration = Duration::from_secs(60);

/// How the workers of a node work.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// How questions are asked.
    pub asks: ChannelOptions,
    /// How answers are posted.
    pub posts: ChannelOptions,
    /// How stops and other small things are done.
    pub errands: ChannelOptions,
    /// How often the workers look by themselves, for what nobody told them of.
    pub look_every: Duration,
    /// What is kept for how long.
    pub retention: Retention,
    /// How often what is old is removed.
    pub sweep_every: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        let channel = ChannelOptions {
            concurrency: 64,
            hold: Duration::from_secs(30),
            limit: Duration::from_secs(120),
            retry: RetryPolicy {
                first: Duration::from_secs(1),
                longest: Duration::from_secs(60),
                attempts: 12,
            },
        };
        Self {
            asks: channel,
            // An answer is worth more than an hour's tries; Slack has been away for as long.
            posts: ChannelOptions {
                retry: RetryPolicy {
                    attempts: 60,
                    ..channel.retry
                },
                ..channel
            },
            errands: channel,
            look_every: Duration::from_secs(1),
            retention: Retention::default(),
            sweep_every: Duration::from_secs(60),
        }
    }
}

/// All workers of a node.
///
/// Dropping them cuts everything off as it is, as if the node had died; [`Workers::join`] is the kind
/// way.
pub struct Workers {
    loops: JoinSet<()>,
    pulses: Vec<Arc<Pulse>>,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Workers {
    /// Starts the workers of a zone; it needs a runtime. They work until told to stop.
    pub fn start(zone: &Zone, options: &WorkerOptions, stop: &CancellationToken) -> Self {
        let (hub, metrics) = (&zone.0.hub, &zone.0.metrics);
        let asks: Arc<dyn Carrier> = Arc::new(Asker(zone.clone()));
        let posts: Arc<dyn Carrier> = Arc::new(zone.0.desk.poster());
        let errands: Arc<dyn Carrier> = Arc::new(Runner(zone.clone()));
        let mut workers = Self {
            loops: JoinSet::new(),
            pulses: Vec::new(),
            stop: stop.child_token(),
            cut: CancellationToken::new(),
        };
        // Listening begins before anybody looks, so that nothing falls between the two.
        let wakes = hub.store().wakes();
        let mut bells = Vec::new();
        // An ask ends by its own budget, and says so; this is for one that hangs.
        let patience = zone.0.ask.budget.saturating_add(SILENCE);
        let limits = ChannelOptions {
            limit: options.asks.limit.max(patience),
            ..options.asks
        };
        // Answers are posted for as long as questions are asked: else one that comes within the grace
        // would stand there half.
        let asked = CancellationToken::new();
        for (channel, carrier, limits, until) in [
            (ASK_CHANNEL, asks, limits, &workers.stop.clone()),
            (POSTS, posts, options.posts, &asked),
            (ERRAND_CHANNEL, errands, options.errands, &asked),
        ] {
            let heart = workers.heart(channel, SILENCE);
            let bell = Arc::new(Notify::new());
            bells.push(bell.clone());
            let outbox = Outbox {
                hub: hub.clone(),
                channel,
                carrier,
                options: limits,
                look_every: options.look_every,
                to_the_end: channel == POSTS,
                metrics: metrics.clone(),
            };
            let (stop, cut) = (until.clone(), workers.cut.clone());
            let over = (channel == ASK_CHANNEL).then(|| asked.clone().drop_guard());
            workers.loops.spawn(async move {
                outbox.keep_carrying(bell, heart, stop, cut).await;
                drop(over);
            });
        }
        let heart = workers.heart("wakes", Duration::MAX);
        workers.loops.spawn(ring(wakes, bells, heart, asked));

        let heart = workers.heart("sweep", options.sweep_every.saturating_add(SILENCE));
        let sweep = Sweep {
            hub: hub.clone(),
            retention: options.retention,
            every: options.sweep_every,
            metrics: metrics.clone(),
        };
        let stop = workers.stop.clone();
        workers.loops.spawn(sweep.keep_sweeping(heart, stop));
        workers
    }

    fn heart(&mut self, name: &'static str, silence: Duration) -> Heart {
        let (heart, pulse) = Heart::new(name, silence);
        self.pulses.push(pulse);
        heart
    }

    /// Whether every worker is alive and gets on.
    ///
    /// # Errors
    /// One is not or does not, and this is which.
    pub fn healthy(&self) -> Result<(), Unwell> {
        self.pulses.iter().try_for_each(|pulse| pulse.feel())
    }

    /// Stops the workers: nothing new is begun, and what is on its way may finish within the grace. Then
    /// it is handed back, so that another node, or the next start of this one, takes it over at once.
    pub async fn join(mut self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.ended()).await.is_ok() {
            return;
        }
        self.cut.cancel();
        if tokio::time::timeout(WIND_UP, self.ended()).await.is_err() {
            tracing::error!("some workers did not end in time and are cut off");
        }
    }

    async fn ended(&mut self) {
        while let Some(ended) = self.loops.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a worker broke");
            }
        }
    }
}

/// Rings for each hint of the store until told to stop. A bell that has not been heard yet rings once,
/// however often it is rung.
async fn ring(
    mut wakes: Receiver<Wake>,
    bells: Vec<Arc<Notify>>,
    _heart: Heart,
    stop: CancellationToken,
) {
    let outbox = |wake: &Wake| matches!(wake, Wake::Outbox | Wake::Everything);
    loop {
        let wake = tokio::select! {
            () = stop.cancelled() => return,
            wake = wakes.recv() => wake,
        };
        let mut rings = match wake {
            Ok(wake) => outbox(&wake),
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => return,
        };
        // Hints come by the group; those that are there need no waiting.
        loop {
            rings |= match wakes.try_recv() {
                Ok(wake) => outbox(&wake),
                Err(TryRecvError::Lagged(_)) => true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            };
        }
        if rings {
            bells.iter().for_each(|bell| bell.notify_one());
        }
    }
}
