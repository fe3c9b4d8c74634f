//! Workers: everything that goes on in a node without being called.
//!
//! Agents are given their turns, what must leave is carried out, what is old is removed, and those who
//! wait are woken. What may happen to a task or a delivery is decided by the hub; here is only when
//! and how many at once.

mod attend;
mod claims;
mod floor;
mod options;
mod outbox;
mod paper;
mod streams;
mod sweep;
mod wakes;

pub use options::{CarrierOptions, WorkerMetrics, WorkerOptions};
pub use outbox::{Carried, Carrier};

use crate::webhooks::CHANNEL as WEBHOOK_CHANNEL;
use attend::Attendant;
use claims::Claims;
use floor::Floor;
use interzone_edge::health::{Heart, Pulse, Unwell};
use interzone_hub::ports::StoreError;
use interzone_hub::{Desk, Hub, HubError, STREAM_CHANNEL, WorkOwner};
use interzone_protocol::vocab::AgentId;
use outbox::Outbox;
use std::sync::Arc;
use std::time::Duration;
use streams::StreamCarrier;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long the workers may take to wind up once their grace is over, beyond what they wait for
/// agents.
const WIND_UP: Duration = Duration::from_secs(5);

/// How long a loop that looks often may be silent before it counts as stuck.
const SILENCE: Duration = Duration::from_secs(60);

/// All workers of a node.
///
/// Dropping them cuts everything off as it is, as if the node had died; [`Workers::join`] is the
/// kind way.
pub struct Workers {
    loops: JoinSet<()>,
    pulses: Vec<Arc<Pulse>>,
    stop: CancellationToken,
    cut: CancellationToken,
    wind_up: Duration,
    /// How many runs there may be, and the places that are free.
    runs: usize,
    room: Arc<Semaphore>,
    /// Where tasks that somebody waits for get their seats.
    _desk: Option<Arc<Desk>>,
}

impl Workers {
    /// Starts the workers of a node; it needs a runtime. They work until told to stop.
    pub fn start(
        hub: Hub,
        webhooks: Arc<dyn Carrier>,
        options: WorkerOptions,
        metrics: Arc<dyn WorkerMetrics>,
        stop: CancellationToken,
    ) -> Self {
        let mut workers = Self {
            loops: JoinSet::new(),
            pulses: Vec::new(),
            stop: stop.child_token(),
            cut: CancellationToken::new(),
            wind_up: options.stop_grace.saturating_add(WIND_UP),
            runs: options.runs.max(1),
            room: Arc::new(Semaphore::new(options.runs.max(1))),
            _desk: None,
        };
        let options = Arc::new(options);
        let bells = Bells::default();

        // Listening begins before anybody looks, so that nothing falls between the two.
        let (ringing, stop) = (bells.clone(), workers.stop.clone());
        let passing = hub.pass_on_wakes(stop, move |wakes| ringing.ring(wakes));
        let heart = workers.heart("wakes", Duration::MAX);
        workers.loops.spawn(async move {
            passing.await;
            drop(heart);
        });

        let heart = workers.heart("agents", SILENCE);
        let attendant = Arc::new(Attendant {
            options: options.clone(),
            metrics: metrics.clone(),
            cut: workers.cut.clone(),
        });
        let (room, bell, stop) = (
            workers.room.clone(),
            bells.work.clone(),
            workers.stop.clone(),
        );
        let floor = Floor::new(&hub, options.clone(), attendant, room, bell, stop);
        let claims = Claims::new(hub.clone(), Arc::clone(&floor));
        workers.loops.spawn(claims.keep_claiming(heart));
        let desk: Arc<Desk> =
            Arc::new(move |agent: &AgentId, owner: &WorkOwner| floor.seat(agent, owner));
        hub.begin_at(&desk);
        workers._desk = Some(desk);

        let streams: Arc<dyn Carrier> = Arc::new(StreamCarrier);
        for (name, channel, carrier, limits, bell) in [
            (
                "webhooks",
                WEBHOOK_CHANNEL,
                webhooks,
                options.webhooks,
                bells.webhooks.clone(),
            ),
            (
                "streams",
                STREAM_CHANNEL,
                streams,
                options.streams,
                bells.streams.clone(),
            ),
        ] {
            let heart = workers.heart(name, SILENCE);
            let outbox = Outbox {
                hub: hub.clone(),
                channel,
                carrier,
                limits,
                look_every: options.look_every,
                metrics: metrics.clone(),
            };
            let (stop, cut) = (workers.stop.clone(), workers.cut.clone());
            workers
                .loops
                .spawn(outbox.keep_carrying(bell, heart, stop, cut));
        }

        let heart = workers.heart("sweep", options.sweep_every.saturating_add(SILENCE));
        let (swept, stop) = (hub.clone(), workers.stop.clone());
        workers
            .loops
            .spawn(sweep::keep_sweeping(swept, options.clone(), heart, stop));

        let heart = workers.heart("gauges", options.gauges_every.saturating_add(SILENCE));
        let stop = workers.stop.clone();
        workers
            .loops
            .spawn(sweep::keep_measuring(hub, options, metrics, heart, stop));
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

    /// How many agents are at work on this node.
    pub fn running(&self) -> usize {
        self.runs.saturating_sub(self.room.available_permits())
    }

    /// Stops the workers: nothing new is begun, and what runs may finish within the grace. Then agents
    /// are stopped and their tasks given back, so that another node, or the next start of this one,
    /// takes them over at once.
    pub async fn join(mut self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.ended()).await.is_ok() {
            return;
        }
        self.cut.cancel();
        if tokio::time::timeout(self.wind_up, self.ended())
            .await
            .is_err()
        {
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

/// Whether trying again may help. Where it is not known whether something was written, it is found
/// out by trying again: a task that has ended, or a delivery that was settled, says so.
fn may_pass(error: &HubError) -> bool {
    error.is_transient() || matches!(error, HubError::Store(StoreError::InDoubt(_)))
}

/// What wakes the workers.
#[derive(Clone, Default)]
struct Bells {
    work: Arc<Notify>,
    webhooks: Arc<Notify>,
    streams: Arc<Notify>,
}

#[cfg(test)]
mod tests;
