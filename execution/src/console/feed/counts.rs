//! How much there is of what an operator watches, and which tasks count as what. Who is told of it is not
//! known here.

use interzone_hub::ports::StoreError;
use interzone_hub::{Hub, TaskQuery};
use interzone_protocol::vocab::TaskState;
use serde::Serialize;

/// The states in which a task is not finished.
pub(in crate::console) const LIVE: [TaskState; 4] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
];

/// And those in which it is.
pub(in crate::console) const ENDED: [TaskState; 4] = [
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Rejected,
    TaskState::Canceled,
];

/// How much there is of what an operator watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::console) struct Counts {
    pub(in crate::console) submitted: u64,
    pub(in crate::console) working: u64,
    pub(in crate::console) waiting: u64,
    pub(in crate::console) queued: u64,
    pub(in crate::console) outgoing: u64,
    pub(in crate::console) dead: u64,
}

impl Counts {
    pub(in crate::console) async fn of(hub: &Hub) -> Result<Self, StoreError> {
        let store = hub.store();
        let count = async |states: &[TaskState]| store.count_tasks(&query(states, 1)).await;
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

/// Everybody's tasks in these states.
pub(in crate::console) fn query(states: &[TaskState], limit: usize) -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: states.to_vec(),
        agent: None,
        updated_since: None,
        after: None,
        limit,
    }
}
