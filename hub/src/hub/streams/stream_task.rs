//! Stream messages that an agent is to answer: the chunk and the agent's task are written in one commit.

use super::{advance_stream, build_chunk};
use crate::access::Caller;
use crate::agent::Route;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::push_subscriptions::NewPushSubscription;
use crate::hub::task_change::TaskChange;
use crate::hub::tasks::{adopt_message, internal_id};
use crate::hub::{Hub, MAX_CAS_RETRIES, map_conflict};
use crate::ports::StoreError;
use crate::stream::Stream;
use crate::task::Task;
use interzone_protocol::vocab::{
    AgentId, ContextId, Message, Priority, StreamId, TaskId, TaskState, VerbatimJson,
};
use serde::{Deserialize, Serialize};

/// The outbox channel that delivers an agent's answer to the stream of the request ([`Hub::deliver_to_stream`]).
pub const STREAM_CHANNEL: &str = "stream";

/// The task events that become chunks.
const DELIVERED_EVENTS: [&str; 4] = ["text", "message", "artifact", "state"];

/// Target of an answer's push subscription: the stream, and the answering agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReplyTarget {
    pub(super) stream: StreamId,
    pub(super) agent: AgentId,
}

impl Hub {
    /// Posts a message on a stream and creates a task for an agent to answer it, in one commit. The task belongs to the
    /// caller, and its context is the stream. The answer is delivered through the outbox, by [`STREAM_CHANNEL`].
    /// Returns the stream after the change.
    ///
    /// # Errors
    /// The caller may not post on the stream, the stream is not active, or no agent is available.
    pub async fn send_stream_message(
        &self,
        caller: &Caller,
        id: &StreamId,
        message: Message,
        route: Route,
    ) -> Result<Stream, HubError> {
        self.inner.limits.check_message(&message)?;
        for _ in 0..MAX_CAS_RETRIES {
            let mut stream = self.active_stream(caller, id).await?;
            let agent = self.agents().route(&route)?;
            let message = adopt_message(caller, &agent, message.clone());
            let change = self.answer_task_change(caller, &stream, agent, message.clone())?;
            let (_, task_ops, task_signals) = change.finish_new(self);
            let (chunk, blobs) = build_chunk(&stream, &caller.principal, message, true);
            let (mut ops, mut signals) = advance_stream(&mut stream, blobs, vec![chunk]);
            ops.extend(task_ops);
            signals.extend(task_signals);
            match self.commit(stream.updated_at, None, ops, signals).await {
                Ok(_) => return Ok(stream),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(map_conflict(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// Builds the task that answers a stream message.
    fn answer_task_change(
        &self,
        caller: &Caller,
        stream: &Stream,
        agent: AgentId,
        message: Message,
    ) -> Result<TaskChange, HubError> {
        let at = stream.updated_at;
        let target = ReplyTarget {
            stream: stream.id.clone(),
            agent: agent.clone(),
        };
        let target = VerbatimJson::from_value(&target).map_err(|_| HubError::Invalid {
            field: "stream",
            reason: "the stream id cannot be serialized",
        })?;
        let task = Task {
            id: internal_id(TaskId::new(self.new_id(at)))?,
            context_id: internal_id(ContextId::new(stream.id.as_str()))?,
            owner: caller.principal.clone(),
            agent,
            state: TaskState::Submitted,
            priority: Priority::default(),
            metadata: None,
            status_message: None,
            created_at: at,
            status_at: at,
            updated_at: at,
            finished_at: None,
            revision: 0,
            seq: 0,
            generation: 0,
            is_direct: false,
            message_count: 0,
            artifact_count: 0,
            push_count: 0,
        };
        // The stream may be ahead of a clock that was set back; due times follow the clock.
        let mut change = TaskChange::create_with_time(task, at, self.now());
        let (_, message) = change.append_message(message);
        change.push_event(EventBody::Created { message });
        let push = NewPushSubscription {
            id: None,
            channel: STREAM_CHANNEL.to_owned(),
            events: DELIVERED_EVENTS.map(str::to_owned).to_vec(),
            format: STREAM_CHANNEL.to_owned(),
            target,
            secrets: None,
        };
        self.attach_push_subscription(caller, &mut change, push)?;
        change.enqueue_work(self);
        Ok(change)
    }
}
