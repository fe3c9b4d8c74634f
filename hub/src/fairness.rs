//! Fairness between callers: the order in which tasks are claimed from an agent's queue, and the number of concurrent
//! runs per caller.
//!
//! The order is self-clocked fair queueing. A task's turn (virtual finish time) is the later of its owner's last turn
//! at that priority and the last turn claimed from the queue, plus a cost; the lowest turn is claimed first. So
//! owners alternate however many tasks each of them queues, and a priority is a weight that delays others by a
//! bounded number of tasks.

use crate::task::Task;
use interzone_protocol::vocab::{AgentId, PrincipalId, Priority};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Number of groups that the people of one principal are divided into. The caller names the person, so a caller that
/// invents names gains at most this factor.
const PERSON_GROUPS: u8 = 15;

/// Owner of a queued task. Turns and runs are shared between principals, and between the people on whose behalf a
/// principal calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkOwner {
    /// The calling principal.
    pub principal: PrincipalId,
    /// Group of the person on whose behalf the task was created, 1 to 15; 0 if no person was named.
    pub group: u8,
}

impl WorkOwner {
    /// The owner of a task, with the name of the person on whose behalf it was created.
    pub fn new(task: &Task, person: Option<&str>) -> Self {
        Self {
            principal: task.owner.clone(),
            group: person.map_or(0, person_group),
        }
    }
}

/// Group of a person. It is stored, so it must be the same on every node and after every restart.
fn person_group(person: &str) -> u8 {
    let hash = Sha256::digest(person);
    hash.first().copied().unwrap_or_default() % PERSON_GROUPS + 1
}

/// Virtual-time cost that a task of this priority adds to its owner's turn.
///
/// LOW is for idle agents, so it is far behind all others.
pub const fn turn_cost(priority: Priority) -> i64 {
    match priority {
        Priority::Urgent => 1,
        Priority::High => 4,
        Priority::Normal => 16,
        Priority::Low => 256,
    }
}

/// Turn of a task that is queued now: `last_claimed` is the highest turn claimed from the queue, `last_queued` the
/// highest turn waiting with the same owner and priority.
pub fn next_turn(last_claimed: i64, last_queued: Option<i64>, priority: Priority) -> i64 {
    let start = last_queued.map_or(last_claimed, |last| last.max(last_claimed));
    start.saturating_add(turn_cost(priority))
}

/// Below this many run slots one caller may use all of them: reserving one of two would halve the throughput of a
/// single caller.
const MIN_SHARED_SLOTS: usize = 4;

/// A caller may hold at most this many times the slots that stay free, so 7/8 of the slots if it is the only one.
const HELD_PER_FREE_SLOT: usize = 7;

/// Maximum number of run slots for one principal: all but an eighth (at least one), so that others find a free slot
/// however long its runs take.
pub fn principal_share(slots: usize) -> usize {
    let slots = slots.max(1);
    startable_runs(slots, 0, slots)
}

/// Number of runs that one more caller may start, of `slots` slots of which it holds `held` and `free` are free
/// (dynamic threshold of Choudhury and Hahne). Each run starts while the caller holds less than seven times the free
/// slots, and leaves one free. A caller without a run may take the last slot. So however many callers hold as much
/// as they may, a slot stays free for the next.
fn startable_runs(slots: usize, held: usize, free: usize) -> usize {
    if slots < MIN_SHARED_SLOTS {
        return slots.saturating_sub(held);
    }
    let below_threshold = free
        .saturating_mul(HELD_PER_FREE_SLOT)
        .saturating_sub(held)
        .div_ceil(HELD_PER_FREE_SLOT + 1);
    let startable = below_threshold.min(free.saturating_sub(1));
    startable.max(usize::from(held == 0))
}

/// Runs per owner on a node, and their limits. Without slots nothing is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunShares {
    /// Number of run slots of the node.
    node_slots: Option<usize>,
    /// Number of run slots of each agent.
    agent_slots: BTreeMap<AgentId, usize>,
    running: BTreeMap<(AgentId, WorkOwner), usize>,
}

impl RunShares {
    /// Creates shares of these run slots, all of them free.
    pub fn new(node_slots: usize, agent_slots: impl IntoIterator<Item = (AgentId, usize)>) -> Self {
        Self {
            node_slots: Some(node_slots),
            agent_slots: agent_slots.into_iter().collect(),
            running: BTreeMap::new(),
        }
    }

    /// Returns true if this owner may start one more run of this agent.
    pub fn admits(&self, agent: &AgentId, owner: &WorkOwner) -> bool {
        let agent_slots = self.agent_slots.get(agent).copied();
        self.fits(agent_slots, Some(agent), owner) && self.fits(self.node_slots, None, owner)
    }

    /// Returns true if one more run fits into the shares of these slots, counting the runs of one agent or of all.
    fn fits(&self, slots: Option<usize>, only_agent: Option<&AgentId>, owner: &WorkOwner) -> bool {
        let Some(slots) = slots else { return true };
        let slots = slots.max(1);
        let (mut all, mut principal, mut group) = (0, 0, 0);
        for ((agent, holder), runs) in &self.running {
            if only_agent.is_some_and(|only_agent| only_agent != agent) {
                continue;
            }
            all += runs;
            if holder.principal == owner.principal {
                principal += runs;
                if holder.group == owner.group {
                    group += runs;
                }
            }
        }
        let of_principal = startable_runs(slots, principal, slots.saturating_sub(all));
        // The people of a principal share what it may start by the same rule.
        let is_group_below = || startable_runs(principal_share(slots), group, of_principal) > 0;
        of_principal > 0 && (owner.group == 0 || is_group_below())
    }

    /// Counts a started run.
    pub fn add(&mut self, agent: &AgentId, owner: &WorkOwner) {
        let key = (agent.clone(), owner.clone());
        *self.running.entry(key).or_default() += 1;
    }

    /// Counts a finished run.
    pub fn remove(&mut self, agent: &AgentId, owner: &WorkOwner) {
        let key = (agent.clone(), owner.clone());
        if let Some(runs) = self.running.get_mut(&key) {
            *runs = runs.saturating_sub(1);
            if *runs == 0 {
                self.running.remove(&key);
            }
        }
    }

    /// Owners with runs that may not start another one of this agent.
    pub fn owners_at_limit<'a>(
        &'a self,
        agent: &'a AgentId,
    ) -> impl Iterator<Item = &'a WorkOwner> {
        let owners = self.running.keys().map(|(_, owner)| owner);
        owners.filter(move |owner| !self.admits(agent, owner))
    }
}

#[cfg(test)]
mod tests;
