//! Calls that reply with a stream: the response body is a stream of server-sent events. Each is one JSON-RPC message,
//! framed as its dialect wants it.
//!
//! Like a watcher it has no task of its own: it is polled when its connection can take more.

use super::open_watch::token_deadline;
use super::response::{hold_reservation, set_correlation, with_headers};
use crate::rpc::RequestMeta;
use crate::rpc::body::ResponseBody;
use crate::rpc::reply::{RecordedStream, SseFraming, StreamMessage, UnsendableMessage};
use crate::state::ExecutionState;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::body::{self, BodyError};
use interzone_edge::request_context::CorrelationId;
use interzone_edge::telemetry::GaugeGuard;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Idle time after which a keep-alive comment is sent.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
pub(super) fn sse_response(
    zone: &Arc<ExecutionState>,
    stream: RecordedStream,
    correlation: Option<&CorrelationId>,
    meta: &RequestMeta,
) -> Response {
    let body_state = CallStreamBody {
        open: zone.metrics.track_watcher("call"),
        expires_at: token_deadline(zone, stream.caller.identity.expires_at()),
        zone: Arc::clone(zone),
        stream: Some(stream),
        pending: VecDeque::new(),
    };
    let body = Body::from_stream(stream::unfold(body_state, |mut body_state| async {
        let chunk = body_state.next().await?;
        Some((Ok::<_, Infallible>(chunk), body_state))
    }));
    event_stream(body, correlation, meta)
}

/// Builds the response to a call that failed before its first event, for clients that accept events only.
pub(super) fn sse_error_response(
    framing: SseFraming,
    error: ResponseBody,
    correlation: Option<&CorrelationId>,
    meta: &RequestMeta,
) -> Response {
    let prefix = framing.prefix(None);
    let event = [
        prefix.as_bytes(),
        &error.concat(),
        SseFraming::SUFFIX.as_bytes(),
    ];
    event_stream(event.concat().into(), correlation, meta)
}

fn event_stream(body: Body, correlation: Option<&CorrelationId>, meta: &RequestMeta) -> Response {
    let mut response = with_headers(StatusCode::OK, body, meta);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that buffer responses would delay events.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    set_correlation(&mut response, correlation);
    response
}

/// State of the SSE body of one streaming call.
struct CallStreamBody {
    zone: Arc<ExecutionState>,
    expires_at: Instant,
    /// `None` once the last message is queued.
    stream: Option<RecordedStream>,
    /// Chunks to send.
    pending: VecDeque<Bytes>,
    #[expect(dead_code, reason = "counts the call for as long as it lives")]
    open: GaugeGuard,
}

/// Next thing to handle.
enum CallStreamEvent {
    Message(Option<StreamMessage>),
    KeepAliveDue,
    Shutdown,
}

impl CallStreamBody {
    /// Returns the next chunk; `None` after the last message.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.pending.pop_front() {
                return Some(chunk);
            }
            let stream = self.stream.as_mut()?;
            let keep_alive_at = (Instant::now() + KEEP_ALIVE_INTERVAL).min(self.expires_at);
            let event = tokio::select! {
                biased;
                () = self.zone.stop.cancelled() => CallStreamEvent::Shutdown,
                message = stream.next(&self.zone) => CallStreamEvent::Message(message),
                () = tokio::time::sleep_until(keep_alive_at) => CallStreamEvent::KeepAliveDue,
            };
            let is_authorized = Instant::now() < self.expires_at
                && stream
                    .caller
                    .is_still_valid(&self.zone, stream.peer.as_deref());
            let message = match event {
                CallStreamEvent::Message(None) => None,
                // The outcome of a call that was authorized when it began is sent in any case.
                CallStreamEvent::Message(Some(message))
                    if is_authorized || message.outcome.is_some() =>
                {
                    Some(message)
                }
                CallStreamEvent::KeepAliveDue if is_authorized => return Some(KEEP_ALIVE_COMMENT),
                CallStreamEvent::Shutdown
                | CallStreamEvent::KeepAliveDue
                | CallStreamEvent::Message(Some(_)) => {
                    let last = stream.interrupt(&self.zone);
                    self.enqueue_last(last);
                    continue;
                }
            };
            match message {
                Some(message) if message.outcome.is_none() => self.enqueue_update(message),
                last => self.enqueue_last(last),
            }
        }
    }

    /// Queues a message that is not the last.
    fn enqueue_update(&mut self, message: StreamMessage) {
        if self.enqueue(message.body, message.id).is_ok() {
            return;
        }
        let unsendable = self
            .stream
            .as_mut()
            .map(|stream| stream.replace_unsendable(false));
        match unsendable {
            Some(UnsendableMessage::Skip) => {}
            Some(UnsendableMessage::EndWith(body)) => {
                let _ = self.enqueue(body, None);
                self.stream = None;
            }
            Some(UnsendableMessage::End) | None => self.stream = None,
        }
    }

    /// Queues the last message, if there is one, and ends the stream.
    fn enqueue_last(&mut self, last: Option<StreamMessage>) {
        if let Some(last) = last
            && self.enqueue(last.body, last.id).is_err()
        {
            self.zone.metrics.record_rejected("memory_limit");
            let unsendable = self
                .stream
                .as_mut()
                .map(|stream| stream.replace_unsendable(true));
            if let Some(UnsendableMessage::EndWith(body)) = unsendable {
                let _ = self.enqueue(body, None);
            }
        }
        self.stream = None;
    }

    /// Queues a message as an event, holding its response memory until it is sent. The JSON is one line: line breaks
    /// in content are escaped inside strings.
    fn enqueue(&mut self, mut message: ResponseBody, id: Option<u64>) -> Result<(), BodyError> {
        let Some(stream) = &self.stream else {
            return Ok(());
        };
        let limits = &self.zone.limits;
        let (prefix, share) = (stream.framing().prefix(id), stream.caller.share());
        let suffix = SseFraming::SUFFIX.as_bytes();
        let mut reserved = message.take_reservation();
        match message.into_single() {
            Ok(single) => {
                let event = [prefix.as_bytes(), &single, suffix].concat();
                let event = body::reserve_response(event, 0, limits, &share, &mut reserved)?;
                self.pending.push_back(event);
            }
            Err(large) => {
                let chunks = hold_reservation(large.into_chunks(), limits, &share, &mut reserved)?;
                self.pending.push_back(prefix.into());
                self.pending.extend(chunks);
                self.pending.push_back(Bytes::from_static(suffix));
            }
        }
        Ok(())
    }
}
