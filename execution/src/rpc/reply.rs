//! Reply of a call: one JSON result, or a stream of messages that every transport can send.

use super::body::{ResponseBody, SplicedText};
use super::call_summary::CallSummary;
use super::context::CallContext;
use super::{AuthenticatedCaller, dialect::MethodInfo};
use crate::state::ExecutionState;
use async_trait::async_trait;
use interzone_edge::listener::Peer;
use interzone_edge::request_context::CorrelationId;
use interzone_jsonrpc::{Request, RequestId, ResponseWriter};
use serde::Serialize;
use std::sync::Arc;
use tokio::time::Instant;

/// Reply of a call.
pub(crate) enum CallReply {
    Result(Box<dyn CallResult>),
    Stream(Box<dyn CallStream>),
}

impl CallReply {
    /// Creates a result that serde writes.
    pub(crate) fn json(value: impl Serialize + Send + 'static) -> Self {
        Self::Result(Box::new(SerializedResult(value)))
    }
}

/// Result of a call, written when the response is.
pub(crate) trait CallResult: Send {
    /// Writes it as the result of a request.
    fn write_to(
        &self,
        writer: &mut ResponseWriter,
        request: &Request<'_>,
    ) -> Result<(), serde_json::Error>;

    /// Returns its JSON if it is cached and was validated before.
    fn cached_json(&self) -> Option<&str> {
        None
    }

    /// Texts that are spliced in when the body is sent.
    fn spliced(&self) -> &[SplicedText] {
        &[]
    }
}

struct SerializedResult<T>(T);

impl<T: Serialize + Send> CallResult for SerializedResult<T> {
    fn write_to(
        &self,
        writer: &mut ResponseWriter,
        request: &Request<'_>,
    ) -> Result<(), serde_json::Error> {
        writer.result(request, &self.0)
    }
}

/// Messages that answer one call. It is polled when its connection can take more, and has no task of its own.
#[async_trait]
pub(crate) trait CallStream: Send {
    /// Framing of its messages as server-sent events.
    fn framing(&self) -> SseFraming;

    /// Waits for the next message; `None` if the stream has ended. Cancel safe: it may be dropped while waiting and
    /// called again.
    async fn next(&mut self, zone: &ExecutionState) -> Option<StreamMessage>;

    /// Ends the stream early, because the zone shuts down or the token is no longer valid. Returns the last message,
    /// if the dialect has one.
    fn interrupt(&mut self) -> Option<StreamMessage>;

    /// Returns the action for a message for which no response memory is available.
    fn replace_unsendable(&mut self, is_last: bool) -> UnsendableMessage;
}

/// What to do about a message that cannot be sent.
pub(crate) enum UnsendableMessage {
    /// Continue without it: a later message has the same content.
    Skip,
    /// Send this small message, and end.
    EndWith(ResponseBody),
    /// End.
    End,
}

/// Message of a stream.
pub(crate) struct StreamMessage {
    /// A whole JSON-RPC message.
    pub(crate) body: ResponseBody,
    /// Position to resume after it, if the stream can be resumed.
    pub(crate) id: Option<u64>,
    /// Outcome of the call, if this is the last message.
    pub(crate) outcome: Option<StreamOutcome>,
}

/// Outcome of a streaming call, for audit and metrics.
#[derive(Clone, Copy)]
pub(crate) struct StreamOutcome {
    pub(crate) label: &'static str,
    pub(crate) code: Option<i32>,
}

/// How a dialect frames a message as a server-sent event. Its JSON is always one `data:` line.
#[derive(Clone, Copy)]
pub(crate) struct SseFraming {
    /// Event name, if it is sent.
    pub(crate) event: Option<&'static str>,
}

impl SseFraming {
    /// Returns the text before the JSON of a message.
    pub(crate) fn prefix(self, id: Option<u64>) -> String {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        let event = self.event.map(|event| format!("event: {event}\n"));
        format!("{id}{}data: ", event.unwrap_or_default())
    }

    /// Text after the JSON of a message.
    pub(crate) const SUFFIX: &'static str = "\n\n";
}

/// A stream that replies to a call, recorded when it ends.
pub(crate) struct RecordedStream {
    stream: Box<dyn CallStream>,
    pub(crate) caller: AuthenticatedCaller,
    pub(crate) peer: Option<Arc<Peer>>,
    method: MethodInfo,
    id: Option<RequestId<'static>>,
    subject: Option<Box<str>>,
    correlation: CorrelationId,
    started: Instant,
    is_recorded: bool,
}

impl RecordedStream {
    pub(super) fn new(
        cx: &CallContext<'_>,
        method: MethodInfo,
        stream: Box<dyn CallStream>,
    ) -> Self {
        Self {
            stream,
            caller: cx.authenticated.clone(),
            peer: cx.meta.peer.clone(),
            method,
            id: cx.id.map(|id| id.clone().into_owned()),
            subject: cx.subject.get().cloned(),
            correlation: cx.correlation().clone(),
            started: Instant::now(),
            is_recorded: false,
        }
    }

    pub(crate) fn framing(&self) -> SseFraming {
        self.stream.framing()
    }

    /// Waits for the next message. Cancel safe.
    pub(crate) async fn next(&mut self, zone: &ExecutionState) -> Option<StreamMessage> {
        let message = self.stream.next(zone).await;
        self.record_end(zone, message.as_ref());
        message
    }

    /// Ends the stream early. Returns its last message, if there is one.
    pub(crate) fn interrupt(&mut self, zone: &ExecutionState) -> Option<StreamMessage> {
        let message = self.stream.interrupt();
        self.record_end(zone, message.as_ref());
        message
    }

    pub(crate) fn replace_unsendable(&mut self, is_last: bool) -> UnsendableMessage {
        self.stream.replace_unsendable(is_last)
    }

    /// Records the call if it has ended: with its last message, or without one.
    fn record_end(&mut self, zone: &ExecutionState, message: Option<&StreamMessage>) {
        let closed = StreamOutcome {
            label: "closed",
            code: None,
        };
        let outcome = message.map_or(Some(closed), |message| message.outcome);
        let Some(outcome) = outcome.filter(|_| !self.is_recorded) else {
            return;
        };
        self.is_recorded = true;
        CallSummary {
            identity: &self.caller.identity,
            method: self.method.name,
            id: self.id.as_ref(),
            subject: self.subject.as_deref(),
            outcome: outcome.label,
            code: outcome.code,
            duration: self.started.elapsed(),
            correlation: &self.correlation,
            peer: self.peer.as_deref(),
            log_message: self.method.log_message,
        }
        .emit(zone);
    }
}
