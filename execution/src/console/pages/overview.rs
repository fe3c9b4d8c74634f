//! Overview page: counters, plots of the last hour, current tasks and streams.

use super::{card, stream_table, task_table, tile};
use crate::console::auth_middleware::SignedInUser;
use crate::console::format::format_number;
use crate::console::layout::{self, PageError};
use crate::console::live::counts::{ACTIVE_STATES, FINAL_STATES, OverviewCounts, tasks_in_states};
use crate::console::{Console, plots};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::StreamQuery;
use std::sync::Arc;

/// Maximum number of tasks shown; console.js uses the same number.
const MAX_TASKS: usize = 25;
/// Maximum number of streams shown.
const MAX_STREAMS: usize = 10;

/// `GET /console`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
) -> Response {
    let body = body(&console).await;
    layout::page(&console, &visitor, "/console", "Overview", body)
}

/// `GET /console/plots`: the plots alone, for the page's script.
pub(in crate::console) async fn plots(State(console): State<Arc<Console>>) -> Response {
    layout::fragment_response(plots::render(&console.metrics_history.all()))
}

async fn body(console: &Console) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let now = hub.now();
    let counts = OverviewCounts::load(hub).await?;
    let mut tasks = hub
        .store()
        .tasks(&tasks_in_states(&ACTIVE_STATES, MAX_TASKS))
        .await?;
    let latest = hub
        .store()
        .tasks(&tasks_in_states(&FINAL_STATES, MAX_TASKS - tasks.len()))
        .await?;
    tasks.extend(latest);
    let streams = hub
        .store()
        .streams(&StreamQuery {
            is_closed: false,
            before: None,
            limit: MAX_STREAMS,
        })
        .await?;
    let unavailable = hub.agents().iter().filter(|agent| !agent.is_available());
    let (unavailable, agents) = (unavailable.count(), hub.agents().iter().count());
    let mut out = Html::new();
    html!(out, "<h1>Overview</h1><div class=\"tiles\">");
    let tone_if_any = |count: u64, tone: &'static str| if count == 0 { "" } else { tone };
    out.put(&tile(
        "working",
        "working",
        format_number(counts.working),
        "",
        "/console/tasks?state=working",
    ));
    out.put(&tile(
        "submitted",
        "submitted",
        format_number(counts.submitted),
        "",
        "/console/tasks?state=submitted",
    ));
    out.put(&tile(
        "waiting",
        "waiting for input",
        format_number(counts.waiting),
        tone_if_any(counts.waiting, "wait"),
        "/console/tasks?state=waiting",
    ));
    out.put(&tile(
        "outgoing",
        "outgoing, pending",
        format_number(counts.outgoing),
        "",
        "/console/dead-letters",
    ));
    out.put(&tile(
        "dead",
        "dead letters",
        format_number(counts.dead),
        tone_if_any(counts.dead, "bad"),
        "/console/dead-letters",
    ));
    let agents_up = format!("{} of {agents}", agents - unavailable);
    let tone = if unavailable == 0 { "" } else { "bad" };
    out.put(&tile(
        "agents",
        "agents available",
        agents_up,
        tone,
        "/console/agents",
    ));
    html!(out, "</div>");
    out.put(&card(
        "Recent activity",
        &plots::render(&console.metrics_history.all()),
    ));
    let empty_text = "No tasks yet.";
    out.put(&card(
        "Live and latest tasks",
        &task_table(&console.names, &tasks, now, Some("tasks"), empty_text),
    ));
    let empty_text = "No open streams.";
    let table = stream_table(&console.names, &streams, now, Some("streams"), empty_text);
    out.put(&card("Open streams", &table));
    Ok(out)
}
