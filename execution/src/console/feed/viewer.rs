//! Somebody who looks: what their page has missed, and then what happens as it happens. What that is comes
//! from elsewhere.

use super::moments::Joined;
use super::rows::Changes;
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::layout::{Problem, problem, protect};
use crate::console::pages::Asked;
use crate::console::places::Place;
use crate::console::session::hash;
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

/// How long nothing may be said.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many rows a page has at most.
const ROWS: usize = 50;
/// When a browser comes back whose stream broke.
const GREETING: &[u8] = b"retry: 3000\n\n";
/// More has changed than can be told.
const TOO_MUCH: &str = "event: behind\ndata: {}\n\n";

struct Viewer {
    console: Arc<Console>,
    cookie: Secret,
    /// What is to be said first.
    first: VecDeque<Bytes>,
    news: broadcast::Receiver<Bytes>,
    /// None once another page has it.
    place: Option<Place>,
}

impl Viewer {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        let place = self.place.as_ref()?;
        let said = tokio::select! {
            biased;
            () = self.console.zone.stop.cancelled() => return None,
            () = place.given_away() => {
                // Said, and not just done: a browser whose stream ends comes back by itself, and would take
                // the place from the page that it was given to.
                self.place = None;
                return Some(Bytes::from_static(b"event: aside\ndata: {}\n\n"));
            }
            said = timeout(KEEP_ALIVE, self.news.recv()) => said,
        };
        // Somebody who signed out, or was sent away, hears nothing more.
        self.console.known(self.cookie.expose(), None, false)?;
        match said {
            Ok(Ok(said)) => Some(said),
            Ok(Err(RecvError::Lagged(_))) => Some(Bytes::from_static(TOO_MUCH.as_bytes())),
            Ok(Err(RecvError::Closed)) => None,
            Err(_) => Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

/// A number that no moment has: whoever says so has missed something.
const NONE: u64 = u64::MAX;

/// The last moment that is known: to a browser that comes back, else to the page.
fn known(headers: &HeaderMap, uri: &Uri) -> Option<u64> {
    let last = headers.get("last-event-id");
    let last = last.map(|id| id.to_str().unwrap_or_default());
    let asked = Asked::of(uri);
    let known = last.or_else(|| asked.get("from"))?;
    Some(known.parse().unwrap_or(NONE))
}

/// `GET /console/events?from=…`.
pub(in crate::console) async fn events(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let Some(place) = console.feed.places.take(hash(visitor.cookie.expose())) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let store = console.zone.hub.store();
    let joined = console
        .feed
        .moments
        .join(store.as_ref(), known(&headers, &uri));
    let Joined { since, last, news } = joined;
    let mut first = since.unwrap_or_else(|| [format!("id: {last}\n{TOO_MUCH}").into()].into());
    first.push_front(Bytes::from_static(GREETING));
    let viewer = Viewer {
        console,
        cookie: visitor.cookie.clone(),
        first,
        news,
        place: Some(place),
    };
    let body = Body::from_stream(stream::unfold(viewer, |mut viewer| async {
        let said = viewer.next().await?;
        Some((Ok::<_, Infallible>(said), viewer))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that collect answers would hold events back.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    protect(&mut response);
    response
}

/// `GET /console/rows?id=…&id=…`: how the tasks of a list are now, or with `stream=…` its streams, for a page
/// that was told that more has changed than can be told.
pub(in crate::console) async fn rows(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    match read(&console, &uri).await {
        Ok(json) => {
            let kind = HeaderValue::from_static("application/json");
            let mut response = ([(CONTENT_TYPE, kind)], json).into_response();
            protect(&mut response);
            response
        }
        Err(wrong) => problem(&console, Some(&visitor), &wrong),
    }
}

async fn read(console: &Console, uri: &Uri) -> Result<String, Problem> {
    let asked = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let store = console.zone.hub.store();
    let (mut tasks, mut streams) = (Vec::new(), Vec::new());
    for (name, id) in asked.take(ROWS) {
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
    let changes = Changes::of(&console.names, &tasks, &streams);
    serde_json::to_string(&changes).map_err(|_| Problem::Nothing("list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_comes_back_knows_better_than_its_page() {
        let uri: Uri = "/console/events?from=7".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(known(&headers, &uri), Some(7));
        headers.insert("last-event-id", HeaderValue::from_static("12"));
        assert_eq!(known(&headers, &uri), Some(12));
        headers.insert("last-event-id", HeaderValue::from_static("x"));
        assert_eq!(known(&headers, &uri), Some(NONE));
        assert_eq!(
            known(&HeaderMap::new(), &"/console/events".parse().unwrap()),
            None
        );
    }
}
