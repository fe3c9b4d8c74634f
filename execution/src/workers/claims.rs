//! Claiming tasks for the agents of this node: as many as have room, and not one more.

use super::floor::Floor;
use interzone_edge::health::Heart;
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit};
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
    /// A place that was waited for because the node was full.
    kept: Option<OwnedSemaphorePermit>,
}

/// What came of a look for work.
struct Looked {
    /// Whether there was anything.
    found: bool,
    /// Whether agents have seats and the node has no place for them.
    crowded: bool,
}

impl Claims {
    pub(super) const fn new(hub: Hub, floor: Arc<Floor>) -> Self {
        Self {
            hub,
            floor,
            first: 0,
            kept: None,
        }
    }

    /// Claims whenever there may be work and there is room, until told to stop; then waits for what
    /// runs.
    pub(super) async fn keep_claiming(mut self, heart: Heart) {
        let floor = Arc::clone(&self.floor);
        let (bell, stop) = (&floor.bell, &floor.stop);
        loop {
            let (found, failed) = match self.claim(stop).await {
                Ok(Looked { crowded: true, .. }) => {
                    heart.well();
                    self.kept = self.wait_for_place(&heart).await;
                    if stop.is_cancelled() {
                        break;
                    }
                    continue;
                }
                Ok(looked) => {
                    heart.well();
                    (looked.found, None)
                }
                Err(error) => {
                    self.kept = None;
                    (true, Some(heart.failed(&error)))
                }
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
        // Nobody sits on what was kept.
        self.kept = None;
        // Whoever stops the workers decides how long this may take; the attendants know.
        floor.empty().await;
    }

    /// Waits for a place while the node is full. Tasks that begin as they are made take every place that
    /// they find free, of whichever agent they are; who waits gets the next one all the same.
    async fn wait_for_place(&self, heart: &Heart) -> Option<OwnedSemaphorePermit> {
        let place = self.floor.place();
        tokio::pin!(place);
        loop {
            tokio::select! {
                biased;
                () = self.floor.stop.cancelled() => return None,
                place = &mut place => return place,
                () = tokio::time::sleep(self.floor.options.look_every) => heart.beat(),
            }
        }
    }

    /// How many places there are on the node for what is found.
    fn room(&self) -> usize {
        let kept = usize::from(self.kept.is_some());
        self.floor.node.available_permits().saturating_add(kept)
    }

    /// Claims what there is room for.
    async fn claim(&mut self, stop: &CancellationToken) -> Result<Looked, HubError> {
        let mut found = false;
        let wanted = self.wanted();
        let crowded = self.room() == 0 && !wanted.is_empty();
        // Without room nobody knows what waits.
        let mut left: Vec<AgentId> = match wanted.is_empty() || crowded {
            true => self.floor.ids().collect(),
            false => Vec::new(),
        };
        let mut shares = self.floor.shares();
        for wanted in self.rounds(wanted) {
            // Earlier rounds may have used up the room.
            let room = self.room();
            if room == 0 || stop.is_cancelled() {
                left.extend(wanted.into_iter().map(|(agent, _)| agent));
                continue;
            }
            let fits = |(agent, count): (AgentId, usize)| (agent, count.min(room));
            let wanted: Vec<_> = wanted.into_iter().map(fits).collect();
            let (node, lease) = (&self.floor.options.node, self.floor.options.lease);
            let claim = self
                .hub
                .claim_within(node, wanted.clone(), lease, shares.clone());
            let runs = claim.await?;
            found |= !runs.is_empty();
            // Who gets all that was asked for may leave some behind.
            let sated = wanted.into_iter().filter(|(agent, count)| {
                let got = runs.iter().filter(|run| run.item().agent == *agent);
                got.count() >= *count
            });
            left.extend(sated.map(|(agent, _)| agent));
            for run in runs {
                shares.add(&run.item().agent, &run.item().owner);
                let kept = self.kept.take();
                self.floor.take(run, kept);
            }
        }
        // Nothing was found for it, so it is free again before anybody is told that something waits.
        self.kept = None;
        self.floor.more_waits(&left, &shares);
        Ok(Looked { found, crowded })
    }

    /// How many runs of each agent there are seats for.
    fn wanted(&self) -> Vec<(AgentId, usize)> {
        let seats = self.floor.agents.iter();
        seats
            .map(|seats| (seats, seats.free.available_permits()))
            .filter(|(seats, free)| *free > 0 && seats.agent.is_available())
            .map(|(seats, free)| (seats.agent.info().id.clone(), free))
            .collect()
    }

    /// What to ask the store for: all at once if there is room for all, else agent by agent, each time
    /// beginning with another.
    fn rounds(&mut self, mut wanted: Vec<(AgentId, usize)>) -> Vec<Vec<(AgentId, usize)>> {
        let room = self.room();
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
