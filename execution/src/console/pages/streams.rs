//! Lists of open and closed streams, and the page of one stream.

use super::{ListFilter, QueryParams, card, stream_table, timeline};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::format::{badge, stream_label, stream_tone, timestamp};
use crate::console::layout::{self, PageError};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::{StreamQuery, Subject};
use interzone_protocol::vocab::{StreamId, StreamState, Timestamp};
use std::sync::Arc;

const PAGE_SIZE: usize = 50;

/// `GET /console/streams`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    let body = list(&console, &QueryParams::from_uri(&uri)).await;
    layout::page(&console, &visitor, "/console/streams", "Streams", body)
}

/// `GET /console/streams/{id}`.
pub(in crate::console) async fn stream_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    Path(id): Path<String>,
) -> Response {
    let body = stream_html(&console, &visitor, &id).await;
    layout::page(&console, &visitor, "/console/streams", "Stream", body)
}

async fn list(console: &Console, params: &QueryParams) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let is_closed = params.get("closed").is_some();
    let before = params.get("before").and_then(|text| text.parse().ok());
    let query = StreamQuery {
        is_closed,
        before: before.map(Timestamp::from_millis),
        limit: PAGE_SIZE,
    };
    let streams = hub.store().streams(&query).await?;
    let mut out = Html::new();
    html!(
        out,
        "<h1>Streams</h1><nav class=\"tabs\" aria-label=\"Stream state\">"
    );
    for (address, label, is_current) in [
        ("/console/streams", "Open", !is_closed),
        ("/console/streams?closed=1", "Closed", is_closed),
    ] {
        html!(out, "<a href=\"" (address) "\"");
        if is_current {
            html!(out, " aria-current=\"page\"");
        }
        html!(out, ">" (label) "</a>");
    }
    let states = StreamState::ALL.into_iter();
    let filter = ListFilter {
        resource: "streams",
        is_first_page: before.is_none(),
        states: states
            .filter(|state| (*state == StreamState::Closed) == is_closed)
            .map(stream_label)
            .collect(),
        agent: None,
        owner: None,
    };
    let empty_text = "No streams.";
    let table = stream_table(
        &console.names,
        &streams,
        hub.now(),
        Some("list"),
        empty_text,
    );
    html!(out, "</nav><section class=\"card\" id=\"list\" tabindex=\"-1\"" [filter.render_header()] [table]
        "<nav class=\"turn\" aria-label=\"Pages\">");
    if let Some(last) = streams.last().filter(|_| streams.len() == PAGE_SIZE) {
        let last = last
            .closed_at
            .filter(|_| is_closed)
            .unwrap_or(last.updated_at);
        let filter_query = if is_closed { "closed=1&" } else { "" };
        html!(out, "<a class=\"button\" rel=\"next\" href=\"/console/streams?" (filter_query) "before="
            (last.as_millis()) "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

async fn stream_html(
    console: &Console,
    visitor: &SignedInUser,
    id: &str,
) -> Result<Html, PageError> {
    let id = StreamId::new(id).map_err(|_| PageError::NotFound("stream"))?;
    let hub = &console.zone.hub;
    let stream = hub.stream(&visitor.caller, &id).await?;
    let (events, is_truncated) =
        timeline::load_events(hub, &Subject::Stream(id.clone()), stream.seq).await?;
    let mut out = Html::new();
    html!(out, "<div data-watch=\"");
    if stream.state != StreamState::Closed {
        html!(out, (id));
    }
    html!(out, "\"><div class=\"head\"><h1>Stream "
        [badge(stream_tone(stream.state), stream_label(stream.state))] "</h1><p class=\"id\">" (id)
        "</p></div><dl class=\"facts\"><div><dt>Owner</dt><dd title=\"" (stream.owner) "\">" (console.names.display_name(stream.owner.as_str()))
        "</dd></div><div><dt>Participants</dt><dd>");
    if stream.participants.is_empty() {
        html!(out, "–");
    }
    for (index, name) in stream.participants.iter().enumerate() {
        if index > 0 {
            html!(out, ", ");
        }
        html!(out, "<span title=\"" (name) "\">" (console.names.display_name(name)) "</span>");
    }
    html!(out, "</dd></div><div><dt>Created</dt><dd>" [timestamp(stream.created_at)]
        "</dd></div><div><dt>Last change</dt><dd>" [timestamp(stream.updated_at)] "</dd></div></dl>");
    out.put(&card(
        "Events",
        &timeline::steps(&console.names, visitor, &events, is_truncated),
    ));
    html!(out, "</div>");
    Ok(out)
}
