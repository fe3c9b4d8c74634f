//! Renders events of the hub's log as ACP notifications.

use super::convert;
use crate::notifications::{EventRenderer, RenderedNotification};
use async_trait::async_trait;
use interzone_hub::{Caller, Event, EventBody, Hub, HubError, ReadMemory, Subject, Task};
use interzone_protocol::acp::{
    Method, StreamChunk, StreamStateParams, StreamStatus, TaskEvent, TaskNotification, TaskObject,
    TaskStatusParams, TaskTextParams, artifact_to_json, extension_methods, message_to_json,
};
use interzone_protocol::vocab::{Artifact, Message, TaskId, TaskState, Timestamp, VerbatimJson};

/// Renderer of ACP.
pub(crate) struct AcpRenderer;

#[async_trait]
impl EventRenderer for AcpRenderer {
    async fn render_event(
        &self,
        hub: &Hub,
        event: &Event,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Vec<RenderedNotification>, HubError> {
        match &event.subject {
            Subject::Task(id) => render_task_event(hub, id, event, memory).await,
            Subject::Stream(id) => {
                let notice = match &event.body {
                    EventBody::Chunk { chunk, last, .. } => {
                        let chunk = hub.restore_within(chunk.clone(), memory).await?;
                        let chunk = StreamChunk {
                            stream_id: id.to_string(),
                            chunk: convert::with_timestamp(chunk, event.at),
                            // Sequence 1 of the log is the creation of the stream; chunks count from one.
                            sequence: event.seq.saturating_sub(1),
                            is_last: Some(*last),
                        };
                        RenderedNotification::new(Method::StreamChunk.name(), None, &chunk)
                    }
                    EventBody::StreamState { to, reason, .. } => RenderedNotification::new(
                        extension_methods::STREAM_STATE,
                        None,
                        &StreamStateParams {
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

    fn render_text_delta(
        &self,
        id: &TaskId,
        run: u64,
        offset: u64,
        delta: &str,
    ) -> Option<RenderedNotification> {
        text_delta(id, run, offset, delta)
    }
}

/// Renders a text delta, live or from the log.
fn text_delta(id: &TaskId, run: u64, offset: u64, delta: &str) -> Option<RenderedNotification> {
    let text = TaskTextParams {
        task_id: id.to_string(),
        run,
        offset,
        delta: delta.to_owned(),
    };
    RenderedNotification::new(extension_methods::TASK_TEXT, None, &text)
}

async fn render_task_event(
    hub: &Hub,
    id: &TaskId,
    event: &Event,
    memory: Option<&dyn ReadMemory>,
) -> Result<Vec<RenderedNotification>, HubError> {
    let data = match &event.body {
        EventBody::Text {
            run, offset, delta, ..
        } => {
            return Ok(text_delta(id, *run, *offset, delta).into_iter().collect());
        }
        EventBody::Status { text } => {
            let line = TaskStatusParams {
                task_id: id.to_string(),
                text: text.clone(),
            };
            return Ok(
                RenderedNotification::new(extension_methods::TASK_STATUS, None, &line)
                    .into_iter()
                    .collect(),
            );
        }
        EventBody::Message { message, .. } => {
            let message: Message = hub.restore_within(message.clone(), memory).await?;
            message_to_json(&convert::with_timestamp(message, event.at))
        }
        EventBody::Artifact { artifact, .. } => {
            let artifact: Artifact = hub.restore_within(artifact.clone(), memory).await?;
            artifact_to_json(&convert::with_created_at(artifact, event.at))
        }
        EventBody::Created { .. } | EventBody::State { .. } => match hub.store().task(id).await? {
            Some(task) => VerbatimJson::from_value(&task_as_of(hub, &task, event, memory).await?),
            None => return Ok(Vec::new()),
        },
        _ => return Ok(Vec::new()),
    };
    let Ok(data) = data else {
        return Ok(Vec::new());
    };
    let notify = |kind: &TaskEvent| task_notification(id, *kind, event.at, data.clone());
    Ok(convert::acp_events(&event.body)
        .iter()
        .filter_map(notify)
        .collect())
}

fn task_notification(
    id: &TaskId,
    kind: TaskEvent,
    at: Timestamp,
    data: VerbatimJson,
) -> Option<RenderedNotification> {
    let params = TaskNotification {
        task_id: id.to_string(),
        event: kind,
        timestamp: at,
        data: Some(data),
    };
    RenderedNotification::new(Method::TaskNotification.name(), Some(kind.name()), &params)
}

/// Returns the task as of an event. For a terminal event that is the complete task: it no longer changes.
async fn task_as_of(
    hub: &Hub,
    task: &Task,
    event: &Event,
    memory: Option<&dyn ReadMemory>,
) -> Result<TaskObject, HubError> {
    let (state, message) = match &event.body {
        EventBody::State { to, .. } if to.is_terminal() => {
            // Access was checked before; the task is read as its owner.
            let owner = Caller::new(task.owner.clone());
            let detail = hub.task_detail_within(&owner, &task.id, usize::MAX, true, memory);
            return Ok(convert::task_detail(detail.await?, true, true));
        }
        EventBody::State { to, message, .. } => (*to, message.clone()),
        EventBody::Created { message } => (TaskState::Submitted, Some(message.clone())),
        _ => (task.state, None),
    };
    let message = match message {
        Some(message) => Some(hub.restore_within(message, memory).await?),
        None => None,
    };
    Ok(convert::task_as_of(task, state, event.at, message))
}
