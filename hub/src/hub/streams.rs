//! Streams: start, post, pause, resume and end.

use super::tasks::internal_id;
use super::{Emission, Hub, MAX_CAS_RETRIES, SignalAudience, event_topic, map_conflict};
use crate::access::Caller;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::limits::Limits;
use crate::offload::Offloaded;
use crate::ports::{EventRow, Op, StoreError};
use crate::stream::Stream;
use crate::topic::{Signal, SignalBody};
use crate::transitions::can_stream_transition;
use interzone_protocol::vocab::{Message, Metadata, PrincipalId, SignalId, StreamId, StreamState};

mod stream_delivery;
mod stream_task;

pub use stream_task::STREAM_CHANNEL;

/// Maximum bytes of a participant's name: same as of a principal id.
const MAX_PARTICIPANT_BYTES: usize = 256;

/// A stream to create.
#[derive(Clone, Debug, Default)]
pub struct NewStream {
    /// Principals that may also post and watch.
    pub participants: Vec<String>,
    /// Metadata from the caller.
    pub metadata: Option<Metadata>,
}

impl Hub {
    /// Starts a stream.
    ///
    /// # Errors
    /// There are too many participants, or the metadata is too large.
    pub async fn start_stream(&self, caller: &Caller, new: NewStream) -> Result<Stream, HubError> {
        let limits = &self.inner.limits;
        Limits::check_count("participants", new.participants.len(), limits.participants)?;
        limits.check_metadata(new.metadata.as_ref())?;
        if new
            .participants
            .iter()
            .any(|name| name.len() > MAX_PARTICIPANT_BYTES)
        {
            return Err(HubError::TooLarge {
                what: "the name of a participant",
                limit: MAX_PARTICIPANT_BYTES,
            });
        }
        let now = self.now();
        let stream = Stream {
            id: internal_id(StreamId::new(self.new_id(now)))?,
            owner: caller.principal.clone(),
            participants: new.participants,
            state: StreamState::Active,
            metadata: new.metadata,
            created_at: now,
            updated_at: now,
            closed_at: None,
            revision: 0,
            seq: 0,
        };
        let body = EventBody::StreamState {
            from: None,
            to: StreamState::Active,
            reason: None,
        };
        self.write_stream(stream, Vec::new(), body)
            .await
            .map_err(map_conflict)
    }

    /// Returns a stream.
    ///
    /// # Errors
    /// There is no stream with this id that the caller may see.
    pub async fn stream(&self, caller: &Caller, id: &StreamId) -> Result<Stream, HubError> {
        let stream = self.store().stream(id).await?;
        caller.authorize_stream(stream.ok_or_else(|| HubError::StreamNotFound(id.clone()))?)
    }

    /// Posts a message, or a piece of one, on a stream; `last` completes it. Returns the stream after the change: its
    /// `seq` is the sequence number of the chunk.
    ///
    /// # Errors
    /// The caller may not post on the stream, or the stream is not active.
    pub async fn post_chunk(
        &self,
        caller: &Caller,
        id: &StreamId,
        message: Message,
        last: bool,
    ) -> Result<Stream, HubError> {
        self.inner.limits.check_message(&message)?;
        for _ in 0..MAX_CAS_RETRIES {
            let stream = self.active_stream(caller, id).await?;
            let (chunk, blobs) = build_chunk(&stream, &caller.principal, message.clone(), last);
            match self.write_stream(stream, blobs, chunk).await {
                Err(StoreError::Conflict) => {}
                written => return written.map_err(map_conflict),
            }
        }
        Err(HubError::Contended)
    }

    /// Returns an active stream with its `updated_at` set to now.
    async fn active_stream(&self, caller: &Caller, id: &StreamId) -> Result<Stream, HubError> {
        let mut stream = self.stream(caller, id).await?;
        let state = stream.state;
        if state != StreamState::Active {
            return Err(HubError::StreamNotActive {
                id: id.clone(),
                state,
            });
        }
        stream.updated_at = self.now().max(stream.updated_at);
        Ok(stream)
    }

    /// Changes the state of a stream: pauses, resumes or closes it.
    ///
    /// # Errors
    /// The stream is not the caller's, or the transition is not allowed.
    pub async fn set_stream_state(
        &self,
        caller: &Caller,
        id: &StreamId,
        to: StreamState,
        reason: Option<&str>,
    ) -> Result<Stream, HubError> {
        self.set_stream_state_if(caller, id, to, reason, |_| true)
            .await
    }

    /// Like [`Self::set_stream_state`], if the condition still holds.
    pub(super) async fn set_stream_state_if(
        &self,
        caller: &Caller,
        id: &StreamId,
        to: StreamState,
        reason: Option<&str>,
        condition: impl Fn(&Stream) -> bool,
    ) -> Result<Stream, HubError> {
        self.inner.limits.check_reason(reason)?;
        for _ in 0..MAX_CAS_RETRIES {
            let mut stream = self.stream(caller, id).await?;
            let from = stream.state;
            if !can_stream_transition(from, to) || !condition(&stream) {
                return Err(HubError::StreamNotActive {
                    id: id.clone(),
                    state: from,
                });
            }
            stream.updated_at = self.now().max(stream.updated_at);
            stream.state = to;
            stream.closed_at = (to == StreamState::Closed).then_some(stream.updated_at);
            let reason = reason.map(str::to_owned);
            let body = EventBody::StreamState {
                from: Some(from),
                to,
                reason,
            };
            match self.write_stream(stream, Vec::new(), body).await {
                Err(StoreError::Conflict) => {}
                written => return written.map_err(map_conflict),
            }
        }
        Err(HubError::Contended)
    }

    /// Writes a stream with one event.
    async fn write_stream(
        &self,
        mut stream: Stream,
        extra_ops: Vec<Op>,
        body: EventBody,
    ) -> Result<Stream, StoreError> {
        let (ops, signals) = advance_stream(&mut stream, extra_ops, vec![body]);
        self.commit(stream.updated_at, None, ops, signals).await?;
        Ok(stream)
    }
}

/// Builds a chunk event from a message, and the operations that store its blobs.
fn build_chunk(
    stream: &Stream,
    from: &PrincipalId,
    message: Message,
    last: bool,
) -> (EventBody, Vec<Op>) {
    let message = match message.timestamp() {
        Some(_) => message,
        None => message.with_timestamp(stream.updated_at),
    };
    let (chunk, blobs) = Offloaded::offload(message);
    let put_blob = |blob| Op::PutBlob {
        subject: Subject::Stream(stream.id.clone()),
        blob,
    };
    let body = EventBody::Chunk {
        from: from.clone(),
        chunk,
        last,
    };
    (body, blobs.into_iter().map(put_blob).collect())
}

/// Advances a stream by some events, and returns the operations and the signals to commit.
fn advance_stream(
    stream: &mut Stream,
    extra_ops: Vec<Op>,
    bodies: Vec<EventBody>,
) -> (Vec<Op>, Vec<Emission>) {
    let is_new = stream.revision == 0;
    let first_seq = stream.seq + 1;
    stream.revision += 1;
    stream.seq += u64::try_from(bodies.len()).unwrap_or(u64::MAX);
    let subject = Subject::Stream(stream.id.clone());
    let mut receivers = stream.participants.clone();
    receivers.push(stream.owner.to_string());
    let stored = Box::new(stream.clone());
    let stream_op = if is_new {
        Op::CreateStream(stored)
    } else {
        Op::UpdateStream(stored)
    };
    let mut ops = vec![stream_op];
    ops.extend(extra_ops);
    let mut signals = Vec::new();
    for (seq, body) in (first_seq..).zip(bodies) {
        let signal = event_topic(&subject, body.name())
            .zip(SignalId::new(format!("{}.{seq}", stream.id)).ok())
            .map(|(topic, id)| Signal {
                topic,
                id,
                publisher: stream.owner.clone(),
                at: stream.updated_at,
                body: SignalBody::Event(subject.clone(), seq),
            });
        let audience = SignalAudience::Only(receivers.clone());
        signals.extend(signal.map(|signal| Emission::Signal(signal, audience)));
        ops.push(Op::AppendEvent(EventRow {
            subject: subject.clone(),
            seq,
            generation: None,
            body,
        }));
    }
    (ops, signals)
}
