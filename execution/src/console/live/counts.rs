//! Counters on the overview page, and the task states that they cover.

use interzone_hub::ports::StoreError;
use interzone_hub::{Hub, TaskQuery};
use interzone_protocol::vocab::TaskState;
use serde::Serialize;

/// Task states that are not final.
pub(in crate::console) const ACTIVE_STATES: [TaskState; 4] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
];

/// Final task states.
pub(in crate::console) const FINAL_STATES: [TaskState; 4] = [
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Rejected,
    TaskState::Canceled,
];

/// Counters on the overview page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::console) struct OverviewCounts {
    pub(in crate::console) submitted: u64,
    pub(in crate::console) working: u64,
    pub(in crate::console) waiting: u64,
    pub(in crate::console) queued: u64,
    pub(in crate::console) outgoing: u64,
    pub(in crate::console) dead: u64,
}

impl OverviewCounts {
    pub(in crate::console) async fn load(hub: &Hub) -> Result<Self, StoreError> {
        let store = hub.store();
        let count =
            async |states: &[TaskState]| store.count_tasks(&tasks_in_states(states, 1)).await;
        let (queued, _) = store.work_depth(hub.now()).await?;
        let (outgoing, dead) = store.outbox_depth().await?;
        Ok(Self {
            submitted: count(&[TaskState::Submitted]).await?,
            working: count(&[TaskState::Working]).await?,
            waiting: count(&[TaskState::InputRequired, TaskState::AuthRequired]).await?,
            queued,
            outgoing,
            dead,
        })
    }
}

/// Query for the tasks of all owners in these states.
pub(in crate::console) fn tasks_in_states(states: &[TaskState], limit: usize) -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: states.to_vec(),
        agent: None,
        status_since: None,
        after: None,
        limit,
    }
}
