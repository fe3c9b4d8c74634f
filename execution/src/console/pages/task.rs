//! One task's whole story.

use super::parts::{Place, parts};
use super::waterfall::waterfall;
use super::{card, pair_table, segment, story, table, talks};
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem, hidden, may_not_change, token};
use crate::console::names::Names;
use crate::console::sign_in::see_other;
use crate::console::words::{age, badge, between, fate_tone, moment, state_badge};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use interzone_hub::ports::PairQuery;
use interzone_hub::{Delivered, Fate, Subject, Task, WholeTask, failure_word};
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::sync::Arc;

/// How many messages and requests are shown.
const MESSAGES: u32 = 200;
const PAIRS: usize = 200;
/// What the audit and the task say of a task that was called off here.
const REASON: &str = "Canceled by an operator";

/// `GET /console/tasks/{id}`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(id): Path<String>,
) -> Response {
    let body = body(&console, &visitor, &id).await;
    let title = format!("Task {id}");
    layout::page(&console, &visitor, "/console/tasks", &title, body)
}

/// `POST /console/tasks/{id}/cancel`.
pub(in crate::console) async fn cancel(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(id): Path<String>,
) -> Response {
    let cancelled = async {
        let id = TaskId::new(&id).map_err(|_| Problem::Nothing("task"))?;
        let hub = &console.zone.hub;
        hub.cancel(&visitor.caller, &id, Some(REASON)).await?;
        Ok::<_, Problem>(())
    };
    match cancelled.await {
        Ok(()) => see_other(&format!("/console/tasks/{}", segment(&id))),
        Err(problem) => layout::problem(&console, Some(&visitor), &problem),
    }
}

async fn body(console: &Console, visitor: &Visitor, id: &str) -> Result<Html, Problem> {
    let id = TaskId::new(id).map_err(|_| Problem::Nothing("task"))?;
    let hub = &console.zone.hub;
    let memory = visitor.memory(console);
    let whole = hub.task_packed(&visitor.caller, &id, MESSAGES, Some(&memory));
    let whole = whole.await?;
    let task = &whole.task;
    let now = hub.now();
    let (events, cut) = story::read(hub, &Subject::Task(id.clone()), task.seq).await?;
    if let Some(log) = &console.zone.pairs {
        log.settled().await;
    }
    let query = PairQuery {
        task: Some(id.clone()),
        limit: PAIRS,
        ..PairQuery::default()
    };
    let mut pairs = hub.store().pairs(&query).await?;
    pairs.reverse();
    let deliveries = hub.deliveries(&visitor.caller, &id).await?;
    let talk = talks::of_task(hub, visitor, &id).await?;
    let mut out = Html::new();
    html!(out, "<div data-watch=\"");
    if !task.state.is_terminal() {
        html!(out, (id));
    }
    html!(out, "\"><div class=\"head\"><h1>Task " [state_badge(task.state)] "</h1><p class=\"id\">"
        (id) "</p></div>" [facts(&console.names, visitor, task, now)] [actions(visitor, task)]);
    let picture = waterfall(task, now, &events, &pairs, &deliveries);
    out.put(&card("Timing", &picture));
    html!(out, "<div class=\"two\">");
    out.put(&card("Conversation", &conversation(visitor, &whole)));
    out.put(&card("Artifacts", &artifacts(visitor, &whole)));
    html!(out, "</div>"[talk]);
    let none = match console.zone.pairs {
        Some(_) => "No request about this task was noted.",
        None => "Requests are not noted: [pairs] in the configuration says which are.",
    };
    out.put(&card(
        "Requests and responses",
        &pair_table(&console.names, &pairs, false, none),
    ));
    out.put(&card("Deliveries", &delivery_table(&deliveries)));
    out.put(&card(
        "Events",
        &story::steps(&console.names, visitor, &events, cut),
    ));
    html!(out, "</div>");
    Ok(out)
}

fn facts(names: &Names, visitor: &Visitor, task: &Task, now: Timestamp) -> Html {
    let mut out = Html::new();
    let owned = format!(
        "/console/tasks{}",
        super::asking(&[("owner", Some(task.owner.as_str()))])
    );
    let ended = task.finished_at.unwrap_or(now);
    html!(out, "<dl class=\"facts\"><div><dt>Agent</dt><dd>" (task.agent)
        "</dd></div><div><dt>Owner</dt><dd><a href=\"" (owned) "\" title=\"" (task.owner) "\">" (names.called(task.owner.as_str()))
        "</a></dd></div><div><dt>Created</dt><dd>" [moment(task.created_at)] "</dd></div>");
    match task.finished_at {
        Some(at) => {
            html!(out, "<div><dt>Ended</dt><dd>" [moment(at)] "</dd></div><div><dt>Took</dt><dd>"
            (between(task.created_at, ended)) "</dd></div>")
        }
        None => html!(out, "<div><dt>Age</dt><dd>" [age(task.created_at, now)] "</dd></div>"),
    }
    html!(out, "<div><dt>Priority</dt><dd>" (task.priority.name().to_ascii_lowercase())
        "</dd></div><div><dt>Conversation</dt><dd class=\"id\">" (task.context_id) "</dd></div>");
    let status = task.status.as_ref().map(|status| status.without_large());
    if let Some(word) = status.and_then(failure_word) {
        html!(out, "<div><dt>Why</dt><dd><code>" (word) "</code></dd></div>");
    }
    html!(out, "</dl>");
    if let Some(metadata) = &task.metadata {
        html!(
            out,
            "<details class=\"metadata\"><summary>Metadata</summary>"
        );
        if visitor.rights.content {
            html!(out, "<pre dir=\"auto\">" (metadata.as_str()) "</pre>");
        } else {
            html!(out, [hidden("metadata")]);
        }
        html!(out, "</details>");
    }
    out
}

fn actions(visitor: &Visitor, task: &Task) -> Html {
    let mut out = Html::new();
    if task.state.is_terminal() {
        return out;
    }
    if !visitor.rights.change {
        return may_not_change();
    }
    html!(out, "<details class=\"ask\"><summary class=\"button\">Cancel…</summary>"
        "<form method=\"post\" action=\"/console/tasks/" (segment(task.id.as_str())) "/cancel\">"
        [token(visitor)] "<p>The agent stops at once, and the owner sees that an operator did it.</p>"
        "<button class=\"danger\">Cancel this task</button></form></details>");
    out
}

fn conversation(visitor: &Visitor, whole: &WholeTask) -> Html {
    let mut out = Html::new();
    let all = usize::try_from(whole.task.messages).unwrap_or(usize::MAX);
    let first = all.saturating_sub(whole.messages.len());
    if first > 0 {
        html!(out, "<p class=\"soft\">" (first) " earlier messages are not shown.</p>");
    }
    if whole.messages.is_empty() {
        html!(out, "<p class=\"soft\">Nothing was said.</p>");
    }
    html!(out, "<ol class=\"talk\">");
    for (number, packed) in whole.messages.iter().enumerate() {
        let message = packed.without_large();
        let role = message.role().name();
        html!(out, "<li class=\"" (role) "\"><p class=\"by\"><span>" (role) "</span>");
        if let Some(at) = message.timestamp() {
            html!(out, [moment(at)]);
        }
        let place = Place {
            task: &whole.task.id,
            of: "message",
            index: first + number,
            named: None,
        };
        html!(out, "</p>" [parts(visitor, packed, Some(&place))] "</li>");
    }
    html!(out, "</ol>");
    out
}

fn artifacts(visitor: &Visitor, whole: &WholeTask) -> Html {
    let mut out = Html::new();
    if whole.artifacts.is_empty() {
        html!(out, "<p class=\"soft\">None was made.</p>");
        return out;
    }
    html!(out, "<ul class=\"artifacts\">");
    for (index, packed) in whole.artifacts.iter().enumerate() {
        let artifact = packed.without_large();
        html!(out, "<li><p class=\"by\">");
        if visitor.rights.content {
            html!(out, "<span>" (artifact.name()) "</span>");
        } else {
            html!(out, [hidden("name")]);
        }
        let place = Place {
            task: &whole.task.id,
            of: "artifact",
            index,
            named: Some(artifact.name()),
        };
        html!(out, "</p>" [parts(visitor, packed, Some(&place))] "</li>");
    }
    html!(out, "</ul>");
    out
}

fn delivery_table(deliveries: &[Delivered]) -> Html {
    let heads = [
        "State",
        "Event",
        "Channel",
        "Subscription",
        "Attempts",
        "Added",
        "Next or last",
        "Error",
    ];
    let rows = deliveries.iter().map(|delivery| {
        let carried = &delivery.carried;
        let (fate, mut out) = (carried.fate, Html::new());
        html!(out, "<tr><td data-label=\"State\">" [badge(fate_tone(fate), fate.name())]
            "</td><td data-label=\"Event\">" (delivery.seq.map_or_else(String::new, |seq| seq.to_string()))
            "</td><td data-label=\"Channel\">" (delivery.channel)
            "</td><td data-label=\"Subscription\" class=\"id\">" (delivery.push)
            "</td><td data-label=\"Attempts\" class=\"n\">" (carried.attempt)
            "</td><td data-label=\"Added\">" [moment(carried.created_at)]
            "</td><td data-label=\"Next or last\">");
        let at = match fate {
            Fate::Waiting => Some(carried.due_at),
            Fate::Delivered | Fate::Dead => carried.settled_at,
        };
        if let Some(at) = at {
            html!(out, [moment(at)]);
        }
        html!(out, "</td><td data-label=\"Error\">"(carried.error.as_deref().unwrap_or("–")));
        if fate == Fate::Dead {
            html!(
                out,
                " <a href=\"/console/dead-letters\">Dead letters</a>"
            );
        }
        html!(out, "</td></tr>");
        out
    });
    table(None, &heads, rows, "Nobody outside is told of this task.")
}
