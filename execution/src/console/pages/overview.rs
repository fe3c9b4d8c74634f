//! The first page: what goes on now, and how the last hour went.

use super::{card, stream_table, task_table, tile};
use crate::console::feed::counts::{Counts, ENDED, LIVE, query};
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::words::number;
use crate::console::{Console, plots};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use interzone_hub::StreamQuery;
use std::sync::Arc;

/// How many live tasks are shown; the page's script keeps to it too.
const ROWS: usize = 25;
/// And streams.
const STREAMS: usize = 10;

/// `GET /console`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    let body = body(&console).await;
    layout::page(&console, &visitor, "/console", "Overview", body)
}

/// `GET /console/plots`: the pictures alone, for the page's script.
pub(in crate::console) async fn plots(State(console): State<Arc<Console>>) -> Response {
    layout::answer(StatusCode::OK, plots::all(&console.samples.all()))
}

async fn body(console: &Console) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let now = hub.now();
    let counts = Counts::of(hub).await?;
    let mut tasks = hub.store().tasks(&query(&LIVE, ROWS)).await?;
    let latest = hub
        .store()
        .tasks(&query(&ENDED, ROWS - tasks.len()))
        .await?;
    tasks.extend(latest);
    let streams = hub
        .store()
        .streams(&StreamQuery {
            closed: false,
            before: None,
            limit: STREAMS,
        })
        .await?;
    let away = hub.agents().iter().filter(|agent| !agent.is_available());
    let (away, agents) = (away.count(), hub.agents().iter().count());
    let mut out = Html::new();
    html!(out, "<h1>Overview</h1><div class=\"tiles\">");
    let calm = |count: u64, tone: &'static str| if count == 0 { "" } else { tone };
    out.put(&tile(
        "working",
        "working",
        number(counts.working),
        "",
        "/console/tasks?state=working",
    ));
    out.put(&tile(
        "submitted",
        "submitted",
        number(counts.submitted),
        "",
        "/console/tasks?state=submitted",
    ));
    out.put(&tile(
        "waiting",
        "wait for a person",
        number(counts.waiting),
        calm(counts.waiting, "wait"),
        "/console/tasks?state=waiting",
    ));
    out.put(&tile(
        "outgoing",
        "on their way out",
        number(counts.outgoing),
        "",
        "/console/dead-letters",
    ));
    out.put(&tile(
        "dead",
        "dead letters",
        number(counts.dead),
        calm(counts.dead, "bad"),
        "/console/dead-letters",
    ));
    let agents_up = format!("{} of {agents}", agents - away);
    let tone = if away == 0 { "" } else { "bad" };
    out.put(&tile(
        "agents",
        "agents available",
        agents_up,
        tone,
        "/console/agents",
    ));
    html!(out, "</div>");
    out.put(&card("Lately", &plots::all(&console.samples.all())));
    let none = "There is no task yet.";
    out.put(&card(
        "Live and latest tasks",
        &task_table(&console.names, &tasks, now, Some("tasks"), none),
    ));
    let none = "No stream is open.";
    let table = stream_table(&console.names, &streams, now, Some("streams"), none);
    out.put(&card("Open streams", &table));
    Ok(out)
}
