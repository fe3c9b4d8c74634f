//! Claims tasks for the agents of this node, up to the free capacity.

use super::capacity::RunCapacity;
use interzone_delivery::Heartbeat;
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Minimum delay between an empty poll and the next one caused by a notification: while other nodes' tasks arrive by
/// the thousand, a poll for each would cost more than the tasks.
const EMPTY_POLL_DELAY: Duration = Duration::from_millis(5);

/// Claims tasks and dispatches them.
pub(super) struct Claimer {
    hub: Hub,
    capacity: Arc<RunCapacity>,
    /// Rotating index of the agent that is served first when there is not capacity for all.
    next_agent: usize,
    /// Node slot that was acquired by waiting while the node was full.
    reserved_slot: Option<OwnedSemaphorePermit>,
}

/// Result of a poll for work.
struct ClaimResult {
    /// True if tasks were claimed.
    has_claimed: bool,
    /// True if agents have free slots but the node does not.
    is_node_full: bool,
}

impl Claimer {
    pub(super) const fn new(hub: Hub, floor: Arc<RunCapacity>) -> Self {
        Self {
            hub,
            capacity: floor,
            next_agent: 0,
            reserved_slot: None,
        }
    }

    /// Claims whenever there may be work and capacity, until stopped; then waits for the running tasks.
    pub(super) async fn run(mut self, heartbeat: Heartbeat) {
        let capacity = Arc::clone(&self.capacity);
        let (wakeup, stop) = (&capacity.wakeup, &capacity.stop);
        loop {
            let (has_claimed, retry_delay) = match self.claim(stop).await {
                Ok(ClaimResult {
                    is_node_full: true, ..
                }) => {
                    heartbeat.report_ok();
                    self.reserved_slot = self.wait_for_slot(&heartbeat).await;
                    if stop.is_cancelled() {
                        break;
                    }
                    continue;
                }
                Ok(result) => {
                    heartbeat.report_ok();
                    (result.has_claimed, None)
                }
                Err(error) => {
                    self.reserved_slot = None;
                    (true, Some(heartbeat.report_failure(&error)))
                }
            };
            let polled_at = Instant::now();
            // Notifications are ignored while the store fails.
            let wait = retry_delay.unwrap_or(capacity.options.poll_interval);
            tokio::select! {
                () = stop.cancelled() => break,
                () = wait_for_wakeup(wakeup, polled_at, has_claimed), if retry_delay.is_none() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        // The reserved slot is not used any more.
        self.reserved_slot = None;
        // The caller of `Workers::join` limits the time; the runners observe it.
        capacity.drain().await;
    }

    /// Waits for a node slot while the node is full. Direct dispatch takes every slot that is free, for any agent; the
    /// semaphore is fair, so that this waiter gets the next one.
    async fn wait_for_slot(&self, heartbeat: &Heartbeat) -> Option<OwnedSemaphorePermit> {
        let slot = self.capacity.acquire_node();
        tokio::pin!(slot);
        loop {
            tokio::select! {
                biased;
                () = self.capacity.stop.cancelled() => return None,
                slot = &mut slot => return slot,
                () = tokio::time::sleep(self.capacity.options.poll_interval) => heartbeat.tick(),
            }
        }
    }

    /// Returns the number of free node slots.
    fn free_slots(&self) -> usize {
        let reserved = usize::from(self.reserved_slot.is_some());
        self.capacity
            .node_slots
            .available_permits()
            .saturating_add(reserved)
    }

    /// Claims up to the free capacity.
    async fn claim(&mut self, stop: &CancellationToken) -> Result<ClaimResult, HubError> {
        let mut has_claimed = false;
        let requests = self.slot_requests();
        let is_node_full = self.free_slots() == 0 && !requests.is_empty();
        // Without free slots the store is not asked, so every agent may have a backlog.
        let mut backlog: Vec<AgentId> = match requests.is_empty() || is_node_full {
            true => self.capacity.ids().collect(),
            false => Vec::new(),
        };
        let mut shares = self.capacity.shares();
        for requests in self.claim_batches(requests) {
            // Earlier batches may have used up the capacity.
            let free = self.free_slots();
            if free == 0 || stop.is_cancelled() {
                backlog.extend(requests.into_iter().map(|(agent, _)| agent));
                continue;
            }
            let capped = |(agent, count): (AgentId, usize)| (agent, count.min(free));
            let requests: Vec<_> = requests.into_iter().map(capped).collect();
            let (node, lease) = (&self.capacity.options.node, self.capacity.options.lease);
            let claim = self
                .hub
                .claim_within(node, requests.clone(), lease, shares.clone());
            let runs = claim.await?;
            has_claimed |= !runs.is_empty();
            // An agent that got all it asked for may have more tasks queued.
            let saturated = requests.into_iter().filter(|(agent, count)| {
                let claimed = runs.iter().filter(|run| run.work_item().agent == *agent);
                claimed.count() >= *count
            });
            backlog.extend(saturated.map(|(agent, _)| agent));
            for run in runs {
                shares.add(&run.work_item().agent, &run.work_item().owner);
                let reserved = self.reserved_slot.take();
                self.capacity.dispatch(run, reserved);
            }
        }
        // Nothing was claimed for the reserved slot: it is freed before the backlog is published.
        self.reserved_slot = None;
        self.capacity.set_backlog(&backlog, &shares);
        Ok(ClaimResult {
            has_claimed,
            is_node_full,
        })
    }

    /// Returns the free slots of each available agent.
    fn slot_requests(&self) -> Vec<(AgentId, usize)> {
        let agents = self.capacity.agents.iter();
        agents
            .map(|capacity| (capacity, capacity.slots.available_permits()))
            .filter(|(capacity, free)| *free > 0 && capacity.agent.is_available())
            .map(|(capacity, free)| (capacity.agent.info().id.clone(), free))
            .collect()
    }

    /// Returns the claim batches: one for all agents if the capacity suffices, else one per agent, each time starting
    /// with another.
    fn claim_batches(&mut self, mut requests: Vec<(AgentId, usize)>) -> Vec<Vec<(AgentId, usize)>> {
        let free = self.free_slots();
        if requests.is_empty() || free == 0 {
            return Vec::new();
        }
        let total: usize = requests.iter().map(|(_, free)| free).sum();
        if total <= free {
            return vec![requests];
        }
        self.next_agent = self.next_agent.wrapping_add(1);
        let first = self.next_agent.checked_rem(requests.len()).unwrap_or(0);
        requests.rotate_left(first);
        requests.into_iter().map(|one| vec![one]).collect()
    }
}

/// Waits for a notification.
async fn wait_for_wakeup(wakeup: &Notify, polled_at: Instant, has_claimed: bool) {
    wakeup.notified().await;
    if !has_claimed {
        tokio::time::sleep_until(polled_at + EMPTY_POLL_DELAY).await;
    }
}
