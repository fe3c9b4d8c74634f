//! Decodes watch events from notifications.

use super::WatchEvent;
use crate::error::InvalidResponse;
use interzone_jsonrpc::{Message, Notification, Parsed, Policy, parse};
use interzone_protocol::acp::{
    Method, StreamChunk, StreamStatus, TaskEvent, TaskNotification, TaskObject, artifact_from_json,
    message_from_json,
};
use interzone_protocol::vocab::{StreamState, TaskState};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Interzone notifications, which are not part of ACP.
const TEXT_METHOD: &str = "interzone.task.text";
const STATUS_LINE_METHOD: &str = "interzone.task.status";
const STREAM_STATE_METHOD: &str = "interzone.stream.state";

#[derive(Deserialize)]
struct TextParams {
    run: u64,
    offset: u64,
    delta: String,
}

#[derive(Deserialize)]
struct StatusParams {
    text: String,
}

#[derive(Deserialize)]
struct StateParams {
    status: StreamStatus,
    #[serde(default)]
    reason: Option<String>,
}

/// Decodes the data of an event.
pub(super) fn decode_event(data: &[u8]) -> Result<WatchEvent, InvalidResponse> {
    match parse(data, &Policy::STANDARD) {
        Parsed::One(Ok(Message::Notification(notification))) => Ok(decode_notification(
            &notification,
        )
        .unwrap_or_else(|| WatchEvent::Other {
            method: notification.method().to_owned(),
            params: notification
                .params()
                .map(|params| params.clone().into_owned()),
        })),
        Parsed::One(Err(rejection)) => Err(InvalidResponse::Envelope(rejection.kind())),
        Parsed::One(Ok(_)) | Parsed::Batch(_) => Err(InvalidResponse::UnexpectedKind),
    }
}

fn decode_notification(notification: &Notification<'_>) -> Option<WatchEvent> {
    match notification.method() {
        TEXT_METHOD => {
            let TextParams { run, offset, delta } = decode_params(notification)?;
            Some(WatchEvent::Text { run, offset, delta })
        }
        STATUS_LINE_METHOD => decode_params::<StatusParams>(notification)
            .map(|status| WatchEvent::StatusLine(status.text)),
        STREAM_STATE_METHOD => {
            let StateParams { status, reason } = decode_params(notification)?;
            Some(WatchEvent::StreamState { status, reason })
        }
        name if name == Method::StreamChunk.name() => {
            decode_params::<StreamChunk>(notification).map(WatchEvent::Chunk)
        }
        name if name == Method::TaskNotification.name() => {
            decode_task_event(&decode_params(notification)?)
        }
        _ => None,
    }
}

fn decode_params<T: DeserializeOwned>(notification: &Notification<'_>) -> Option<T> {
    notification.decode_named().ok()
}

fn decode_task_event(notification: &TaskNotification) -> Option<WatchEvent> {
    let data = notification.data.as_ref()?;
    let task = || data.decode::<TaskObject>().ok();
    match notification.event {
        TaskEvent::StatusChange => task().map(WatchEvent::StatusChange),
        TaskEvent::Completed => task().map(WatchEvent::Completed),
        TaskEvent::Failed => task().map(WatchEvent::Failed),
        TaskEvent::NewMessage => message_from_json(data).ok().map(WatchEvent::Message),
        TaskEvent::NewArtifact => artifact_from_json(data).ok().map(WatchEvent::Artifact),
    }
}

/// Position of an event relative to the end of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finality {
    /// More events follow.
    Ongoing,
    /// The final state is known, and one more event follows.
    Ending,
    /// The last event.
    Final,
}

pub(super) fn finality_of(event: &WatchEvent) -> Finality {
    match event {
        WatchEvent::Completed(_) | WatchEvent::Failed(_) => Finality::Final,
        // The end of a task is sent as two events, unless it was canceled.
        WatchEvent::StatusChange(task) => match task.status.0 {
            TaskState::Completed | TaskState::Failed => Finality::Ending,
            state if state.is_terminal() => Finality::Final,
            _ => Finality::Ongoing,
        },
        WatchEvent::StreamState { status, .. } if status.0 == StreamState::Closed => {
            Finality::Final
        }
        _ => Finality::Ongoing,
    }
}

/// Returns true for events from the event log. One log entry may give two events, of which only the last has
/// the sequence number.
pub(super) fn is_logged(event: &WatchEvent) -> bool {
    !matches!(event, WatchEvent::Text { .. } | WatchEvent::StatusLine(_))
}
