//! Claims on the work queue.

use crate::fairness::{RunShares, WorkOwner};
use interzone_protocol::vocab::{AgentId, TaskId, Timestamp};
use std::time::Duration;

/// Parameters of a work claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkClaim {
    /// Name of the claiming node, unique among nodes.
    pub node: String,
    /// Maximum number of tasks to claim per agent.
    pub wanted: Vec<(AgentId, usize)>,
    /// Current time by the caller's clock; see [`Maintenance::leases_expire`](super::Maintenance::leases_expire) for
    /// whose clock counts.
    pub now: Timestamp,
    /// Lease duration.
    pub lease: Duration,
    /// Claims that this node is running: not claimed again, even if their leases have expired.
    pub running_claims: Vec<u64>,
    /// Runs per owner and their limits: tasks of an owner at its limit are skipped, and those behind them are
    /// claimed.
    pub shares: RunShares,
}

/// A claimed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The task.
    pub task_id: TaskId,
    /// The agent that is to do it.
    pub agent: AgentId,
    /// The owner.
    pub owner: WorkOwner,
    /// Number of claims since it was enqueued, including this one; released claims do not count.
    pub attempt: u32,
    /// Claim number, used as fencing token ([`Fence`](super::Fence)). It increases with every claim and is never
    /// reused, not even after the task left the queue and came back.
    pub claim: u64,
}
