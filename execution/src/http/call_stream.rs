//! `execute_task` with `Accept: text/event-stream`: the response body is a stream of server-sent events. Each
//! is one JSON-RPC message, and the last is the response.
//!
//! Like a watcher it has no task of its own: it is polled when its connection can take more.

use super::open_watch::token_deadline;
use super::response::{hold_reservation, set_correlation, with_headers};
use crate::rpc::body::ResponseBody;
use crate::rpc::zone::{ExecuteStream, StreamItem};
use crate::rpc::{AuthenticatedCaller, RequestMeta, RpcResponse};
use crate::state::ExecutionState;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_edge::telemetry::GaugeGuard;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Idle time after which a keep-alive comment is sent.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
const EVENT_PREFIX: Bytes = Bytes::from_static(b"event: message\ndata: ");
const EVENT_SUFFIX: Bytes = Bytes::from_static(b"\n\n");

pub(super) fn sse_response(
    zone: &Arc<ExecutionState>,
    stream: ExecuteStream,
    caller: AuthenticatedCaller,
    reply: &RpcResponse,
    meta: &RequestMeta,
) -> Response {
    let body_state = CallStreamBody {
        open: zone.metrics.track_watcher("call"),
        expires_at: token_deadline(zone, caller.identity.expires_at()),
        zone: Arc::clone(zone),
        meta: RequestMeta {
            correlation: meta.correlation.clone(),
            peer: meta.peer.clone(),
            trace: meta.trace.clone(),
            ..*meta
        },
        caller,
        stream: Some(stream),
        pending: VecDeque::new(),
    };
    let body = Body::from_stream(stream::unfold(body_state, |mut body_state| async {
        let chunk = body_state.next().await?;
        Some((Ok::<_, Infallible>(chunk), body_state))
    }));
    let mut response = with_headers(StatusCode::OK, body, meta);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that buffer responses would delay events.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    set_correlation(&mut response, reply.correlation.as_ref());
    response
}

/// State of the SSE body of one streaming call.
struct CallStreamBody {
    zone: Arc<ExecutionState>,
    meta: RequestMeta,
    caller: AuthenticatedCaller,
    expires_at: Instant,
    /// `None` once the response is queued.
    stream: Option<ExecuteStream>,
    /// Chunks to send.
    pending: VecDeque<Bytes>,
    #[expect(dead_code, reason = "counts the call for as long as it lives")]
    open: GaugeGuard,
}

/// Next thing to handle.
enum CallStreamEvent {
    Item(StreamItem),
    KeepAliveDue,
    Shutdown,
}

impl CallStreamBody {
    /// Returns the next chunk; `None` after the response.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.pending.pop_front() {
                return Some(chunk);
            }
            let stream = self.stream.as_mut()?;
            let keep_alive_at = (Instant::now() + KEEP_ALIVE_INTERVAL).min(self.expires_at);
            let next = tokio::select! {
                biased;
                () = self.zone.stop.cancelled() => CallStreamEvent::Shutdown,
                item = stream.next(&self.zone, &self.meta) => CallStreamEvent::Item(item),
                () = tokio::time::sleep_until(keep_alive_at) => CallStreamEvent::KeepAliveDue,
            };
            let is_authorized = Instant::now() < self.expires_at
                && self
                    .caller
                    .is_still_valid(&self.zone, self.meta.peer.as_deref());
            let item = match next {
                CallStreamEvent::Shutdown => stream.finish_accepted(&self.zone, &self.meta),
                CallStreamEvent::KeepAliveDue
                | CallStreamEvent::Item(StreamItem::Notification(_) | StreamItem::Nothing)
                    if !is_authorized =>
                {
                    stream.finish_accepted(&self.zone, &self.meta)
                }
                CallStreamEvent::KeepAliveDue => return Some(KEEP_ALIVE_COMMENT),
                CallStreamEvent::Item(item) => item,
            };
            let share = self.caller.share();
            match item {
                StreamItem::Nothing => {}
                StreamItem::Notification(note) => {
                    // A dropped notification is contained in the response.
                    let _ = enqueue(note, &mut self.pending, &self.zone.limits, &share);
                }
                StreamItem::Response(last) => {
                    if enqueue(last, &mut self.pending, &self.zone.limits, &share).is_err() {
                        self.zone.metrics.record_rejected("memory_limit");
                        // A few bytes, which need no response memory; the caller fetches the result later.
                        let _ = enqueue(
                            stream.accepted_response(),
                            &mut self.pending,
                            &self.zone.limits,
                            &share,
                        );
                    }
                    self.stream = None;
                }
            }
        }
    }
}

/// Queues a message as an event, holding its response memory until it is sent. The JSON is one line: line
/// breaks in content are escaped inside strings.
fn enqueue(
    mut message: ResponseBody,
    pending: &mut VecDeque<Bytes>,
    limits: &HttpLimits,
    share: &ShareKey,
) -> Result<(), BodyError> {
    let mut reserved = message.take_reservation();
    match message.into_single() {
        Ok(single) => {
            let event = [&EVENT_PREFIX, single.as_slice(), &EVENT_SUFFIX].concat();
            let event = body::reserve_response(event, 0, limits, share, &mut reserved)?;
            pending.push_back(event);
        }
        Err(large) => {
            let chunks = hold_reservation(large.into_chunks(), limits, share, &mut reserved)?;
            pending.push_back(EVENT_PREFIX);
            pending.extend(chunks);
            pending.push_back(EVENT_SUFFIX);
        }
    }
    Ok(())
}
