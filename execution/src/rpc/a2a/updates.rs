//! Conversion of a task's log to the updates of its streams.

use super::convert;
use crate::memory::MemoryAccount;
use crate::state::ExecutionState;
use interzone_hub::{Event, EventBody, HubError, Task, TaskDetail};
use interzone_protocol::a2a::{
    A2aArtifact, A2aMessage, A2aRole, A2aTaskState, A2aTaskStatus, PartContent, StreamResponse,
    TaskArtifactUpdateEvent, TaskStatusUpdateEvent,
};
use interzone_protocol::vocab::{Message, Role, TaskState, Timestamp};

/// Maximum bytes of the text of a run that is shown in the task that opens a stream.
const MAX_STREAMED_BYTES: usize = 4 * 1024 * 1024;

/// Converts the events of one task, in the order of its log.
pub(super) struct UpdateConverter {
    task: Task,
    /// Indexes of the client's messages, by which turns are numbered.
    client_messages: Vec<u32>,
    /// The agent's last message, with its index.
    last_message: Option<(u32, Message)>,
    /// Text of the current run, as long as the events are skipped.
    streamed: Option<StreamedText>,
}

struct StreamedText {
    run: u64,
    turn: usize,
    text: String,
}

impl UpdateConverter {
    /// Creates a converter for the events of this task.
    pub(super) fn new(detail: &TaskDetail) -> Self {
        let client_messages = convert::indexed_messages(detail)
            .filter(|(_, message)| !message.is_agent_output())
            .map(|(index, _)| index);
        Self {
            task: detail.task.clone(),
            client_messages: client_messages.collect(),
            last_message: None,
            streamed: None,
        }
    }

    pub(super) fn task_id(&self) -> &str {
        self.task.id.as_str()
    }

    /// Reads an event whose effect the client already knows, except for the text of the current run.
    pub(super) fn skip(&mut self, event: &Event) {
        match &event.body {
            EventBody::Text {
                run,
                answers,
                delta,
                ..
            } => {
                let turn = self.turn(*answers);
                let is_current = |streamed: &StreamedText| streamed.run == *run;
                if !self.streamed.as_ref().is_some_and(is_current) {
                    self.streamed = Some(StreamedText {
                        run: *run,
                        turn,
                        text: String::new(),
                    });
                }
                if let Some(streamed) = &mut self.streamed
                    && streamed.text.len().saturating_add(delta.len()) <= MAX_STREAMED_BYTES
                {
                    streamed.text.push_str(delta);
                }
            }
            EventBody::Message { message, .. } if message.inline().answers().is_some() => {
                self.streamed = None;
            }
            _ => {}
        }
    }

    /// Returns the text of a run that has not ended, as part of the task that opens the stream.
    pub(super) fn take_streamed_text(&mut self) -> Option<A2aArtifact> {
        let streamed = self.streamed.take()?;
        Some(text_artifact(streamed.turn, streamed.text))
    }

    /// Converts an event; `None` if A2A does not show it. Cancel safe.
    pub(super) async fn convert(
        &mut self,
        zone: &ExecutionState,
        event: &Event,
        is_final: bool,
        memory: &MemoryAccount,
    ) -> Result<Option<StreamResponse>, HubError> {
        if event.seq <= self.task.seq {
            return Ok(None);
        }
        Ok(match &event.body {
            EventBody::State { to, message, .. } => {
                let shown = message.clone().filter(|_| convert::has_status_message(*to));
                let message = match shown {
                    Some(message) => Some(zone.hub.restore_within(message, Some(memory)).await?),
                    None => None,
                };
                let message = message.map(|message| self.status_message(&message));
                Some(self.status_update(*to, message, event.at, is_final))
            }
            EventBody::Status { text } => {
                let id = format!("{}-s{}", self.task.id, event.seq);
                let message = Message::agent_text(text);
                let message = convert::message_of(&self.task, &message, Role::Agent, id);
                Some(self.status_update(TaskState::Working, Some(message), event.at, false))
            }
            EventBody::Message { index, message, .. } => {
                let message = zone
                    .hub
                    .restore_within(message.clone(), Some(memory))
                    .await?;
                if !message.is_agent_output() {
                    if self.client_messages.last().is_none_or(|last| last < index) {
                        self.client_messages.push(*index);
                    }
                    return Ok(None);
                }
                // An answer whose text was streamed has no generation.
                let answered = message.answers().filter(|_| event.generation.is_some());
                let update = answered.map(|answered| {
                    let answer = convert::answer(&message, self.turn(Some(answered)));
                    self.artifact_update(answer, false, true)
                });
                self.last_message = Some((*index, message));
                update
            }
            EventBody::Artifact {
                artifact,
                append,
                last,
            } => {
                let artifact = zone
                    .hub
                    .restore_within(artifact.clone(), Some(memory))
                    .await?;
                Some(self.artifact_update(convert::artifact(&artifact), *append, *last))
            }
            EventBody::Text {
                answers,
                offset,
                delta,
                ..
            } if !delta.is_empty() => {
                let artifact = text_artifact(self.turn(*answers), delta.clone());
                Some(self.artifact_update(artifact, *offset > 0, false))
            }
            _ => None,
        })
    }

    /// Number of the client's message with this index; of the last one if the index is not known.
    fn turn(&self, index: Option<u32>) -> usize {
        let index = index.unwrap_or(u32::MAX);
        let messages = self.client_messages.iter();
        messages.filter(|message| **message <= index).count()
    }

    /// Converts the message of a state, which may also be the agent's last message.
    fn status_message(&self, message: &Message) -> A2aMessage {
        let last = self.last_message.as_ref();
        let last = last.filter(|(_, last)| last.parts() == message.parts());
        let id = match (last, message.message_id()) {
            (_, Some(id)) => id.to_string(),
            (Some((index, _)), None) => format!("{}-{index}", self.task.id),
            (None, None) => format!("{}-status", self.task.id),
        };
        A2aMessage {
            role: A2aRole::Agent,
            ..convert::message_of(&self.task, message, Role::Agent, id)
        }
    }

    fn status_update(
        &self,
        state: TaskState,
        message: Option<A2aMessage>,
        at: Timestamp,
        is_final: bool,
    ) -> StreamResponse {
        StreamResponse::StatusUpdate(Box::new(TaskStatusUpdateEvent {
            task_id: self.task.id.to_string(),
            context_id: self.task.context_id.to_string(),
            status: A2aTaskStatus {
                state: A2aTaskState(Some(state)),
                message,
                timestamp: Some(at),
            },
            is_final,
            metadata: None,
        }))
    }

    fn artifact_update(
        &self,
        artifact: A2aArtifact,
        append: bool,
        last_chunk: bool,
    ) -> StreamResponse {
        StreamResponse::ArtifactUpdate(Box::new(TaskArtifactUpdateEvent {
            task_id: self.task.id.to_string(),
            context_id: self.task.context_id.to_string(),
            artifact,
            append,
            last_chunk,
            metadata: None,
        }))
    }
}

/// Artifact with a text of an answer.
fn text_artifact(turn: usize, text: String) -> A2aArtifact {
    A2aArtifact {
        artifact_id: convert::answer_id(turn),
        name: None,
        description: None,
        parts: vec![PartContent::Text(text).into()],
        metadata: None,
        extensions: Vec::new(),
    }
}
