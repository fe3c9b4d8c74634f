//! The way back: what an agent does about a task that was asked on a stream becomes chunks of that
//! stream, each exactly once and in order. An answer is any number of pieces and then one last.

use super::ask::Destination;
use super::{chunk_of, next_stream};
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::hub::{Hub, ROUNDS, contended};
use crate::outbox::OutboxEntry;
use crate::ports::{ClaimKey, Op, StoreError};
use interzone_protocol::vocab::{
    AgentId, Message, PrincipalId, Role, StreamState, TaskId, TaskState,
};
use serde::Deserialize;
use std::time::Duration;

mod rest;

/// How long it is remembered that an entry was carried: longer than the outbox keeps one that may
/// come again.
const REMEMBERED: Duration = Duration::from_secs(60 * 24 * 3_600);

/// What stands between a piece of an answer and something that does not go on from it.
const BREAK: &str = "\n\n";

/// What stands where an answer was broken off and is begun anew.
const BEGUN_ANEW: &str = "\n\n(The agent was interrupted and begins again.)\n\n";

/// What is read of the log at first, when looking back; then four times as much each time.
const LOOK_BACK: u64 = 4;

/// The part of a push that is carried to a stream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Carried {
    push: Destination,
    task_id: TaskId,
    seq: u64,
    event: EventBody,
}

/// A chunk to be.
#[derive(Debug, PartialEq)]
struct Piece {
    message: Message,
    last: bool,
}

impl Piece {
    fn text(text: &str, last: bool) -> Self {
        let message = Message::agent_text(text);
        Self { message, last }
    }
}

impl Hub {
    /// Carries an entry of [`STREAM_CHANNEL`](crate::STREAM_CHANNEL) to its stream: an event of a task
    /// becomes what the agent says there. However often the same entry is carried, it is said once. If
    /// the stream is closed or gone, there is nothing to do. A stream that is paused takes answers to
    /// what was asked before.
    ///
    /// # Errors
    /// The entry is not one of that channel, or the store did not do it.
    pub async fn carry_to_stream(&self, entry: &OutboxEntry) -> Result<(), HubError> {
        let carried: Carried = entry.payload.decode().map_err(|_| HubError::Invalid {
            field: "payload",
            reason: "it is no event of a task that was asked on a stream",
        })?;
        let Destination { stream: id, agent } = &carried.push;
        let from = speaker(agent)?;
        let pieces = self
            .pieces(carried.event, &carried.task_id, carried.seq)
            .await?;
        if pieces.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let Some(mut stream) = self.store().stream(id).await? else {
                return Ok(());
            };
            if stream.state == StreamState::Closed {
                return Ok(());
            }
            let now = self.now();
            stream.updated_at = now.max(stream.updated_at);
            let mut ops = vec![Op::Claim(ClaimKey {
                key: format!("{}/{}", crate::STREAM_CHANNEL, entry.id),
                value: String::new(),
                expires_at: now.after(REMEMBERED),
            })];
            let (mut bodies, mut blobs) = (Vec::new(), Vec::new());
            for piece in &pieces {
                let message = piece.message.clone();
                let message = message
                    .with_agent_id(agent.clone())
                    .with_task_id(carried.task_id.clone());
                let (body, more) = chunk_of(&stream, &from, message, piece.last);
                bodies.push(body);
                blobs.extend(more);
            }
            let (said, signals) = next_stream(&mut stream, blobs, bodies);
            ops.extend(said);
            match self.commit(stream.updated_at, None, ops, signals).await {
                // It was said before.
                Ok(_) | Err(StoreError::Claimed { .. }) => return Ok(()),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// What an event says on the stream.
    async fn pieces(
        &self,
        event: EventBody,
        task: &TaskId,
        seq: u64,
    ) -> Result<Vec<Piece>, HubError> {
        match event {
            EventBody::Text { run, offset, delta } => {
                let before = self.last_text(task, seq).await?;
                Ok(grown(before, run, offset, &delta))
            }
            EventBody::Artifact { artifact, .. } => {
                let artifact = self.unpack_one(artifact).await?;
                let message = Message::new(Role::Agent, artifact.parts().to_vec());
                let piece = message.map(|message| Piece {
                    message,
                    last: false,
                });
                Ok(piece.into_iter().collect())
            }
            EventBody::Message { message, .. } if message.without_large().role() == Role::Agent => {
                let message = self.unpack_one(message).await?;
                let heard = self.heard(task, seq).await?;
                Ok(match rest::after(&message, &heard) {
                    Some(message) => vec![Piece {
                        message,
                        last: true,
                    }],
                    None => apart(&heard, message),
                })
            }
            EventBody::State { to, message, .. } if to.is_terminal() || to.is_interrupted() => {
                let said = match message {
                    Some(message) => Some(self.unpack_one(message).await?),
                    None => None,
                };
                let said = said.filter(|message| message.role() == Role::Agent);
                if self.has_answered(task, seq, to, said.as_ref()).await? {
                    return Ok(Vec::new());
                }
                let message = said.unwrap_or_else(|| Message::agent_text(words_for(to)));
                if to == TaskState::Completed {
                    return Ok(vec![Piece {
                        message,
                        last: true,
                    }]);
                }
                Ok(apart(&self.heard(task, seq).await?, message))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether the agent's message, which is in the log right before a state that it leads to, has
    /// completed the answer.
    async fn has_answered(
        &self,
        task: &TaskId,
        seq: u64,
        to: TaskState,
        said: Option<&Message>,
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
                let message = message.without_large();
                message.role() == Role::Agent
                    && said.is_none_or(|said| said.text() == message.text())
            }
            _ => false,
        }))
    }

    /// The text that grew last in the answer that an event belongs to: its run, and how long it was
    /// then.
    async fn last_text(&self, task: &TaskId, seq: u64) -> Result<Option<(u64, u64)>, HubError> {
        let mut last = None;
        let see = |body: &EventBody| {
            if let EventBody::Text { run, offset, delta } = body {
                last = Some((*run, offset + u64::try_from(delta.len()).unwrap_or(0)));
            }
            last.is_none()
        };
        self.look_back(task, seq, see).await?;
        Ok(last)
    }

    /// All text that the run which spoke last has said before an event, and did not complete.
    async fn heard(&self, task: &TaskId, seq: u64) -> Result<String, HubError> {
        let mut speaking = None;
        let mut deltas = Vec::new();
        let see = |body: &EventBody| {
            if let EventBody::Text { run, offset, delta } = body {
                if *speaking.get_or_insert(*run) != *run {
                    return false;
                }
                deltas.push((*offset, delta.clone()));
            }
            true
        };
        self.look_back(task, seq, see).await?;
        let mut heard = String::new();
        for (offset, delta) in deltas.into_iter().rev() {
            // What was written twice stands at the same place.
            let known = u64::try_from(heard.len()).unwrap_or(u64::MAX);
            let skip = usize::try_from(known.saturating_sub(offset)).unwrap_or(usize::MAX);
            heard.push_str(delta.get(skip..).unwrap_or_default());
        }
        Ok(heard)
    }

    /// Shows the task's log before an event, latest first, back to where the agent last completed
    /// something, or until enough is seen.
    async fn look_back(
        &self,
        task: &TaskId,
        seq: u64,
        mut see: impl FnMut(&EventBody) -> bool,
    ) -> Result<(), HubError> {
        let subject = Subject::Task(task.clone());
        let (mut end, mut step) = (seq, LOOK_BACK);
        while end > 1 {
            let after = (end - 1).saturating_sub(step);
            let limit = usize::try_from(end - 1 - after).unwrap_or(usize::MAX);
            let events = self.store().events(&subject, after, limit).await?;
            // Where retention has removed some, those behind come in their place.
            for event in events.iter().rev().filter(|event| event.seq < end) {
                if completes(&event.body) || !see(&event.body) {
                    return Ok(());
                }
            }
            end = after + 1;
            step = (step * 4).min(256);
        }
        Ok(())
    }
}

/// Who speaks when an agent does. No caller has such a name by accident, and nothing is decided by it.
fn speaker(agent: &AgentId) -> Result<PrincipalId, HubError> {
    let named = PrincipalId::new(format!("agent:{agent}"));
    // An id may be as long as a principal's.
    named
        .or_else(|_| PrincipalId::new(agent.as_str()))
        .map_err(|_| HubError::Invalid {
            field: "agent",
            reason: "the agent's id cannot be a principal's",
        })
}

/// What of a delta is new, after what the log had before it.
fn grown(before: Option<(u64, u64)>, run: u64, offset: u64, delta: &str) -> Vec<Piece> {
    let Some((last_run, length)) = before else {
        return vec![Piece::text(delta, false)];
    };
    if last_run != run {
        return vec![Piece::text(BEGUN_ANEW, false), Piece::text(delta, false)];
    }
    let known = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
    let new = delta.get(known..).filter(|new| !new.is_empty());
    new.map(|new| Piece::text(new, false)).into_iter().collect()
}

/// A message that does not go on from what was heard, set apart from it.
fn apart(heard: &str, message: Message) -> Vec<Piece> {
    let gap = (!heard.is_empty()).then(|| Piece::text(BREAK, false));
    let last = Piece {
        message,
        last: true,
    };
    gap.into_iter().chain([last]).collect()
}

/// Whether an event ends an answer.
fn completes(body: &EventBody) -> bool {
    match body {
        EventBody::Message { message, .. } => message.without_large().role() == Role::Agent,
        EventBody::State { to, .. } => to.is_terminal() || to.is_interrupted(),
        _ => false,
    }
}

/// What is said of a state when the agent said nothing.
const fn words_for(state: TaskState) -> &'static str {
    match state {
        TaskState::Canceled => "This was called off.",
        TaskState::Rejected => "The agent will not do this.",
        TaskState::Failed => "The agent could not finish this.",
        TaskState::InputRequired => "The agent needs an answer first.",
        TaskState::AuthRequired => "Somebody must sign in first.",
        // Everything was said in pieces.
        _ => "",
    }
}

#[cfg(test)]
mod tests;
