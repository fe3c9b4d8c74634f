//! SSE endpoint of live updates: missed updates first, then live ones.

use super::rows::LiveChanges;
use super::update_log::UpdateSubscription;
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::layout::{PageError, error_page, set_security_headers};
use crate::console::pages::QueryParams;
use crate::console::session::hash;
use crate::console::viewer_slots::ViewerSlot;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::Secret;
use interzone_protocol::vocab::{StreamId, TaskId};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use url::form_urlencoded;

/// Interval of keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Maximum number of rows of a page.
const MAX_ROWS: usize = 50;
/// Sets the browser's reconnect delay.
const RETRY_DELAY: &[u8] = b"retry: 3000\n\n";
/// Event for changes that cannot be listed.
const BEHIND_EVENT: &str = "event: behind\ndata: {}\n\n";

struct SseViewer {
    console: Arc<Console>,
    cookie: Secret,
    /// Events to send first.
    queued: VecDeque<Bytes>,
    updates: broadcast::Receiver<Bytes>,
    /// `None` once the slot was evicted.
    slot: Option<ViewerSlot>,
}

impl SseViewer {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(event) = self.queued.pop_front() {
            return Some(event);
        }
        let slot = self.slot.as_ref()?;
        let received = tokio::select! {
            biased;
            () = self.console.zone.stop.cancelled() => return None,
            () = slot.evicted() => {
                // Sent explicitly: a browser reconnects when its stream ends, and would take the slot back from
                // the page that got it.
                self.slot = None;
                return Some(Bytes::from_static(b"event: aside\ndata: {}\n\n"));
            }
            item = timeout(KEEP_ALIVE, self.updates.recv()) => item,
        };
        // Ends the stream when the session has ended.
        self.console
            .find_session(self.cookie.expose(), None, false)?;
        match received {
            Ok(Ok(event)) => Some(event),
            Ok(Err(RecvError::Lagged(_))) => Some(Bytes::from_static(BEHIND_EVENT.as_bytes())),
            Ok(Err(RecvError::Closed)) => None,
            Err(_) => Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

/// Number that no update has; it means that updates were missed.
const UNKNOWN_CURSOR: u64 = u64::MAX;

/// Last update known to the client: from `Last-Event-ID`, else from the page.
fn client_cursor(headers: &HeaderMap, uri: &Uri) -> Option<u64> {
    let last = headers.get("last-event-id");
    let last = last.map(|id| id.to_str().unwrap_or_default());
    let query = QueryParams::from_uri(uri);
    let cursor = last.or_else(|| query.get("from"))?;
    Some(cursor.parse().unwrap_or(UNKNOWN_CURSOR))
}

/// `GET /console/events?from=…`.
pub(in crate::console) async fn events(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let Some(slot) = console.live.slots.acquire(hash(visitor.cookie.expose())) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let store = console.zone.hub.store();
    let subscription = console
        .live
        .updates
        .subscribe(store.as_ref(), client_cursor(&headers, &uri));
    let UpdateSubscription {
        missed: since,
        last,
        updates: news,
    } = subscription;
    let mut queued = since.unwrap_or_else(|| [format!("id: {last}\n{BEHIND_EVENT}").into()].into());
    queued.push_front(Bytes::from_static(RETRY_DELAY));
    let viewer = SseViewer {
        console,
        cookie: visitor.cookie.clone(),
        queued,
        updates: news,
        slot: Some(slot),
    };
    let body = Body::from_stream(stream::unfold(viewer, |mut viewer| async {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Disables buffering in proxies.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    set_security_headers(&mut response);
    response
}

/// `GET /console/rows?id=…&id=…`: current rows of these tasks, or with `stream=…` streams, for a page that
/// missed updates.
pub(in crate::console) async fn rows(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    match load_rows(&console, &uri).await {
        Ok(json) => {
            let kind = HeaderValue::from_static("application/json");
            let mut response = ([(CONTENT_TYPE, kind)], json).into_response();
            set_security_headers(&mut response);
            response
        }
        Err(error) => error_page(&console, Some(&visitor), &error),
    }
}

async fn load_rows(console: &Console, uri: &Uri) -> Result<String, PageError> {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let store = console.zone.hub.store();
    let (mut tasks, mut streams) = (Vec::new(), Vec::new());
    for (name, id) in query.take(MAX_ROWS) {
        if name == "id"
            && let Ok(id) = TaskId::new(&*id)
        {
            tasks.extend(store.task(&id).await?);
        } else if name == "stream"
            && let Ok(id) = StreamId::new(id)
        {
            streams.extend(store.stream(&id).await?);
        }
    }
    let changes = LiveChanges::new(&console.names, &tasks, &streams);
    serde_json::to_string(&changes).map_err(|_| PageError::NotFound("list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_id_takes_precedence_over_page_cursor() {
        let uri: Uri = "/console/events?from=7".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(client_cursor(&headers, &uri), Some(7));
        headers.insert("last-event-id", HeaderValue::from_static("12"));
        assert_eq!(client_cursor(&headers, &uri), Some(12));
        headers.insert("last-event-id", HeaderValue::from_static("x"));
        assert_eq!(client_cursor(&headers, &uri), Some(UNKNOWN_CURSOR));
        assert_eq!(
            client_cursor(&HeaderMap::new(), &"/console/events".parse().unwrap()),
            None
        );
    }
}
