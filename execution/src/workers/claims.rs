//! Claiming tasks for the agents of this node: as many as have room, and not one more.

use super::floor::Floor;
use super::health::Heart;
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long to wait after a look that found nothing before a hint makes it look again: while others'
/// tasks come in by the thousand, a look for each would cost more than they do.
const PAUSE: Duration = Duration::from_millis(5);

/// Claims tasks, and hands each to an attendant.
pub(super) struct Claims {
    hub: Hub,
    floor: Arc<Floor>,
    /// With which agent the next round begins, when there is not room for all.
    first: usize,
}

impl Claims {
    pub(super) const fn new(hub: Hub, floor: Arc<Floor>) -> Self {
        let first = 0;
        Self { hub, floor, first }
    }

    /// Claims whenever there may be work and there is room, until told to stop; then waits for what
    /// runs.
    pub(super) async fn keep_claiming(mut self, heart: Heart) {
        let floor = Arc::clone(&self.floor);
        let (bell, stop) = (&floor.bell, &floor.stop);
        loop {
            let (found, failed) = match self.claim(stop).await {
                Ok(found) => {
                    heart.well();
                    (found, None)
                }
                Err(error) => (true, Some(heart.failed(&error))),
            };
            let looked = Instant::now();
            // While the store is in trouble nobody else's hints make it better.
            let wait = failed.unwrap_or(floor.options.look_every);
            tokio::select! {
                () = stop.cancelled() => break,
                () = rung(bell, looked, found), if failed.is_none() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        // Whoever stops the workers decides how long this may take; the attendants know.
        floor.empty().await;
    }

    /// Claims what there is room for. Tells whether there was anything.
    async fn claim(&mut self, stop: &CancellationToken) -> Result<bool, HubError> {
        let mut found = false;
        let rounds = self.rounds();
        // Without room nobody knows what waits.
        let mut more = rounds.is_empty();
        for wanted in rounds {
            // Earlier rounds may have used up the room.
            let room = self.floor.node.available_permits();
            let fits = |(agent, count): (AgentId, usize)| (agent, count.min(room));
            let wanted: Vec<_> = wanted.into_iter().map(fits).collect();
            if room == 0 || stop.is_cancelled() {
                more = true;
                break;
            }
            let options = &self.floor.options;
            let runs = self
                .hub
                .claim(&options.node, wanted.clone(), options.lease)
                .await?;
            found |= !runs.is_empty();
            // Who gets all that was asked for may leave some behind.
            more |= wanted.iter().any(|(agent, count)| {
                let got = runs.iter().filter(|run| run.item().agent == *agent);
                got.count() >= *count
            });
            for run in runs {
                self.floor.take(run);
            }
        }
        self.floor.more_waits(more);
        Ok(found)
    }

    /// What to ask the store for: all at once if there is room for all, else agent by agent, each time
    /// beginning with another.
    fn rounds(&mut self) -> Vec<Vec<(AgentId, usize)>> {
        let room = self.floor.node.available_permits();
        let mut wanted: Vec<_> = self
            .floor
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
