//! The agents of this node: who is well, and how their runs went.

use crate::console::Console;
use crate::console::feed::counts::{LIVE, query};
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem};
use crate::console::samples::Figures;
use crate::console::words::{badge, exactly, figure, number, roughly};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use interzone_hub::{Agent, TaskQuery};
use std::sync::Arc;
use std::time::Duration;

/// `GET /console/agents`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    let body = body(&console).await;
    layout::page(&console, &visitor, "/console/agents", "Agents", body)
}

async fn body(console: &Console) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let figures = Figures::read(&console.zone.metrics.encode());
    let mut out = Html::new();
    html!(
        out,
        "<h1>Agents</h1><p class=\"lead\">Of this node, since it began.</p><div class=\"agents\">"
    );
    for agent in hub.agents().iter() {
        let live = TaskQuery {
            agent: Some(agent.info().id.clone()),
            ..query(&LIVE, 1)
        };
        let live = hub.store().count_tasks(&live).await?;
        out.put(&one(agent.as_ref(), live, &figures));
    }
    html!(out, "</div>");
    Ok(out)
}

fn one(agent: &dyn Agent, live: u64, figures: &Figures) -> Html {
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
    if let Some(wait) = agent.back_in().filter(|_| !agent.is_available()) {
        html!(out, "<p class=\"soft\">Tried again in " (roughly(wait)) ".</p>");
    }
    let sum = |name| figures.sum_where(name, "agent", id);
    let runs = sum("interzone_agent_run_duration_seconds_count");
    let seconds = sum("interzone_agent_run_duration_seconds_sum");
    let tasks = format!("/console/tasks{}", super::asking(&[("agent", Some(id))]));
    html!(out, "<dl class=\"facts\"><div><dt>Live tasks</dt><dd><a href=\"" (tasks) "\">" (number(live))
        "</a></dd></div><div><dt>At once</dt><dd>" (info.concurrency) "</dd></div><div><dt>Runs</dt><dd>"
        (figure(runs)) "</dd></div><div><dt>Mean run</dt><dd>");
    if runs > 0.0 {
        let mean = Duration::try_from_secs_f64(seconds / runs).unwrap_or_default();
        html!(out, (exactly(mean)));
    } else {
        html!(out, "–");
    }
    html!(out, "</dd></div>");
    for ([agent, outcome], count) in figures.by("interzone_agent_runs_total", ["agent", "outcome"])
    {
        if agent == id {
            html!(out, "<div><dt>" (outcome.replace('_', " ")) "</dt><dd>" (figure(count)) "</dd></div>");
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
