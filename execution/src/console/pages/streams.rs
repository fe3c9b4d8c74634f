//! Streams, open and closed, and one of them.

use super::{Asked, Shown, card, story, stream_table};
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::words::{badge, moment, stream_called, stream_tone};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use interzone_hub::{StreamQuery, Subject};
use interzone_protocol::vocab::{StreamId, StreamState, Timestamp};
use std::sync::Arc;

const ROWS: usize = 50;

/// `GET /console/streams`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let body = list(&console, &Asked::of(&uri)).await;
    layout::page(&console, &visitor, "/console/streams", "Streams", body)
}

/// `GET /console/streams/{id}`.
pub(in crate::console) async fn one(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(id): Path<String>,
) -> Response {
    let body = stream(&console, &visitor, &id).await;
    layout::page(&console, &visitor, "/console/streams", "Stream", body)
}

async fn list(console: &Console, asked: &Asked) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let closed = asked.get("closed").is_some();
    let before = asked.get("before").and_then(|text| text.parse().ok());
    let query = StreamQuery {
        closed,
        before: before.map(Timestamp::from_millis),
        limit: ROWS,
    };
    let streams = hub.store().streams(&query).await?;
    let mut out = Html::new();
    html!(
        out,
        "<h1>Streams</h1><nav class=\"tabs\" aria-label=\"Which streams\">"
    );
    for (address, word, here) in [
        ("/console/streams", "Open", !closed),
        ("/console/streams?closed=1", "Closed", closed),
    ] {
        html!(out, "<a href=\"" (address) "\"");
        if here {
            html!(out, " aria-current=\"page\"");
        }
        html!(out, ">" (word) "</a>");
    }
    let states = StreamState::ALL.into_iter();
    let shown = Shown {
        of: "streams",
        first: before.is_none(),
        states: states
            .filter(|state| (*state == StreamState::Closed) == closed)
            .map(stream_called)
            .collect(),
        agent: None,
        owner: None,
    };
    let none = "There is no such stream.";
    let table = stream_table(&console.names, &streams, hub.now(), Some("list"), none);
    html!(out, "</nav><section class=\"card\" id=\"list\" tabindex=\"-1\"" [shown.written()] [table]
        "<nav class=\"turn\" aria-label=\"Pages\">");
    if let Some(last) = streams.last().filter(|_| streams.len() == ROWS) {
        let last = last.closed_at.filter(|_| closed).unwrap_or(last.updated_at);
        let which = if closed { "closed=1&" } else { "" };
        html!(out, "<a class=\"button\" rel=\"next\" href=\"/console/streams?" (which) "before="
            (last.as_millis()) "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

async fn stream(console: &Console, visitor: &Visitor, id: &str) -> Result<Html, Problem> {
    let id = StreamId::new(id).map_err(|_| Problem::Nothing("stream"))?;
    let hub = &console.zone.hub;
    let stream = hub.stream(&visitor.caller, &id).await?;
    let (events, cut) = story::read(hub, &Subject::Stream(id.clone()), stream.seq).await?;
    let mut out = Html::new();
    html!(out, "<div data-watch=\"");
    if stream.state != StreamState::Closed {
        html!(out, (id));
    }
    html!(out, "\"><div class=\"head\"><h1>Stream "
        [badge(stream_tone(stream.state), stream_called(stream.state))] "</h1><p class=\"id\">" (id)
        "</p></div><dl class=\"facts\"><div><dt>Owner</dt><dd title=\"" (stream.owner) "\">" (console.names.called(stream.owner.as_str()))
        "</dd></div><div><dt>Participants</dt><dd>");
    if stream.participants.is_empty() {
        html!(out, "–");
    }
    for (number, name) in stream.participants.iter().enumerate() {
        if number > 0 {
            html!(out, ", ");
        }
        html!(out, "<span title=\"" (name) "\">" (console.names.called(name)) "</span>");
    }
    html!(out, "</dd></div><div><dt>Created</dt><dd>" [moment(stream.created_at)]
        "</dd></div><div><dt>Last change</dt><dd>" [moment(stream.updated_at)] "</dd></div></dl>");
    out.put(&card(
        "Events",
        &story::steps(&console.names, visitor, &events, cut),
    ));
    html!(out, "</div>");
    Ok(out)
}
