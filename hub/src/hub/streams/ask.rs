//! A message on a stream that an agent is to answer: the chunk that everybody sees, and the task for
//! the agent, are one commit.

use super::{chunk_of, next_stream};
use crate::access::Caller;
use crate::agent::Route;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::draft::Draft;
use crate::hub::pushes::NewPush;
use crate::hub::tasks::{made_id, not_the_agents};
use crate::hub::{Hub, ROUNDS, contended};
use crate::ports::StoreError;
use crate::stream::Stream;
use crate::task::Task;
use interzone_protocol::vocab::{
    AgentId, ContextId, Json, Message, Priority, StreamId, TaskId, TaskState,
};
use serde::{Deserialize, Serialize};

/// The outbox channel by which an agent's answer gets back to the stream that it was asked on
/// ([`Hub::carry_to_stream`]).
pub const STREAM_CHANNEL: &str = "stream";

/// The events of a task that become chunks.
const CARRIED: [&str; 4] = ["text", "message", "artifact", "state"];

/// Where an answer goes, and whose it is: what the push of such a task says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Destination {
    pub(super) stream: StreamId,
    pub(super) agent: AgentId,
}

impl Hub {
    /// Says something on a stream and asks an agent to answer it. The chunk and the agent's task are
    /// written together; the task is the caller's, and its context is the stream. The answer comes
    /// back through the outbox, by [`STREAM_CHANNEL`]. Answers the stream as it is then.
    ///
    /// # Errors
    /// The stream is not the caller's to speak on or takes nothing now, the caller speaks as the
    /// agent, or no agent is available.
    pub async fn ask_on_stream(
        &self,
        caller: &Caller,
        id: &StreamId,
        message: Message,
        route: Route,
    ) -> Result<Stream, HubError> {
        self.inner.limits.message(&message)?;
        not_the_agents(&message)?;
        for _ in 0..ROUNDS {
            let mut stream = self.active_stream(caller, id).await?;
            let agent = self.agents().route(&route)?;
            let draft = self.answer_draft(caller, &stream, agent, message.clone())?;
            let (_, task_ops, task_signals) = draft.finish_new(self);
            let (chunk, blobs) = chunk_of(&stream, &caller.principal, message.clone(), true);
            let (mut ops, mut signals) = next_stream(&mut stream, blobs, vec![chunk]);
            ops.extend(task_ops);
            signals.extend(task_signals);
            match self.commit(stream.updated_at, None, ops, signals).await {
                Ok(_) => return Ok(stream),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// The task that answers what was said on a stream.
    fn answer_draft(
        &self,
        caller: &Caller,
        stream: &Stream,
        agent: AgentId,
        message: Message,
    ) -> Result<Draft, HubError> {
        let at = stream.updated_at;
        let target = Destination {
            stream: stream.id.clone(),
            agent: agent.clone(),
        };
        let target = Json::of(&target).map_err(|_| HubError::Invalid {
            field: "stream",
            reason: "the stream's id cannot be written down",
        })?;
        let task = Task {
            id: made_id(TaskId::new(self.new_id(at)))?,
            context_id: made_id(ContextId::new(stream.id.as_str()))?,
            owner: caller.principal.clone(),
            agent,
            state: TaskState::Submitted,
            priority: Priority::default(),
            metadata: None,
            status: None,
            created_at: at,
            updated_at: at,
            finished_at: None,
            revision: 0,
            seq: 0,
            messages: 0,
            artifacts: 0,
            pushes: 0,
        };
        // The stream may be ahead of a clock that was set back; what is due is due by the clock.
        let mut draft = Draft::create_at(task, at, self.now());
        let (_, message) = draft.keep_message(message);
        draft.event(EventBody::Created { message });
        let push = NewPush {
            id: None,
            channel: STREAM_CHANNEL.to_owned(),
            events: CARRIED.map(str::to_owned).to_vec(),
            target,
        };
        self.draft_push(caller, &mut draft, push)?;
        draft.queue(self);
        Ok(draft)
    }
}
