//! `GET /streams/{id}`: a stream over WebSocket. Each outgoing frame is one notification, past ones first;
//! each incoming frame is a JSON-RPC call, answered on the same socket: with one frame, or with one per message if the
//! reply is a stream. A socket has at most one such reply at a time.

use super::open_watch::{OpenedWatch, open_watch, path_id};
use super::response::error_response;
use super::watch_sse::render;
use crate::memory::ReservationDeadline;
use crate::notifications::RenderError;
use crate::rpc::acp::{self, convert};
use crate::rpc::body::ResponseBody;
use crate::rpc::reply::{RecordedStream, StreamMessage};
use crate::rpc::{AuthenticatedCaller, RequestMeta, errors, serve_authenticated};
use crate::state::ExecutionState;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use interzone_edge::body;
use interzone_edge::listener::Peer;
use interzone_edge::request_context::CORRELATION_HEADER;
use interzone_edge::websocket::{WebSocket, WsClosed, WsEvent, WsText, accept_upgrade};
use interzone_hub::{Subject, Watch, WatchItem};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Ping interval. A client that sends nothing until the next ping is disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Close code and reason: the stream has ended.
const STREAM_ENDED: (u16, &str) = (1000, "the stream has ended");
/// The zone shuts down.
const GOING_AWAY: (u16, &str) = (1001, "the server is shutting down; reconnect");
/// A frame is not text.
const NOT_TEXT: (u16, &str) = (1003, "send JSON as text");
/// A message was not completed within `limits.body_timeout`.
const TOO_SLOW: (u16, &str) = (1008, "the message did not arrive in time; send it faster");
/// The store failed.
const INTERNAL_ERROR: (u16, &str) = (1011, "internal error; reconnect");
/// The token expired, the equivalent of 401.
const EXPIRED: (u16, &str) = (4401, "the token has expired; reconnect with a new one");
/// The token was revoked.
const REVOKED: (u16, &str) = (
    4401,
    "the token is no longer valid; reconnect with a new one",
);
/// Close code and reason if no memory is available for a message.
const TRY_LATER: (u16, &str) = (1013, "too much is being sent; reconnect later");

pub(super) async fn streams_socket(
    State(zone): State<Arc<ExecutionState>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let meta = RequestMeta::from_headers(request.headers(), peer.cloned());
    let id = path_id(id);
    let subject = convert::stream_id(&id).map(Subject::Stream);
    let subject = subject.ok_or_else(|| acp::errors::unknown_stream(&id));
    let (mut parts, _) = request.into_parts();
    let opened = match open_watch(&zone, &parts, &meta, subject, "streams.socket").await {
        Ok(opened) => opened,
        Err(error) => return error_response(&error, &meta),
    };
    let share = opened.caller.share();
    let Some((mut response, upgrade)) = accept_upgrade(&mut parts, &zone.limits, share) else {
        let error = errors::transport(
            StatusCode::UPGRADE_REQUIRED,
            "This is a WebSocket endpoint; for server-sent events append /events",
            "no_upgrade",
        );
        return error_response(&error, &meta);
    };
    let header = meta.correlation.to_header();
    response.headers_mut().insert(CORRELATION_HEADER, header);
    // The task ends with the socket, which zone shutdown closes.
    tokio::spawn(async move {
        if let Some(socket) = upgrade.into_socket().await {
            let _open = zone.metrics.track_watcher("ws");
            run_socket(&zone, socket, opened, &meta).await;
        }
    });
    response
}

/// Next event of the socket or the watch.
enum SocketStep {
    Watched(Option<WatchItem>),
    /// Next message of the reply that is a stream.
    Replied(Option<StreamMessage>),
    Received(WsEvent),
    Ping,
    Close((u16, &'static str)),
}

async fn run_socket(
    zone: &ExecutionState,
    mut socket: WebSocket,
    opened: OpenedWatch,
    meta: &RequestMeta,
) {
    let OpenedWatch {
        caller,
        mut watch,
        expires_at,
        permit: _seat,
    } = opened;
    let mut next_ping = Instant::now() + PING_INTERVAL;
    let mut is_responsive = true;
    let mut reply: Option<Box<RecordedStream>> = None;
    loop {
        let next = tokio::select! {
            () = zone.stop.cancelled() => SocketStep::Close(GOING_AWAY),
            () = tokio::time::sleep_until(expires_at) => SocketStep::Close(EXPIRED),
            () = tokio::time::sleep_until(next_ping) => SocketStep::Ping,
            frame = socket.recv() => SocketStep::Received(frame),
            message = next_message(zone, reply.as_mut()) => SocketStep::Replied(message),
            item = watch.next() => item.map_or(SocketStep::Close(INTERNAL_ERROR), SocketStep::Watched),
        };
        let handled = match next {
            SocketStep::Received(WsEvent::Text(_))
            | SocketStep::Watched(Some(_))
            | SocketStep::Replied(Some(_))
            | SocketStep::Ping
                if !caller.is_still_valid(zone, meta.peer.as_deref()) =>
            {
                Err(Some(REVOKED))
            }
            SocketStep::Received(WsEvent::Closed) => return,
            SocketStep::Received(WsEvent::MemoryLimit) => Err(Some(TRY_LATER)),
            SocketStep::Received(WsEvent::Timeout) => Err(Some(TOO_SLOW)),
            SocketStep::Received(WsEvent::Binary) => Err(Some(NOT_TEXT)),
            SocketStep::Received(WsEvent::KeepAlive) => {
                is_responsive = true;
                Ok(())
            }
            SocketStep::Received(WsEvent::Text(text)) => {
                is_responsive = true;
                handle_call(zone, &caller, &mut socket, &text, meta, &mut reply).await
            }
            SocketStep::Replied(message) => {
                if message
                    .as_ref()
                    .is_none_or(|message| message.outcome.is_some())
                {
                    reply = None;
                }
                match message {
                    Some(message) => send_body(zone, &caller, &mut socket, message.body, 0).await,
                    None => Ok(()),
                }
            }
            SocketStep::Watched(None) => Err(Some(STREAM_ENDED)),
            SocketStep::Watched(Some(item)) => {
                send_item(zone, &caller, &watch, &mut socket, item).await
            }
            SocketStep::Ping if is_responsive => {
                is_responsive = false;
                next_ping = Instant::now() + PING_INTERVAL;
                socket.ping().await.map_err(no_close_reason)
            }
            SocketStep::Ping => Err(None),
            SocketStep::Close(close) => Err(Some(close)),
        };
        if let Err(close) = handled {
            if let Some((code, reason)) = close {
                let _ = socket.close(code, reason).await;
            }
            return;
        }
    }
}

/// Result of a step: continue, close with this reason, or drop the connection without one.
type SocketResult = Result<(), Option<(u16, &'static str)>>;

/// Serves the call of a frame. A reply that is a stream is put into `reply`.
async fn handle_call(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    socket: &mut WebSocket,
    text: &WsText,
    meta: &RequestMeta,
    reply: &mut Option<Box<RecordedStream>>,
) -> SocketResult {
    let text = text.as_bytes();
    // The metadata of a frame is that of its socket, received now.
    let meta = RequestMeta {
        received_at: Instant::now(),
        can_stream: reply.is_none(),
        trace: None,
        memory_deadline: ReservationDeadline::default(),
        ..meta.clone()
    };
    let response = serve_authenticated(zone, caller, text, &meta).await;
    if response.stream.is_some() {
        *reply = response.stream;
    }
    match response.body {
        Some(body) => send_body(zone, caller, socket, body, text.len()).await,
        None => Ok(()),
    }
}

/// Waits for the next message of a reply; forever if there is no reply.
async fn next_message(
    zone: &ExecutionState,
    reply: Option<&mut Box<RecordedStream>>,
) -> Option<StreamMessage> {
    match reply {
        Some(reply) => reply.next(zone).await,
        None => std::future::pending().await,
    }
}

/// Sends a message that answers a request of this size.
async fn send_body(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    socket: &mut WebSocket,
    mut body: ResponseBody,
    request_bytes: usize,
) -> SocketResult {
    let mut reserved = body.take_reservation();
    let text = body::reserve_response(
        body.concat(),
        request_bytes,
        &zone.limits,
        &caller.share(),
        &mut reserved,
    );
    let text = text.map_err(|_| Some(TRY_LATER))?;
    socket.send_text(text).await.map_err(no_close_reason)
}

async fn send_item(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    watch: &Watch,
    socket: &mut WebSocket,
    item: WatchItem,
) -> SocketResult {
    let event = Box::pin(render(zone, caller, watch, item)).await;
    let event = event.map_err(|error| match error {
        RenderError::Hub(_) => Some(INTERNAL_ERROR),
        RenderError::NoRoom(_) => {
            zone.metrics.record_rejected("memory_limit");
            Some(TRY_LATER)
        }
    })?;
    for message in event.messages() {
        socket.send_text(message).await.map_err(no_close_reason)?;
    }
    Ok(())
}

/// The client is gone or does not read: the connection is dropped without a close reason.
fn no_close_reason(_: WsClosed) -> Option<(u16, &'static str)> {
    None
}
