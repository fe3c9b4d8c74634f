//! Events of the hub's log as ACP's notifications: the same for those who watch by SSE or WebSocket
//! and for webhooks, and written once for all of them.
//!
//! How a notification travels is not known here, nor who may have it.

mod shared;
mod sse;

pub(crate) use shared::{Shared, Told, Untold};

use crate::rpc::acp::convert;
use bytes::Bytes;
use interzone_hub::{Caller, Event, EventBody, Hub, HubError, ReadMemory, Subject, Task};
use interzone_jsonrpc::{MethodName, Notification, RawJson};
use interzone_protocol::acp::{
    Method, StreamChunk, StreamMove, StreamStatus, TaskEvent, TaskLine, TaskNotification,
    TaskObject, TaskText, watched,
};
use interzone_protocol::vocab::{Artifact, Json, Message, TaskId, TaskState, Timestamp};
use serde::Serialize;

/// One notification, written.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    /// The method.
    pub(crate) method: &'static str,
    /// What it is to a subscription, if a subscription can want it.
    pub(crate) event: Option<TaskEvent>,
    /// The notification as JSON.
    pub(crate) json: Bytes,
    /// Its params as JSON.
    pub(crate) params: Bytes,
}

/// The notifications that an event is, with memory for what is large reserved before it is read. One of a task or
/// stream that is gone is none.
pub(crate) async fn notices(
    hub: &Hub,
    event: &Event,
    memory: Option<&dyn ReadMemory>,
) -> Result<Vec<Notice>, HubError> {
    match &event.subject {
        Subject::Task(id) => of_task(hub, id, event, memory).await,
        Subject::Stream(id) => {
            let notice = match &event.body {
                EventBody::Chunk { chunk, last, .. } => {
                    let chunk = hub.unpack_one_within(chunk.clone(), memory).await?;
                    let chunk = StreamChunk {
                        stream_id: id.to_string(),
                        chunk: convert::stamped(chunk, event.at),
                        // The log's first entry is that the stream began; what is said counts from one.
                        sequence: event.seq.saturating_sub(1),
                        is_last: Some(*last),
                    };
                    written(Method::StreamChunk.name(), None, &chunk)
                }
                EventBody::StreamState { to, reason, .. } => written(
                    watched::STREAM_STATE,
                    None,
                    &StreamMove {
                        stream_id: id.to_string(),
                        status: StreamStatus(*to),
                        reason: reason.clone(),
                    },
                ),
                _ => None,
            };
            Ok(notice.into_iter().collect())
        }
    }
}

/// A piece of an answer, ahead of its event or from the log.
pub(crate) fn text(id: &TaskId, run: u64, offset: u64, delta: &str) -> Option<Notice> {
    let text = TaskText {
        task_id: id.to_string(),
        run,
        offset,
        delta: delta.to_owned(),
    };
    written(watched::TASK_TEXT, None, &text)
}

async fn of_task(
    hub: &Hub,
    id: &TaskId,
    event: &Event,
    memory: Option<&dyn ReadMemory>,
) -> Result<Vec<Notice>, HubError> {
    let data = match &event.body {
        EventBody::Text { run, offset, delta } => {
            return Ok(text(id, *run, *offset, delta).into_iter().collect());
        }
        EventBody::Status { text } => {
            let line = TaskLine {
                task_id: id.to_string(),
                text: text.clone(),
            };
            return Ok(written(watched::TASK_STATUS, None, &line)
                .into_iter()
                .collect());
        }
        EventBody::Message { message, .. } => {
            let message: Message = hub.unpack_one_within(message.clone(), memory).await?;
            Json::of(&convert::stamped(message, event.at))
        }
        EventBody::Artifact { artifact, .. } => {
            let artifact: Artifact = hub.unpack_one_within(artifact.clone(), memory).await?;
            Json::of(&convert::dated(artifact, event.at))
        }
        EventBody::Created { .. } | EventBody::State { .. } => match hub.store().task(id).await? {
            Some(task) => Json::of(&task_at(hub, &task, event, memory).await?),
            None => return Ok(Vec::new()),
        },
        _ => return Ok(Vec::new()),
    };
    let Ok(data) = data else {
        return Ok(Vec::new());
    };
    let notify = |kind: &TaskEvent| notification(id, *kind, event.at, data.clone());
    Ok(convert::acp_events(&event.body)
        .iter()
        .filter_map(notify)
        .collect())
}

fn notification(id: &TaskId, kind: TaskEvent, at: Timestamp, data: Json) -> Option<Notice> {
    let params = TaskNotification {
        task_id: id.to_string(),
        event: kind,
        timestamp: at,
        data: Some(data),
    };
    written(Method::TaskNotification.name(), Some(kind), &params)
}

/// The task as an event left it. At its end that is all of it: from then on nothing changes.
async fn task_at(
    hub: &Hub,
    task: &Task,
    event: &Event,
    memory: Option<&dyn ReadMemory>,
) -> Result<TaskObject, HubError> {
    let (state, said) = match &event.body {
        EventBody::State { to, .. } if to.is_terminal() => {
            // Who may have this was decided before; it is read as its owner would.
            let owner = Caller::new(task.owner.clone());
            let detail = hub.task_detail_within(&owner, &task.id, usize::MAX, true, memory);
            return Ok(convert::detail(detail.await?, true, true));
        }
        EventBody::State { to, message, .. } => (*to, message.clone()),
        EventBody::Created { message } => (TaskState::Submitted, Some(message.clone())),
        _ => (task.state, None),
    };
    let said = match said {
        Some(message) => Some(hub.unpack_one_within(message, memory).await?),
        None => None,
    };
    Ok(convert::as_of(task, state, event.at, said))
}

fn written<T: Serialize>(
    method: &'static str,
    event: Option<TaskEvent>,
    params: &T,
) -> Option<Notice> {
    let params = RawJson::of(params).ok()?;
    let mut json = Vec::new();
    Notification::new(MethodName::new(method).ok()?)
        .with_params(params.borrowed())
        .write_to(&mut json);
    Some(Notice {
        method,
        event,
        json: json.into(),
        params: Bytes::from(params.as_str().to_owned()),
    })
}

#[cfg(test)]
mod tests;
