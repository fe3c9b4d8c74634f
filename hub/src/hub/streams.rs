//! Streams: begin them, speak on them, end them.

use super::tasks::made_id;
use super::{Audience, Emitted, Hub, ROUNDS, contended, event_topic};
use crate::access::Caller;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::limits::Limits;
use crate::packed::Packed;
use crate::ports::{EventRow, Op, StoreError};
use crate::stream::Stream;
use crate::topic::{Signal, SignalBody};
use crate::transitions::stream_may_move;
use interzone_protocol::vocab::{Message, Metadata, PrincipalId, SignalId, StreamId, StreamState};

mod ask;
mod carry;

pub use ask::STREAM_CHANNEL;

/// The most bytes of a participant's name: as many as a principal's id has.
const LONGEST_NAME: usize = 256;

/// A stream to begin.
#[derive(Clone, Debug, Default)]
pub struct NewStream {
    /// Who else may speak and listen.
    pub participants: Vec<String>,
    /// What the caller attaches.
    pub metadata: Option<Metadata>,
}

impl Hub {
    /// Begins a stream.
    ///
    /// # Errors
    /// There are too many participants, or the metadata is too large.
    pub async fn start_stream(&self, caller: &Caller, new: NewStream) -> Result<Stream, HubError> {
        let limits = &self.inner.limits;
        Limits::count("participants", new.participants.len(), limits.participants)?;
        limits.metadata(new.metadata.as_ref())?;
        if new
            .participants
            .iter()
            .any(|name| name.len() > LONGEST_NAME)
        {
            return Err(HubError::TooLarge {
                what: "the name of a participant",
                limit: LONGEST_NAME,
            });
        }
        let now = self.now();
        let stream = Stream {
            id: made_id(StreamId::new(self.new_id(now)))?,
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
            .map_err(contended)
    }

    /// A stream.
    ///
    /// # Errors
    /// There is none with this id that the caller has to do with.
    pub async fn stream(&self, caller: &Caller, id: &StreamId) -> Result<Stream, HubError> {
        let found = self.store().stream(id).await?;
        caller.stream(found.ok_or_else(|| HubError::StreamNotFound(id.clone()))?)
    }

    /// Says something on a stream, or a piece of something; `last` completes it. Answers the stream
    /// as it is then: its `seq` is the number under which everybody sees what was said.
    ///
    /// # Errors
    /// The stream is not the caller's to speak on, or takes nothing now.
    pub async fn speak(
        &self,
        caller: &Caller,
        id: &StreamId,
        message: Message,
        last: bool,
    ) -> Result<Stream, HubError> {
        self.inner.limits.message(&message)?;
        for _ in 0..ROUNDS {
            let stream = self.active_stream(caller, id).await?;
            let (body, blobs) = chunk_of(&stream, &caller.principal, message.clone(), last);
            match self.write_stream(stream, blobs, body).await {
                Err(StoreError::Conflict) => {}
                written => return written.map_err(contended),
            }
        }
        Err(HubError::Contended)
    }

    /// A stream that takes messages, moved to the present.
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

    /// Moves a stream to another state: pauses it, resumes it, or ends it for good.
    ///
    /// # Errors
    /// The stream is not the caller's, or cannot move there from where it is.
    pub async fn move_stream(
        &self,
        caller: &Caller,
        id: &StreamId,
        to: StreamState,
        reason: Option<&str>,
    ) -> Result<Stream, HubError> {
        self.move_stream_if(caller, id, to, reason, |_| true).await
    }

    /// The same, if the reason for it still holds.
    pub(super) async fn move_stream_if(
        &self,
        caller: &Caller,
        id: &StreamId,
        to: StreamState,
        reason: Option<&str>,
        still: impl Fn(&Stream) -> bool,
    ) -> Result<Stream, HubError> {
        self.inner.limits.reason(reason)?;
        for _ in 0..ROUNDS {
            let mut stream = self.stream(caller, id).await?;
            let from = stream.state;
            if !stream_may_move(from, to) || !still(&stream) {
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
                written => return written.map_err(contended),
            }
        }
        Err(HubError::Contended)
    }

    /// Writes a stream as it is to be, with the one event that made it so.
    async fn write_stream(
        &self,
        mut stream: Stream,
        more: Vec<Op>,
        body: EventBody,
    ) -> Result<Stream, StoreError> {
        let (ops, signals) = next_stream(&mut stream, more, vec![body]);
        self.commit(stream.updated_at, None, ops, signals).await?;
        Ok(stream)
    }
}

/// A message as a chunk of a stream, and the blobs to keep for it.
fn chunk_of(
    stream: &Stream,
    from: &PrincipalId,
    message: Message,
    last: bool,
) -> (EventBody, Vec<Op>) {
    let message = match message.timestamp() {
        Some(_) => message,
        None => message.with_timestamp(stream.updated_at),
    };
    let (chunk, blobs) = Packed::pack(message);
    let keep = |blob| Op::PutBlob {
        subject: Subject::Stream(stream.id.clone()),
        blob,
    };
    let body = EventBody::Chunk {
        from: from.clone(),
        chunk,
        last,
    };
    (body, blobs.into_iter().map(keep).collect())
}

/// Moves a stream on by some events, and gives all that is written for it and who hears of it.
fn next_stream(
    stream: &mut Stream,
    more: Vec<Op>,
    bodies: Vec<EventBody>,
) -> (Vec<Op>, Vec<Emitted>) {
    let is_new = stream.revision == 0;
    let first = stream.seq + 1;
    stream.revision += 1;
    stream.seq += u64::try_from(bodies.len()).unwrap_or(u64::MAX);
    let subject = Subject::Stream(stream.id.clone());
    let mut heard_by = stream.participants.clone();
    heard_by.push(stream.owner.to_string());
    let head = Box::new(stream.clone());
    let head = if is_new {
        Op::CreateStream(head)
    } else {
        Op::UpdateStream(head)
    };
    let mut ops = vec![head];
    ops.extend(more);
    let mut signals = Vec::new();
    for (seq, body) in (first..).zip(bodies) {
        let signal = event_topic(&subject, body.name())
            .zip(SignalId::new(format!("{}.{seq}", stream.id)).ok())
            .map(|(topic, id)| Signal {
                topic,
                id,
                publisher: stream.owner.clone(),
                at: stream.updated_at,
                body: SignalBody::Event(subject.clone(), seq),
            });
        let audience = Audience::Only(heard_by.clone());
        signals.extend(signal.map(|signal| Emitted::Signal(signal, audience)));
        ops.push(Op::AppendEvent(EventRow {
            subject: subject.clone(),
            seq,
            body,
        }));
    }
    (ops, signals)
}
