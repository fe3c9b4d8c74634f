//! The greatest turns that this node has claimed. A task that is queued stands behind them.

use interzone_protocol::vocab::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// For each agent, the greatest turn that this node has claimed.
#[derive(Default)]
pub(super) struct TakenTurns(Mutex<HashMap<AgentId, i64>>);

impl TakenTurns {
    /// The greatest turn of this agent; zero if none was claimed.
    pub(super) fn greatest(&self, agent: &AgentId) -> i64 {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(agent).copied().unwrap_or(0)
    }

    /// Notes that a turn was claimed.
    pub(super) fn note(&self, agent: &AgentId, turn: i64) {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match turns.get_mut(agent) {
            Some(greatest) => *greatest = turn.max(*greatest),
            None => drop(turns.insert(agent.clone(), turn)),
        }
    }
}
