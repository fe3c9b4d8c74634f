//! Agents of this node: availability and run statistics.

use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::format::{badge, duration_exact, duration_short, format_count, format_number};
use crate::console::layout::{self, PageError};
use crate::console::live::counts::{ACTIVE_STATES, tasks_in_states};
use crate::console::metrics_history::MetricsSnapshot;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::{Agent, TaskQuery};
use std::sync::Arc;
use std::time::Duration;

/// `GET /console/agents`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
) -> Response {
    let body = body(&console).await;
    layout::page(&console, &visitor, "/console/agents", "Agents", body)
}

async fn body(console: &Console) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let metrics = MetricsSnapshot::parse(&console.zone.metrics.encode());
    let mut out = Html::new();
    html!(
        out,
        "<h1>Agents</h1><p class=\"lead\">This node, since start.</p><div class=\"agents\">"
    );
    for agent in hub.agents().iter() {
        let live_query = TaskQuery {
            agent: Some(agent.info().id.clone()),
            ..tasks_in_states(&ACTIVE_STATES, 1)
        };
        let live = hub.store().count_tasks(&live_query).await?;
        out.put(&agent_card(agent.as_ref(), live, &metrics));
    }
    html!(out, "</div>");
    Ok(out)
}

fn agent_card(agent: &dyn Agent, live: u64, metrics: &MetricsSnapshot) -> Html {
    let info = agent.info();
    let id = info.id.as_str();
    let mut out = Html::new();
    html!(out, "<section class=\"card\"><div class=\"head\"><h2>" (info.name) " ");
    if agent.is_available() {
        html!(out, [badge("good", "Available")]);
    } else {
        html!(out, [badge("bad", "Unavailable")]);
    }
    html!(out, "</h2><p class=\"id\">" (id) "</p></div><p>" (info.description) "</p>");
    if let Some(wait) = agent.retry_after().filter(|_| !agent.is_available()) {
        html!(out, "<p class=\"soft\">Next retry in " (duration_short(wait)) ".</p>");
    }
    let sum = |name| metrics.sum_where(name, "agent", id);
    let runs = sum("interzone_agent_run_duration_seconds_count");
    let seconds = sum("interzone_agent_run_duration_seconds_sum");
    let tasks = format!(
        "/console/tasks{}",
        super::query_string(&[("agent", Some(id))])
    );
    html!(out, "<dl class=\"facts\"><div><dt>Live tasks</dt><dd><a href=\"" (tasks) "\">" (format_number(live))
        "</a></dd></div><div><dt>Concurrency</dt><dd>" (info.concurrency) "</dd></div><div><dt>Runs</dt><dd>"
        (format_count(runs)) "</dd></div><div><dt>Mean run time</dt><dd>");
    if runs > 0.0 {
        let mean = Duration::try_from_secs_f64(seconds / runs).unwrap_or_default();
        html!(out, (duration_exact(mean)));
    } else {
        html!(out, "–");
    }
    html!(out, "</dd></div>");
    for ([agent, outcome], count) in
        metrics.group_by("interzone_agent_runs_total", ["agent", "outcome"])
    {
        if agent == id {
            html!(out, "<div><dt>" (outcome.replace('_', " ")) "</dt><dd>" (format_count(count)) "</dd></div>");
        }
    }
    html!(out, "</dl>");
    if !info.skills.is_empty() {
        html!(out, "<p class=\"skills\">");
        for skill in &info.skills {
            html!(out, "<span class=\"chip\" title=\"" (skill.description) "\">" (skill.name) "</span> ");
        }
        html!(out, "</p>");
    }
    html!(out, "</section>");
    out
}
