//! Turns (fair queueing): a task is queued behind the last one of its owner and priority, and behind the greatest turn
//! claimed so far, as far as this node knows it.

use super::clock::now_or_server;
use interzone_protocol::vocab::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Queues a task. Where this node has claimed nothing yet, the waiting task with the least turn shows how
/// far the queue is: its turn minus its own cost was claimed already.
pub(super) const QUEUE_WORK: &str = concat!(
    "INSERT INTO work_queue (task_id, agent, priority, flow, turn, position, claimable_at)
     SELECT id, $2, $3, $7, $8::bigint + greatest($9::bigint,
         (SELECT max(turn) FROM work_queue WHERE agent = $2 AND flow = $7),
         (SELECT turn - ($10::bigint[])[priority + 1]
          FROM work_queue WHERE agent = $2 AND node IS NULL ORDER BY turn, position LIMIT 1)),
         nextval('work_positions'), CASE WHEN $4::bigint <= 0 THEN $6 ELSE ",
    now_or_server!("$5"),
    " + $4::bigint END FROM tasks WHERE id = $1 FOR KEY SHARE
     ON CONFLICT (task_id) DO UPDATE SET
         agent = excluded.agent, priority = excluded.priority, flow = excluded.flow,
         turn = excluded.turn, position = excluded.position,
         claimable_at = excluded.claimable_at, node = NULL, claim = NULL, attempt = 0"
);

/// Greatest turn that this node has claimed, per agent.
#[derive(Default)]
pub(super) struct ClaimedTurns(Mutex<HashMap<AgentId, i64>>);

impl ClaimedTurns {
    /// Returns the greatest claimed turn of this agent; zero if none.
    pub(super) fn greatest(&self, agent: &AgentId) -> i64 {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(agent).copied().unwrap_or(0)
    }

    /// Records a claimed turn.
    pub(super) fn record(&self, agent: &AgentId, turn: i64) {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match turns.get_mut(agent) {
            Some(greatest) => *greatest = turn.max(*greatest),
            None => drop(turns.insert(agent.clone(), turn)),
        }
    }
}
