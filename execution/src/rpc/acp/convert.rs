//! ACP's objects from the hub's, and back. No rule and no call lives here.

use super::members;
use crate::webhooks::Target;
use interzone_hub::{EventBody, Push, Stream, Task, TaskDetail};
use interzone_protocol::acp::{
    Status, StreamObject, StreamStatus, SubscriptionObject, TaskEvent, TaskObject,
};
use interzone_protocol::vocab::{
    Artifact, Message, Metadata, Part, Priority, StreamId, SubscriptionId, TaskId, TaskState,
    Timestamp,
};
use std::sync::LazyLock;
use url::Url;

/// The id of a task. One that could be nobody's answers as unknown.
pub(crate) fn task_id(text: &str) -> Option<TaskId> {
    TaskId::new(text).ok()
}

/// The id of a stream, likewise.
pub(crate) fn stream_id(text: &str) -> Option<StreamId> {
    StreamId::new(text).ok()
}

/// The id of a subscription, likewise.
pub(crate) fn subscription_id(text: &str) -> Option<SubscriptionId> {
    SubscriptionId::new(text).ok()
}

/// A task without what hangs on it.
pub(crate) fn head(task: &Task) -> TaskObject {
    TaskObject {
        task_id: task.id.as_str().to_owned(),
        status: Status(task.state),
        created_at: task.created_at,
        updated_at: Some(task.updated_at),
        assigned_agent: Some(task.agent.as_str().to_owned()),
        messages: None,
        artifacts: None,
        metadata: with_priority(task),
    }
}

/// What the caller keeps with a task, and how soon it is to be done. Most keep nothing, and then there are as many
/// such objects as priorities: they are put together once.
fn with_priority(task: &Task) -> Option<Metadata> {
    static ALONE: LazyLock<Vec<(Priority, Option<Metadata>)>> = LazyLock::new(|| {
        let alone = |priority: Priority| members::set(None, "priority", priority.name());
        let all = Priority::ALL.into_iter();
        all.map(|priority| (priority, alone(priority))).collect()
    });
    let Some(theirs) = &task.metadata else {
        let found = ALONE.iter().find(|(of, _)| *of == task.priority);
        return found.and_then(|(_, alone)| alone.clone());
    };
    members::set(Some(theirs), "priority", task.priority.name()).or_else(|| Some(theirs.clone()))
}

/// A task that was just begun with this message.
pub(crate) fn begun(task: &Task, message: Message) -> TaskObject {
    TaskObject {
        messages: Some(vec![stamped(message, task.created_at)]),
        artifacts: Some(Vec::new()),
        ..head(task)
    }
}

/// A task with what was asked for of what hangs on it.
pub(crate) fn detail(detail: TaskDetail, messages: bool, artifacts: bool) -> TaskObject {
    let TaskDetail {
        task,
        status,
        messages: mut said,
        artifacts: made,
    } = detail;
    // Why a task failed may be told by its state alone; in ACP there is only the history to tell it.
    if let Some(status) = status
        && !said
            .iter()
            .rev()
            .any(|message| says_the_same(message, &status))
    {
        said.push(stamped(status, task.finished_at.unwrap_or(task.updated_at)));
    }
    TaskObject {
        messages: messages.then(|| said.into_iter().map(discreet).collect()),
        artifacts: artifacts.then_some(made),
        ..head(&task)
    }
}

/// A task as an event left it: with what the event brought. All else that is said of it never changes,
/// so the object is the same whenever it is made.
pub(crate) fn as_of(
    task: &Task,
    state: TaskState,
    at: Timestamp,
    said: Option<Message>,
) -> TaskObject {
    TaskObject {
        status: Status(state),
        updated_at: Some(at),
        messages: said.map(|message| vec![stamped(message, at)]),
        ..head(task)
    }
}

/// A message that says when it was said.
pub(crate) fn stamped(message: Message, at: Timestamp) -> Message {
    let message = discreet(message);
    match message.timestamp() {
        Some(_) => message,
        None => message.with_timestamp(at),
    }
}

/// A message without the addresses of its attachments: whoever has one has the file.
fn discreet(message: Message) -> Message {
    let secret = |part: &Part| part.extra().get("fetch").is_some();
    if !message.parts().iter().any(secret) {
        return message;
    }
    let parts = message.parts().iter().cloned();
    let parts = parts.map(|part| part.without_extra("fetch")).collect();
    message.replace_parts(parts)
}

/// An artifact that says when it was made.
pub(crate) fn dated(artifact: Artifact, at: Timestamp) -> Artifact {
    match artifact.created_at() {
        Some(_) => artifact,
        None => artifact.with_created_at(at),
    }
}

fn says_the_same(one: &Message, other: &Message) -> bool {
    one.role() == other.role() && one.parts() == other.parts() && one.agent_id() == other.agent_id()
}

/// A stream, with the addresses where it is watched beside what the caller attached.
pub(crate) fn stream(stream: &Stream, public_url: &Url) -> StreamObject {
    let watch = |scheme: Option<&str>, end: &str| {
        let base = public_url.as_str().trim_end_matches('/');
        let base = match scheme {
            Some(scheme) => format!("{scheme}{}", base.trim_start_matches("http")),
            None => base.to_owned(),
        };
        format!("{base}/streams/{}{end}", stream.id)
    };
    let metadata = members::add(stream.metadata.as_ref(), "events", &watch(None, "/events"));
    let metadata = members::add(metadata.as_ref(), "websocket", &watch(Some("ws"), ""));
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

/// A subscription to a task's events.
pub(crate) fn subscription(push: &Push, target: Target) -> SubscriptionObject {
    SubscriptionObject {
        subscription_id: push.id.as_str().to_owned(),
        task_id: push.task_id.as_str().to_owned(),
        callback_url: target.url,
        events: target.events,
        created_at: Some(push.created_at),
        active: Some(true),
    }
}

/// The events that a subscription wants, each once; the usual ones if it does not say.
pub(crate) fn wanted(events: Option<Vec<TaskEvent>>) -> Vec<TaskEvent> {
    let mut wanted = Vec::new();
    for event in events.unwrap_or_default() {
        if !wanted.contains(&event) {
            wanted.push(event);
        }
    }
    if wanted.is_empty() {
        wanted.extend(TaskEvent::DEFAULT);
    }
    wanted
}

/// The hub's names for events that ACP's are made of.
pub(crate) fn hub_events(events: &[TaskEvent]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for event in events {
        let name = match event {
            TaskEvent::StatusChange | TaskEvent::Completed | TaskEvent::Failed => "state",
            TaskEvent::NewMessage => "message",
            TaskEvent::NewArtifact => "artifact",
        };
        if names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// What an event of a task is called in ACP: the end of a task is a change of its status, too.
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
        // Growing text, status lines and streams have no event in ACP.
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
