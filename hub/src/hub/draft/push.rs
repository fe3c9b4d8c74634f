//! What a decision sends to those outside who are told of a task's events.

use crate::event::{EventBody, Subject};
use crate::hub::Hub;
use crate::outbox::OutboxEntry;
use crate::ports::Op;
use crate::task::{Push, Task};
use interzone_protocol::vocab::{DeliveryId, Json, TaskId, Timestamp};
use serde::Serialize;

impl Push {
    /// Whether it wants an event. Growing text and status lines are for those who watch; a push gets
    /// them only if it names them.
    pub(super) fn wants(&self, body: &EventBody) -> bool {
        if self.events.is_empty() {
            !matches!(body, EventBody::Text { .. } | EventBody::Status { .. })
        } else {
            self.events.iter().any(|name| name == body.name())
        }
    }

    /// Under which key an event of a task goes out to it.
    pub(in crate::hub) fn key(&self, task: &TaskId, seq: u64) -> String {
        format!("{task}/{}/{seq}", self.id)
    }
}

pub(super) fn new_pushes(ops: &[Op]) -> Vec<Push> {
    let pushes = ops.iter().filter_map(|op| match op {
        Op::PutPush(push) => Some((**push).clone()),
        _ => None,
    });
    pushes.collect()
}

/// What a push carries: the event and the task's state at that moment, so that every attempt says
/// the same.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PushPayload<'a> {
    push: &'a Json,
    push_id: &'a str,
    task_id: &'a str,
    state: &'static str,
    seq: u64,
    at: Timestamp,
    event: &'a EventBody,
}

pub(super) fn push_entry(
    hub: &Hub,
    push: &Push,
    task: &Task,
    seq: u64,
    (at, now): (Timestamp, Timestamp),
    event: &EventBody,
) -> Option<OutboxEntry> {
    let payload = Json::of(&PushPayload {
        push: &push.target,
        push_id: push.id.as_str(),
        task_id: task.id.as_str(),
        state: task.state.name(),
        seq,
        at,
        event,
    });
    Some(OutboxEntry {
        id: DeliveryId::new(hub.new_id(at)).ok()?,
        channel: push.channel.clone(),
        key: push.key(&task.id, seq),
        // Ids of pushes are the callers' own: two tasks may have the same.
        group: Some(format!("{}/{}", task.id, push.id)),
        owner: push.owner.clone(),
        subject: Some(Subject::Task(task.id.clone())),
        payload: payload.ok()?,
        created_at: at,
        due_at: now,
        attempt: 0,
        error: None,
    })
}
