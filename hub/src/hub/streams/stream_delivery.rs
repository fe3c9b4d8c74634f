//! Delivery of answers to streams: task events become chunks of the stream, each exactly once and in order. An answer
//! is any number of partial chunks followed by one last chunk.

use super::stream_task::ReplyTarget;
use super::{advance_stream, build_chunk};
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::hub::{Hub, MAX_CAS_RETRIES, map_conflict};
use crate::outbox::OutboxEntry;
use crate::ports::{IdempotencyClaim, Op, StoreError};
use interzone_protocol::vocab::{
    AgentId, Message, PrincipalId, Role, StreamState, TaskId, TaskState,
};
use serde::Deserialize;
use std::time::Duration;

mod remainder;

/// Retention of the idempotency keys of delivered entries: longer than the outbox keeps an entry that may be
/// redelivered.
const DEDUP_RETENTION: Duration = Duration::from_secs(60 * 24 * 3_600);

/// Separator between streamed text and a message that does not continue it.
const PARAGRAPH_BREAK: &str = "\n\n";

/// Notice in the stream that an interrupted answer starts from the beginning.
const RESTART_NOTICE: &str = "\n\n(The agent was interrupted and starts again.)\n\n";

/// Number of events read first when scanning the log backwards; each further step reads four times as many.
const INITIAL_LOOKBACK: u64 = 4;

/// The fields of a push payload that are needed for the delivery to a stream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamPushPayload {
    push: ReplyTarget,
    task_id: TaskId,
    seq: u64,
    event: EventBody,
}

/// A chunk to write.
#[derive(Debug, PartialEq)]
struct ChunkDraft {
    message: Message,
    last: bool,
}

impl ChunkDraft {
    fn text(text: &str, last: bool) -> Self {
        let message = Message::agent_text(text);
        Self { message, last }
    }
}

impl Hub {
    /// Delivers an entry of [`STREAM_CHANNEL`](crate::STREAM_CHANNEL) to its stream: a task event becomes a chunk of
    /// the agent. Redeliveries are deduplicated. If the stream is closed or removed, there is nothing to do. A paused
    /// stream accepts answers to earlier requests.
    ///
    /// # Errors
    /// The entry is not one of that channel, or the store operation failed.
    pub async fn deliver_to_stream(&self, entry: &OutboxEntry) -> Result<(), HubError> {
        let payload: StreamPushPayload = entry.payload.decode().map_err(|_| HubError::Invalid {
            field: "payload",
            reason: "not an event of a task that was created on a stream",
        })?;
        let ReplyTarget { stream: id, agent } = &payload.push;
        let author = agent_principal(agent)?;
        let chunks = self
            .event_chunks(payload.event, &payload.task_id, payload.seq)
            .await?;
        if chunks.is_empty() {
            return Ok(());
        }
        for _ in 0..MAX_CAS_RETRIES {
            let Some(mut stream) = self.store().stream(id).await? else {
                return Ok(());
            };
            if stream.state == StreamState::Closed {
                return Ok(());
            }
            let now = self.now();
            stream.updated_at = now.max(stream.updated_at);
            let mut ops = vec![Op::ClaimKey(IdempotencyClaim {
                key: format!("{}/{}", crate::STREAM_CHANNEL, entry.id),
                value: String::new(),
                expires_at: now.plus(DEDUP_RETENTION),
            })];
            let (mut bodies, mut blobs) = (Vec::new(), Vec::new());
            for chunk in &chunks {
                let message = chunk.message.clone();
                let message = message
                    .with_agent_id(agent.clone())
                    .with_task_id(payload.task_id.clone());
                let (body, blob_ops) = build_chunk(&stream, &author, message, chunk.last);
                bodies.push(body);
                blobs.extend(blob_ops);
            }
            let (stream_ops, signals) = advance_stream(&mut stream, blobs, bodies);
            ops.extend(stream_ops);
            match self.commit(stream.updated_at, None, ops, signals).await {
                // It was delivered before.
                Ok(_) | Err(StoreError::KeyTaken { .. }) => return Ok(()),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(map_conflict(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// Converts an event to chunks.
    async fn event_chunks(
        &self,
        event: EventBody,
        task: &TaskId,
        seq: u64,
    ) -> Result<Vec<ChunkDraft>, HubError> {
        match event {
            EventBody::Text {
                run, offset, delta, ..
            } => {
                let position = self.last_text_position(task, seq).await?;
                Ok(new_text_chunks(position, run, offset, &delta))
            }
            EventBody::Artifact { artifact, .. } => {
                let artifact = self.restore(artifact).await?;
                let message = Message::new(Role::Agent, artifact.parts().to_vec());
                let chunk = message.map(|message| ChunkDraft {
                    message,
                    last: false,
                });
                Ok(chunk.into_iter().collect())
            }
            EventBody::Message { message, .. } if message.inline().is_agent_output() => {
                let message = self.restore(message).await?;
                let streamed = self.streamed_text(task, seq).await?;
                Ok(
                    match remainder::strip_streamed_prefix(&message, &streamed) {
                        Some(message) => vec![ChunkDraft {
                            message,
                            last: true,
                        }],
                        None => separate_message(&streamed, message),
                    },
                )
            }
            EventBody::State { to, message, .. } if to.is_terminal() || to.is_interrupted() => {
                let status = match message {
                    Some(message) => Some(self.restore(message).await?),
                    None => None,
                };
                let status = status.filter(Message::is_agent_output);
                if self.has_answered(task, seq, to, status.as_ref()).await? {
                    return Ok(Vec::new());
                }
                let message =
                    status.unwrap_or_else(|| Message::agent_text(default_status_text(to)));
                if to == TaskState::Completed {
                    return Ok(vec![ChunkDraft {
                        message,
                        last: true,
                    }]);
                }
                Ok(separate_message(
                    &self.streamed_text(task, seq).await?,
                    message,
                ))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns true if the agent's message right before a state change in the log has already completed the answer.
    async fn has_answered(
        &self,
        task: &TaskId,
        seq: u64,
        to: TaskState,
        status: Option<&Message>,
    ) -> Result<bool, HubError> {
        if to == TaskState::Canceled {
            return Ok(false);
        }
        let subject = Subject::Task(task.clone());
        let before = self
            .store()
            .events(&subject, seq.saturating_sub(2), 1)
            .await?;
        Ok(before.first().is_some_and(|event| match &event.body {
            EventBody::Message { message, .. } if event.seq + 1 == seq => {
                let message = message.inline();
                message.is_agent_output()
                    && status.is_none_or(|status| status.text() == message.text())
            }
            _ => false,
        }))
    }

    /// Returns the run and end offset of the last text of the answer that an event belongs to.
    async fn last_text_position(
        &self,
        task: &TaskId,
        seq: u64,
    ) -> Result<Option<(u64, u64)>, HubError> {
        let mut last = None;
        let visit = |body: &EventBody| {
            if let EventBody::Text {
                run, offset, delta, ..
            } = body
            {
                last = Some((*run, offset + u64::try_from(delta.len()).unwrap_or(0)));
            }
            last.is_none()
        };
        self.scan_log_back(task, seq, visit).await?;
        Ok(last)
    }

    /// Returns the incomplete answer text that the last run streamed before an event.
    async fn streamed_text(&self, task: &TaskId, seq: u64) -> Result<String, HubError> {
        let mut last_run = None;
        let mut deltas = Vec::new();
        let visit = |body: &EventBody| {
            if let EventBody::Text {
                run, offset, delta, ..
            } = body
            {
                if *last_run.get_or_insert(*run) != *run {
                    return false;
                }
                deltas.push((*offset, delta.clone()));
            }
            true
        };
        self.scan_log_back(task, seq, visit).await?;
        let mut streamed = String::new();
        for (offset, delta) in deltas.into_iter().rev() {
            // Duplicate deltas have the same offset.
            let length = u64::try_from(streamed.len()).unwrap_or(u64::MAX);
            let skip = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
            streamed.push_str(delta.get(skip..).unwrap_or_default());
        }
        Ok(streamed)
    }

    /// Visits the task's log backwards from an event, to the last completed answer, or until `visit` returns false.
    async fn scan_log_back(
        &self,
        task: &TaskId,
        seq: u64,
        mut visit: impl FnMut(&EventBody) -> bool,
    ) -> Result<(), HubError> {
        let subject = Subject::Task(task.clone());
        let (mut end, mut step) = (seq, INITIAL_LOOKBACK);
        while end > 1 {
            let after = (end - 1).saturating_sub(step);
            let limit = usize::try_from(end - 1 - after).unwrap_or(usize::MAX);
            let events = self.store().events(&subject, after, limit).await?;
            // Where retention has removed events, later ones are returned instead.
            for event in events.iter().rev().filter(|event| event.seq < end) {
                if completes_answer(&event.body) || !visit(&event.body) {
                    return Ok(());
                }
            }
            end = after + 1;
            step = (step * 4).min(256);
        }
        Ok(())
    }
}

/// Principal under which an agent posts. Callers cannot have such an id by accident, and it grants nothing.
fn agent_principal(agent: &AgentId) -> Result<PrincipalId, HubError> {
    let prefixed = PrincipalId::new(format!("agent:{agent}"));
    // An agent id may be as long as a principal id, so the prefix may not fit.
    prefixed
        .or_else(|_| PrincipalId::new(agent.as_str()))
        .map_err(|_| HubError::Invalid {
            field: "agent",
            reason: "the agent id is not a valid principal id",
        })
}

/// Returns the part of a delta that was not streamed yet, given the position before it.
fn new_text_chunks(
    position: Option<(u64, u64)>,
    run: u64,
    offset: u64,
    delta: &str,
) -> Vec<ChunkDraft> {
    let Some((last_run, length)) = position else {
        return vec![ChunkDraft::text(delta, false)];
    };
    if last_run != run {
        return vec![
            ChunkDraft::text(RESTART_NOTICE, false),
            ChunkDraft::text(delta, false),
        ];
    }
    let skip = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
    let new = delta.get(skip..).filter(|new| !new.is_empty());
    new.map(|new| ChunkDraft::text(new, false))
        .into_iter()
        .collect()
}

/// Separates a message from streamed text that it does not continue.
fn separate_message(streamed: &str, message: Message) -> Vec<ChunkDraft> {
    let separator = (!streamed.is_empty()).then(|| ChunkDraft::text(PARAGRAPH_BREAK, false));
    let last = ChunkDraft {
        message,
        last: true,
    };
    separator.into_iter().chain([last]).collect()
}

/// Returns true if an event completes an answer.
fn completes_answer(body: &EventBody) -> bool {
    match body {
        EventBody::Message { message, .. } => message.inline().is_agent_output(),
        EventBody::State { to, .. } => to.is_terminal() || to.is_interrupted(),
        _ => false,
    }
}

/// Text for a state without a message of the agent.
const fn default_status_text(state: TaskState) -> &'static str {
    match state {
        TaskState::Canceled => "The task was canceled.",
        TaskState::Rejected => "The agent will not do this.",
        TaskState::Failed => "The agent could not finish this.",
        TaskState::InputRequired => "The agent needs your input first.",
        TaskState::AuthRequired => "Sign-in is required first.",
        // The whole answer was streamed.
        _ => "",
    }
}

#[cfg(test)]
mod tests;
