//! `GET /tasks/{id}/events` and `GET /streams/{id}/events`: server-sent events, past events first, then live
//! ones.
//!
//! A watcher is a small state that is polled when its connection can take more: it has no task and no queue of
//! its own, so a slow client costs nothing. It continues to read in the log when it can.

use super::open_watch::{OpenedWatch, open_watch, path_id};
use super::response::{error_response, with_headers};
use super::watch_limit::WatchPermit;
use crate::notifications::{Format, RenderError, RenderedEvent};
use crate::rpc::acp::{self, convert};
use crate::rpc::errors::WireError;
use crate::rpc::{AuthenticatedCaller, RequestMeta};
use crate::state::ExecutionState;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::listener::Peer;
use interzone_edge::telemetry::GaugeGuard;
use interzone_hub::{Subject, Watch, WatchItem};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// Idle time after which a keep-alive comment is sent.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
const EXPIRED_COMMENT: Bytes =
    Bytes::from_static(b": the token has expired; reconnect with a new one\n\n");
const REVOKED_COMMENT: Bytes =
    Bytes::from_static(b": the token is no longer valid; reconnect with a new one\n\n");
/// Sent if there is no memory for the next event. Clients reconnect after this many milliseconds and resume
/// where they were.
const BUSY_COMMENT: Bytes =
    Bytes::from_static(b"retry: 5000\n: too much is being sent; reconnect later\n\n");

pub(super) async fn tasks_events(
    State(zone): State<Arc<ExecutionState>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let id = path_id(id);
    let subject = convert::task_id(&id).map(Subject::Task);
    let subject = subject.ok_or_else(|| acp::errors::unknown_task(&id));
    watch(zone, request, subject, "tasks.events").await
}

pub(super) async fn streams_events(
    State(zone): State<Arc<ExecutionState>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let id = path_id(id);
    let subject = convert::stream_id(&id).map(Subject::Stream);
    let subject = subject.ok_or_else(|| acp::errors::unknown_stream(&id));
    watch(zone, request, subject, "streams.events").await
}

async fn watch(
    zone: Arc<ExecutionState>,
    request: Request,
    subject: Result<Subject, WireError>,
    kind: &'static str,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let meta = RequestMeta::from_headers(request.headers(), peer.cloned());
    let (parts, _) = request.into_parts();
    match open_watch(&zone, &parts, &meta, subject, kind).await {
        Err(error) => error_response(&error, &meta),
        Ok(opened) => {
            let body = watch_body(zone, opened, meta.peer.clone());
            let mut response = with_headers(StatusCode::OK, body, &meta);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            // Proxies that buffer responses would delay events.
            let unbuffered = HeaderName::from_static("x-accel-buffering");
            headers.insert(unbuffered, HeaderValue::from_static("no"));
            response
        }
    }
}

fn watch_body(zone: Arc<ExecutionState>, opened: OpenedWatch, peer: Option<Arc<Peer>>) -> Body {
    let now = Instant::now();
    let watcher = SseWatcher {
        open: (zone.metrics.track_watcher("sse"), opened.permit),
        stop: Box::pin(zone.stop.clone().cancelled_owned()),
        keep_alive: Box::pin(sleep_until(
            (now + KEEP_ALIVE_INTERVAL).min(opened.expires_at),
        )),
        last_sent: now,
        zone,
        caller: opened.caller,
        peer,
        watch: opened.watch,
        expires_at: opened.expires_at,
        is_closed: false,
    };
    Body::from_stream(stream::unfold(watcher, |mut watcher| async {
        let chunk = watcher.next().await?;
        Some((Ok::<_, Infallible>(chunk), watcher))
    }))
}

struct SseWatcher {
    zone: Arc<ExecutionState>,
    caller: AuthenticatedCaller,
    peer: Option<Arc<Peer>>,
    watch: Watch,
    /// This and `keep_alive` are kept from one event to the next: if thousands of watchers receive the same
    /// event, creating them again would have all of them contend for the same locks.
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Keep-alive timer. Events do not reset it; its deadline is checked when it fires.
    keep_alive: Pin<Box<Sleep>>,
    /// Time of the last send.
    last_sent: Instant,
    expires_at: Instant,
    is_closed: bool,
    #[expect(dead_code, reason = "counts the watch for as long as it lives")]
    open: (GaugeGuard, WatchPermit),
}

impl SseWatcher {
    /// Returns the next chunk; `None` when the watch has ended. It ends silently on a store error or on
    /// shutdown: a client that reconnects resumes where it was.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_closed {
            return None;
        }
        let item = loop {
            tokio::select! {
                biased;
                () = self.stop.as_mut() => return None,
                item = self.watch.next() => break item.ok()??,
                () = self.keep_alive.as_mut() => if let Some(chunk) = self.on_timer() {
                    return Some(chunk);
                }
            }
        };
        if let Some(notice) = self.revocation_notice() {
            return Some(notice);
        }
        self.last_sent = Instant::now();
        if self.last_sent >= self.expires_at {
            self.is_closed = true;
            return Some(EXPIRED_COMMENT);
        }
        // Boxed: the future that renders an event is large, and idle watchers are many.
        match Box::pin(render(&self.zone, &self.caller, &self.watch, item)).await {
            Ok(event) => Some(event.sse),
            Err(RenderError::Hub(_)) => None,
            Err(RenderError::NoRoom(_)) => {
                self.zone.metrics.record_rejected("memory_limit");
                self.is_closed = true;
                Some(BUSY_COMMENT)
            }
        }
    }
}

impl SseWatcher {
    /// Handles the keep-alive timer: returns a comment if nothing was sent for long enough, and rearms the timer.
    fn on_timer(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        self.is_closed = now >= self.expires_at;
        if self.is_closed {
            return Some(EXPIRED_COMMENT);
        }
        let is_idle = now >= self.last_sent + KEEP_ALIVE_INTERVAL;
        if is_idle {
            self.last_sent = now;
        }
        let next = (self.last_sent + KEEP_ALIVE_INTERVAL).min(self.expires_at);
        self.keep_alive.as_mut().reset(next);
        is_idle.then(|| self.revocation_notice().unwrap_or(KEEP_ALIVE_COMMENT))
    }

    /// Returns the final comment if the token is no longer valid.
    fn revocation_notice(&mut self) -> Option<Bytes> {
        self.is_closed = !self.caller.is_still_valid(&self.zone, self.peer.as_deref());
        self.is_closed.then_some(REVOKED_COMMENT)
    }
}

/// Renders a watch item.
pub(super) async fn render(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    watch: &Watch,
    item: WatchItem,
) -> Result<RenderedEvent, RenderError> {
    let share = caller.share();
    match item {
        WatchItem::Event(event) => {
            zone.render_cache
                .get_or_render(Format::Acp, &zone.hub, &event, &zone.limits, &share)
                .await
        }
        WatchItem::TextDelta { run, offset, delta } => {
            let Subject::Task(id) = watch.subject() else {
                return Ok(RenderedEvent::empty());
            };
            match Format::Acp
                .renderer()
                .render_text_delta(id, run, offset, &delta)
            {
                Some(notice) => RenderedEvent::unsequenced(notice, &zone.limits, &share),
                None => Ok(RenderedEvent::empty()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_size<W, F>(_: impl FnOnce(W) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn idle_sse_watcher_is_small() {
        let next_size = future_size(|watcher: &'static mut SseWatcher| watcher.next());
        let total = next_size + size_of::<SseWatcher>();
        assert!(
            total <= 1_280,
            "{} and {next_size} bytes",
            size_of::<SseWatcher>()
        );
    }
}
