//! Fairness between callers: in which order tasks are taken from the queue of an agent, and how many runs one
//! caller may have at once.
//!
//! Turns are self-clocked fair queueing. A task's turn is a cost after the last turn of its owner at that priority, or
//! after the last turn that was taken from the queue, whichever is later; the least turn is taken first. So owners
//! alternate however many tasks each of them queues, and a priority is a weight that delays others by a bounded number
//! of tasks.

use crate::task::Task;
use interzone_protocol::vocab::{AgentId, PrincipalId, Priority};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// How many groups the people of one principal are divided into. The caller names the person, so a caller that makes
/// names up gains no more than this.
const GROUPS: u8 = 15;

/// Whose a task in the queue is. Turns and runs are shared between principals, and between the people that one of them
/// asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkOwner {
    /// Who asked.
    pub principal: PrincipalId,
    /// The group of the person on whose behalf it was asked, from 1 to 15; 0 if no person was named.
    pub group: u8,
}

impl WorkOwner {
    /// The owner of a task, with the name of the person on whose behalf it was begun.
    pub fn new(task: &Task, person: Option<&str>) -> Self {
        Self {
            principal: task.owner.clone(),
            group: person.map_or(0, group_of),
        }
    }
}

/// The group of a person: the same on every node and after every start, for it is stored.
fn group_of(person: &str) -> u8 {
    let hash = Sha256::digest(person);
    hash.first().copied().unwrap_or_default() % GROUPS + 1
}

/// What a task of this priority adds to the turn of its owner.
///
/// LOW is for when an agent is idle, so it is far behind all others.
pub const fn turn_cost(priority: Priority) -> i64 {
    match priority {
        Priority::Urgent => 1,
        Priority::High => 4,
        Priority::Normal => 16,
        Priority::Low => 256,
    }
}

/// The turn of a task that is queued now: `taken` is the greatest turn that was taken from the queue, `last` the
/// greatest of those that wait with the same owner and priority.
pub fn next_turn(taken: i64, last: Option<i64>, priority: Priority) -> i64 {
    let start = last.map_or(taken, |last| last.max(taken));
    start.saturating_add(turn_cost(priority))
}

/// Below this many run slots a caller may hold all of them: to keep one of two free would halve what a single caller
/// gets.
const SHARED_FROM: usize = 4;

/// How many of these run slots one principal may hold: all but an eighth, which is at least one, so that others find
/// a slot however long its runs take.
pub fn principal_share(slots: usize) -> usize {
    if slots < SHARED_FROM {
        return slots.max(1);
    }
    slots - (slots / 8).max(1)
}

/// How many of them one group of a principal's people may hold: the same share of the principal's share.
fn group_share(slots: usize) -> usize {
    principal_share(principal_share(slots))
}

/// Who has how many runs on a node, and how many each may have. Without slots nothing is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunShares {
    /// The run slots of the node.
    node: Option<usize>,
    /// The run slots of each agent.
    agents: BTreeMap<AgentId, usize>,
    running: BTreeMap<(AgentId, WorkOwner), usize>,
}

impl RunShares {
    /// Shares of these run slots, none of them taken.
    pub fn new(node: usize, agents: impl IntoIterator<Item = (AgentId, usize)>) -> Self {
        Self {
            node: Some(node),
            agents: agents.into_iter().collect(),
            running: BTreeMap::new(),
        }
    }

    /// Whether this owner may have one more run of this agent.
    pub fn admits(&self, agent: &AgentId, owner: &WorkOwner) -> bool {
        let of_agent = self.agents.get(agent).copied();
        self.fits(of_agent, Some(agent), owner) && self.fits(self.node, None, owner)
    }

    /// Whether one more run fits into the shares of these slots, counting the runs of one agent or of all.
    fn fits(&self, slots: Option<usize>, of: Option<&AgentId>, owner: &WorkOwner) -> bool {
        let Some(slots) = slots else { return true };
        let (mut principal, mut group) = (0, 0);
        for ((agent, holder), runs) in &self.running {
            if of.is_some_and(|of| of != agent) || holder.principal != owner.principal {
                continue;
            }
            principal += runs;
            if holder.group == owner.group {
                group += runs;
            }
        }
        principal < principal_share(slots) && (owner.group == 0 || group < group_share(slots))
    }

    /// Counts one more run.
    pub fn add(&mut self, agent: &AgentId, owner: &WorkOwner) {
        let key = (agent.clone(), owner.clone());
        *self.running.entry(key).or_default() += 1;
    }

    /// Counts one run less.
    pub fn remove(&mut self, agent: &AgentId, owner: &WorkOwner) {
        let key = (agent.clone(), owner.clone());
        if let Some(runs) = self.running.get_mut(&key) {
            *runs = runs.saturating_sub(1);
            if *runs == 0 {
                self.running.remove(&key);
            }
        }
    }

    /// Those who run something and may have no more of this agent.
    pub fn at_share<'a>(&'a self, agent: &'a AgentId) -> impl Iterator<Item = &'a WorkOwner> {
        let owners = self.running.keys().map(|(_, owner)| owner);
        owners.filter(move |owner| !self.admits(agent, owner))
    }
}

#[cfg(test)]
mod tests;
