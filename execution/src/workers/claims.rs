//! Claiming tasks for the agents of this node: as many as have room, and not one more.

use super::attend::Attendant;
use super::health::Heart;
use super::options::WorkerOptions;
use interzone_hub::{Agent, Hub, HubError};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long to wait after a look that found nothing before a hint makes it look again: while others'
/// tasks come in by the thousand, a look for each would cost more than they do.
const PAUSE: Duration = Duration::from_millis(5);

/// Claims tasks, and hands each to an attendant.
pub(super) struct Claims {
    hub: Hub,
    options: Arc<WorkerOptions>,
    attendant: Arc<Attendant>,
    agents: Vec<Seats>,
    /// Room for runs of any agent.
    node: Arc<Semaphore>,
    /// With which agent the next round begins, when there is not room for all.
    first: usize,
    running: JoinSet<()>,
}

/// An agent and its room for runs.
struct Seats {
    agent: Arc<dyn Agent>,
    free: Arc<Semaphore>,
}

impl Claims {
    pub(super) fn new(
        hub: Hub,
        options: Arc<WorkerOptions>,
        attendant: Arc<Attendant>,
        node: Arc<Semaphore>,
    ) -> Self {
        let seats = |agent: &Arc<dyn Agent>| Seats {
            agent: agent.clone(),
            free: Arc::new(Semaphore::new(agent.info().concurrency.max(1))),
        };
        let agents = hub.agents().iter().map(seats).collect();
        Self {
            hub,
            options,
            attendant,
            agents,
            node,
            first: 0,
            running: JoinSet::new(),
        }
    }

    /// Claims whenever there may be work and there is room, until told to stop; then waits for what
    /// runs.
    pub(super) async fn keep_claiming(
        mut self,
        bell: Arc<Notify>,
        heart: Heart,
        stop: CancellationToken,
    ) {
        loop {
            let (found, failed) = match self.claim(&stop).await {
                Ok(found) => {
                    heart.well();
                    (found, None)
                }
                Err(error) => (true, Some(heart.failed(&error))),
            };
            let looked = Instant::now();
            // While the store is in trouble nobody else's hints make it better.
            let wait = failed.unwrap_or(self.options.look_every);
            tokio::select! {
                () = stop.cancelled() => break,
                () = rung(&bell, looked, found), if failed.is_none() => {}
                Some(ended) = self.running.join_next(), if !self.running.is_empty() && failed.is_none() => {
                    told(ended);
                }
                () = tokio::time::sleep(wait) => {}
            }
            while let Some(ended) = self.running.try_join_next() {
                told(ended);
            }
        }
        // Whoever stops the workers decides how long this may take; the attendants know.
        while let Some(ended) = self.running.join_next().await {
            told(ended);
        }
    }

    /// Claims what there is room for. Tells whether there was anything.
    async fn claim(&mut self, stop: &CancellationToken) -> Result<bool, HubError> {
        let mut found = false;
        for wanted in self.rounds() {
            // Earlier rounds may have used up the room.
            let room = self.node.available_permits();
            let fits = |(agent, count): (AgentId, usize)| (agent, count.min(room));
            let wanted: Vec<_> = wanted.into_iter().map(fits).collect();
            if room == 0 || stop.is_cancelled() {
                break;
            }
            let node = &self.options.node;
            let runs = self.hub.claim(node, wanted, self.options.lease).await?;
            found |= !runs.is_empty();
            for run in runs {
                let seats = self
                    .agents
                    .iter()
                    .find(|seats| seats.agent.info().id == run.item().agent);
                let Some(seats) = seats else { continue };
                // Only this loop takes places, so those that were counted are still there.
                let places = (place(&self.node), place(&seats.free));
                let (attendant, agent) = (self.attendant.clone(), seats.agent.clone());
                self.running.spawn(async move {
                    attendant.attend(agent, run).await;
                    drop(places);
                });
            }
        }
        Ok(found)
    }

    /// What to ask the store for: all at once if there is room for all, else agent by agent, each time
    /// beginning with another.
    fn rounds(&mut self) -> Vec<Vec<(AgentId, usize)>> {
        let room = self.node.available_permits();
        let mut wanted: Vec<_> = self
            .agents
            .iter()
            .map(|seats| (seats, seats.free.available_permits()))
            .filter(|(seats, free)| *free > 0 && seats.agent.is_available())
            .map(|(seats, free)| (seats.agent.info().id.clone(), free))
            .collect();
        if wanted.is_empty() || room == 0 {
            return Vec::new();
        }
        let all: usize = wanted.iter().map(|(_, free)| free).sum();
        if all <= room {
            return vec![wanted];
        }
        self.first = self.first.wrapping_add(1);
        let first = self.first.checked_rem(wanted.len()).unwrap_or(0);
        wanted.rotate_left(first);
        wanted.into_iter().map(|one| vec![one]).collect()
    }
}

/// Waits for a hint.
async fn rung(bell: &Notify, looked: Instant, found: bool) {
    bell.notified().await;
    if !found {
        tokio::time::sleep_until(looked + PAUSE).await;
    }
}

fn place(free: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    free.clone().try_acquire_owned().ok()
}

fn told(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "whoever attended a run broke; its task is taken up again when its lease is over");
    }
}
