//! Conversion between ACP's objects and the hub's.

use super::json_object;
use crate::webhooks::WebhookTarget;
use interzone_hub::{EventBody, PushSubscription, Stream, Task, TaskDetail};
use interzone_protocol::acp::{
    StreamObject, StreamStatus, SubscriptionObject, TaskEvent, TaskObject, TaskStatus,
};
use interzone_protocol::vocab::{
    Artifact, Message, Metadata, Part, Priority, StreamId, SubscriptionId, TaskId, TaskState,
    Timestamp,
};
use std::sync::LazyLock;
use url::Url;

/// Parses a task id. Callers report an invalid one as unknown.
pub(crate) fn task_id(text: &str) -> Option<TaskId> {
    TaskId::new(text).ok()
}

/// Parses a stream id.
pub(crate) fn stream_id(text: &str) -> Option<StreamId> {
    StreamId::new(text).ok()
}

/// Parses a subscription id.
pub(crate) fn subscription_id(text: &str) -> Option<SubscriptionId> {
    SubscriptionId::new(text).ok()
}

/// Converts a task without its messages and artifacts.
pub(crate) fn task_summary(task: &Task) -> TaskObject {
    TaskObject {
        task_id: task.id.as_str().to_owned(),
        status: TaskStatus(task.state),
        created_at: task.created_at,
        updated_at: Some(task.updated_at),
        assigned_agent: Some(task.agent.as_str().to_owned()),
        messages: None,
        artifacts: None,
        metadata: metadata_with_priority(task),
    }
}

/// Returns the caller's metadata with the priority added. Most tasks have no metadata, so the objects with the
/// priority alone are built once.
fn metadata_with_priority(task: &Task) -> Option<Metadata> {
    static PRIORITY_ONLY: LazyLock<Vec<(Priority, Option<Metadata>)>> = LazyLock::new(|| {
        let priority_only =
            |priority: Priority| json_object::set_field(None, "priority", priority.name());
        let all = Priority::ALL.into_iter();
        all.map(|priority| (priority, priority_only(priority)))
            .collect()
    });
    let Some(metadata) = &task.metadata else {
        let found = PRIORITY_ONLY
            .iter()
            .find(|(priority, _)| *priority == task.priority);
        return found.and_then(|(_, metadata)| metadata.clone());
    };
    json_object::set_field(Some(metadata), "priority", task.priority.name())
        .or_else(|| Some(metadata.clone()))
}

/// Converts a task that was just created with this message.
pub(crate) fn task_created(task: &Task, message: Message) -> TaskObject {
    TaskObject {
        messages: Some(vec![with_timestamp(message, task.created_at)]),
        artifacts: Some(Vec::new()),
        ..task_summary(task)
    }
}

/// Converts a task with its messages and artifacts, as requested.
pub(crate) fn task_detail(
    detail: TaskDetail,
    include_messages: bool,
    include_artifacts: bool,
) -> TaskObject {
    let TaskDetail {
        task,
        status_message: status,
        messages: mut history,
        artifacts: task_artifacts,
    } = detail;
    // A failure message may only be in the task's status; ACP only has the history to show it.
    if let Some(status) = status
        && !history
            .iter()
            .rev()
            .any(|message| has_same_content(message, &status))
    {
        history.push(with_timestamp(
            status,
            task.finished_at.unwrap_or(task.updated_at),
        ));
    }
    TaskObject {
        messages: include_messages.then(|| history.into_iter().map(without_fetch_urls).collect()),
        artifacts: include_artifacts.then_some(task_artifacts),
        ..task_summary(&task)
    }
}

/// Converts a task as of an event, with the message of the event. The other fields never change, so the object
/// is the same whenever it is built.
pub(crate) fn task_as_of(
    task: &Task,
    state: TaskState,
    at: Timestamp,
    message: Option<Message>,
) -> TaskObject {
    TaskObject {
        status: TaskStatus(state),
        updated_at: Some(at),
        messages: message.map(|message| vec![with_timestamp(message, at)]),
        ..task_summary(task)
    }
}

/// Sets the timestamp of a message if it has none.
pub(crate) fn with_timestamp(message: Message, at: Timestamp) -> Message {
    let message = without_fetch_urls(message);
    match message.timestamp() {
        Some(_) => message,
        None => message.with_timestamp(at),
    }
}

/// Removes the download URLs of attachments: a URL gives access to the file.
fn without_fetch_urls(message: Message) -> Message {
    let has_fetch_url = |part: &Part| part.extra().get("fetch").is_some();
    if !message.parts().iter().any(has_fetch_url) {
        return message;
    }
    let parts = message.parts().iter().cloned();
    let parts = parts.map(|part| part.without_extra("fetch")).collect();
    message.replace_parts(parts)
}

/// Sets the creation time of an artifact if it has none.
pub(crate) fn with_created_at(artifact: Artifact, at: Timestamp) -> Artifact {
    match artifact.created_at() {
        Some(_) => artifact,
        None => artifact.with_created_at(at),
    }
}

fn has_same_content(one: &Message, other: &Message) -> bool {
    one.role() == other.role() && one.parts() == other.parts() && one.agent_id() == other.agent_id()
}

/// Converts a stream, with its watch URLs added to the caller's metadata.
pub(crate) fn stream(stream: &Stream, public_url: &Url) -> StreamObject {
    let watch_url = |scheme: Option<&str>, suffix: &str| {
        let base = public_url.as_str().trim_end_matches('/');
        let base = match scheme {
            Some(scheme) => format!("{scheme}{}", base.trim_start_matches("http")),
            None => base.to_owned(),
        };
        format!("{base}/streams/{}{suffix}", stream.id)
    };
    let metadata = json_object::add_field(
        stream.metadata.as_ref(),
        "events",
        &watch_url(None, "/events"),
    );
    let metadata =
        json_object::add_field(metadata.as_ref(), "websocket", &watch_url(Some("ws"), ""));
    let participants = if stream.participants.is_empty() {
        vec![stream.owner.as_str().to_owned()]
    } else {
        stream.participants.clone()
    };
    StreamObject {
        stream_id: stream.id.as_str().to_owned(),
        status: StreamStatus(stream.state),
        participants,
        created_at: Some(stream.created_at),
        closed_at: stream.closed_at,
        metadata: metadata.or_else(|| stream.metadata.clone()),
    }
}

/// Converts a subscription.
pub(crate) fn subscription(push: &PushSubscription, target: WebhookTarget) -> SubscriptionObject {
    SubscriptionObject {
        subscription_id: push.id.as_str().to_owned(),
        task_id: push.task_id.as_str().to_owned(),
        callback_url: target.url,
        events: target.events,
        created_at: Some(push.created_at),
        active: Some(true),
    }
}

/// Returns the requested events without duplicates; the default ones if none are requested.
pub(crate) fn requested_events(events: Option<Vec<TaskEvent>>) -> Vec<TaskEvent> {
    let mut requested = Vec::new();
    for event in events.unwrap_or_default() {
        if !requested.contains(&event) {
            requested.push(event);
        }
    }
    if requested.is_empty() {
        requested.extend(TaskEvent::DEFAULT);
    }
    requested
}

/// Returns the hub's event names for these ACP events.
pub(crate) fn hub_events(events: &[TaskEvent]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for event in events {
        let name = match event {
            TaskEvent::StatusChange | TaskEvent::Completed | TaskEvent::Failed => "state",
            TaskEvent::NewMessage => "message",
            TaskEvent::NewArtifact => "artifact",
        };
        if names.iter().all(|listed| listed != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the ACP events of a task event. The end of a task is also a status change.
pub(crate) fn acp_events(body: &EventBody) -> &'static [TaskEvent] {
    match body {
        EventBody::Created { .. } => &[TaskEvent::StatusChange],
        EventBody::State { to, .. } => match to {
            TaskState::Completed => &[TaskEvent::StatusChange, TaskEvent::Completed],
            TaskState::Failed | TaskState::Rejected => {
                &[TaskEvent::StatusChange, TaskEvent::Failed]
            }
            TaskState::Submitted
            | TaskState::Working
            | TaskState::InputRequired
            | TaskState::AuthRequired
            | TaskState::Canceled => &[TaskEvent::StatusChange],
        },
        EventBody::Message { .. } => &[TaskEvent::NewMessage],
        EventBody::Artifact { .. } => &[TaskEvent::NewArtifact],
        // Text deltas, status lines and stream events have no ACP event.
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
