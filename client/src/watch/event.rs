//! What an event says, read from the notification it carries.

use super::Watched;
use crate::error::AnswerFault;
use interzone_jsonrpc::{Message, Notification, Parsed, Policy, parse};
use interzone_protocol::acp::{
    Method, StreamChunk, StreamStatus, TaskEvent, TaskNotification, TaskObject,
};
use interzone_protocol::vocab::{StreamState, TaskState};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Our own notifications, which ACP does not have.
const TEXT: &str = "interzone.task.text";
const STATUS_LINE: &str = "interzone.task.status";
const STREAM_STATE: &str = "interzone.stream.state";

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

/// Reads the data of an event.
pub(super) fn read(data: &[u8]) -> Result<Watched, AnswerFault> {
    match parse(data, &Policy::STANDARD) {
        Parsed::One(Ok(Message::Notification(note))) => {
            Ok(known(&note).unwrap_or_else(|| Watched::Other {
                method: note.method().to_owned(),
                params: note.params().map(|params| params.clone().into_owned()),
            }))
        }
        Parsed::One(Err(rejection)) => Err(AnswerFault::Envelope(rejection.problem())),
        Parsed::One(Ok(_)) | Parsed::Batch(_) => Err(AnswerFault::Kind),
    }
}

fn known(note: &Notification<'_>) -> Option<Watched> {
    match note.method() {
        TEXT => {
            let TextParams { run, offset, delta } = params(note)?;
            Some(Watched::Text { run, offset, delta })
        }
        STATUS_LINE => params::<StatusParams>(note).map(|status| Watched::StatusLine(status.text)),
        STREAM_STATE => {
            let StateParams { status, reason } = params(note)?;
            Some(Watched::StreamState { status, reason })
        }
        name if name == Method::StreamChunk.name() => {
            params::<StreamChunk>(note).map(Watched::Chunk)
        }
        name if name == Method::TaskNotification.name() => task(&params(note)?),
        _ => None,
    }
}

fn params<T: DeserializeOwned>(note: &Notification<'_>) -> Option<T> {
    note.decode_named().ok()
}

fn task(note: &TaskNotification) -> Option<Watched> {
    let data = note.data.as_ref()?;
    let task = || data.decode::<TaskObject>().ok();
    match note.event {
        TaskEvent::StatusChange => task().map(Watched::StatusChange),
        TaskEvent::Completed => task().map(Watched::Completed),
        TaskEvent::Failed => task().map(Watched::Failed),
        TaskEvent::NewMessage => data.decode().ok().map(Watched::Message),
        TaskEvent::NewArtifact => data.decode().ok().map(Watched::Artifact),
    }
}

/// How near the end an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// More will come.
    Going,
    /// The end is known, and one more event tells it.
    Ending,
    /// Nothing more will come.
    Over,
}

pub(super) fn stage(event: &Watched) -> Stage {
    match event {
        Watched::Completed(_) | Watched::Failed(_) => Stage::Over,
        // The end of a task is told twice, unless it was called off.
        Watched::StatusChange(task) => match task.status.0 {
            TaskState::Completed | TaskState::Failed => Stage::Ending,
            state if state.is_terminal() => Stage::Over,
            _ => Stage::Going,
        },
        Watched::StreamState { status, .. } if status.0 == StreamState::Closed => Stage::Over,
        _ => Stage::Going,
    }
}

/// Whether the event is one of two that one entry of the log gives, of which the last alone
/// carries the number.
pub(super) fn is_logged(event: &Watched) -> bool {
    !matches!(event, Watched::Text { .. } | Watched::StatusLine(_))
}
