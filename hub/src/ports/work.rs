//! What is claimed from the queue of tasks, and what is known of it then.

use crate::fairness::{RunShares, WorkOwner};
use interzone_protocol::vocab::{AgentId, TaskId, Timestamp};
use std::time::Duration;

/// What a worker asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkClaim {
    /// Who asks; no two nodes have the same name.
    pub node: String,
    /// For each agent, how many tasks are wanted.
    pub wanted: Vec<(AgentId, usize)>,
    /// The present moment by the caller's clock; see [`Upkeep::leases_end`](super::Upkeep::leases_end) for whose clock counts.
    pub now: Timestamp,
    /// How long the leases last.
    pub lease: Duration,
    /// Claims that this node works at: not claimed again, even if their leases are over.
    pub running: Vec<u64>,
    /// How many runs each owner may have, and has: tasks of an owner that may have no more are left to wait, and those
    /// behind them are claimed.
    pub shares: RunShares,
}

/// A task that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The task.
    pub task_id: TaskId,
    /// Who is to do it.
    pub agent: AgentId,
    /// Whose it is.
    pub owner: WorkOwner,
    /// How often it has been claimed since it was queued, this time included; a claim that was given
    /// back does not count.
    pub attempt: u32,
    /// The number of this claim, which proves it ([`Fence`](super::Fence)). It rises with every
    /// claim and is never given twice, not even after the task left the queue and came back.
    pub claim: u64,
}
