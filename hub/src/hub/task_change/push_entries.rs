//! Outbox entries for push subscriptions.

use crate::event::{EventBody, Subject};
use crate::hub::Hub;
use crate::outbox::OutboxEntry;
use crate::ports::Op;
use crate::task::{PushSubscription, Task};
use interzone_protocol::vocab::{DeliveryId, TaskId, Timestamp, VerbatimJson};
use serde::Serialize;

impl PushSubscription {
    /// Returns true if the event is to be delivered. Text deltas and status lines are meant for watchers; a push
    /// subscription gets them only if it names them.
    pub(super) fn wants_event(&self, body: &EventBody) -> bool {
        if self.events.is_empty() {
            !matches!(body, EventBody::Text { .. } | EventBody::Status { .. })
        } else {
            self.events.iter().any(|name| name == body.name())
        }
    }

    /// Outbox key for an event of a task.
    pub(in crate::hub) fn outbox_key(&self, task: &TaskId, seq: u64) -> String {
        format!("{task}/{}/{seq}", self.id)
    }
}

pub(super) fn new_push_subscriptions(ops: &[Op]) -> Vec<PushSubscription> {
    let added = ops.iter().filter_map(|op| match op {
        Op::PutPushSubscription(push) => Some((**push).clone()),
        _ => None,
    });
    added.collect()
}

/// Outbox payload: the event and the task's state at that time, so that every attempt sends the same.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PushPayload<'a> {
    push: &'a VerbatimJson,
    format: &'a str,
    push_id: &'a str,
    task_id: &'a str,
    state: &'static str,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    at: Timestamp,
    event: &'a EventBody,
}

/// An event that a push subscription wants.
pub(super) struct PushedEvent<'a> {
    pub(super) seq: u64,
    pub(super) generation: Option<u64>,
    pub(super) body: &'a EventBody,
}

pub(super) fn push_outbox_entry(
    hub: &Hub,
    push: &PushSubscription,
    task: &Task,
    event: PushedEvent<'_>,
    (at, now): (Timestamp, Timestamp),
) -> Option<OutboxEntry> {
    let payload = VerbatimJson::from_value(&PushPayload {
        push: &push.target,
        format: &push.format,
        push_id: push.id.as_str(),
        task_id: task.id.as_str(),
        state: task.state.name(),
        seq: event.seq,
        generation: event.generation,
        at,
        event: event.body,
    });
    Some(OutboxEntry {
        id: DeliveryId::new(hub.new_id(at)).ok()?,
        channel: push.channel.clone(),
        key: push.outbox_key(&task.id, event.seq),
        // Push subscription ids are chosen by callers: two tasks may use the same.
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
