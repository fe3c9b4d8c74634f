//! Page of one task.

use super::parts::{PartsLocation, render_parts};
use super::waterfall::waterfall;
use super::{card, conversations, path_segment, request_table, table, timeline};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::client_names::ClientNames;
use crate::console::format::{
    badge, delivery_tone, elapsed, relative_time, state_badge, timestamp,
};
use crate::console::layout::{
    self, PageError, csrf_field, hidden_content, missing_change_scope_notice,
};
use crate::console::sign_in::see_other;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::ports::RequestQuery;
use interzone_hub::{DeliveryState, PushDelivery, Subject, Task, TaskSnapshot, failure_code};
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::sync::Arc;

/// Maximum number of messages and requests shown.
const MAX_MESSAGES: u32 = 200;
const MAX_REQUESTS: usize = 200;
/// Reason recorded when an operator cancels a task.
const CANCEL_REASON: &str = "Canceled by an operator";

/// `GET /console/tasks/{id}`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    Path(id): Path<String>,
) -> Response {
    let body = body(&console, &visitor, &id).await;
    let title = format!("Task {id}");
    layout::page(&console, &visitor, "/console/tasks", &title, body)
}

/// `POST /console/tasks/{id}/cancel`.
pub(in crate::console) async fn cancel(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    Path(id): Path<String>,
) -> Response {
    let cancelled = async {
        let id = TaskId::new(&id).map_err(|_| PageError::NotFound("task"))?;
        let hub = &console.zone.hub;
        hub.cancel(&visitor.caller, &id, Some(CANCEL_REASON))
            .await?;
        Ok::<_, PageError>(())
    };
    match cancelled.await {
        Ok(()) => see_other(&format!("/console/tasks/{}", path_segment(&id))),
        Err(problem) => layout::error_page(&console, Some(&visitor), &problem),
    }
}

async fn body(console: &Console, visitor: &SignedInUser, id: &str) -> Result<Html, PageError> {
    let id = TaskId::new(id).map_err(|_| PageError::NotFound("task"))?;
    let hub = &console.zone.hub;
    let memory = visitor.memory(console);
    let snapshot = hub.task_without_blobs(&visitor.caller, &id, MAX_MESSAGES, Some(&memory));
    let snapshot = snapshot.await?;
    let task = &snapshot.task;
    let now = hub.now();
    let (events, is_truncated) =
        timeline::load_events(hub, &Subject::Task(id.clone()), task.seq).await?;
    if let Some(log) = &console.zone.request_log {
        log.flushed().await;
    }
    let query = RequestQuery {
        task: Some(id.clone()),
        limit: MAX_REQUESTS,
        ..RequestQuery::default()
    };
    let mut requests = hub.store().find_requests(&query).await?;
    requests.reverse();
    let deliveries = hub.push_deliveries(&visitor.caller, &id).await?;
    let thread_card = conversations::task_card(hub, visitor, &id).await?;
    let mut out = Html::new();
    html!(out, "<div data-watch=\"");
    if !task.state.is_terminal() {
        html!(out, (id));
    }
    html!(out, "\"><div class=\"head\"><h1>Task " [state_badge(task.state)] "</h1><p class=\"id\">"
        (id) "</p></div>" [facts_list(&console.names, visitor, task, now)] [actions(visitor, task)]);
    let chart = waterfall(task, now, &events, &requests, &deliveries);
    out.put(&card("Timing", &chart));
    html!(out, "<div class=\"two\">");
    out.put(&card("Conversation", &conversation(visitor, &snapshot)));
    out.put(&card("Artifacts", &artifacts(visitor, &snapshot)));
    html!(out, "</div>"[thread_card]);
    let empty_text = match console.zone.request_log {
        Some(_) => "No logged requests for this task.",
        None => "Requests are not logged; see [request_log] in the configuration.",
    };
    out.put(&card(
        "Requests and responses",
        &request_table(&console.names, &requests, false, empty_text),
    ));
    out.put(&card("Deliveries", &delivery_table(&deliveries)));
    out.put(&card(
        "Events",
        &timeline::steps(&console.names, visitor, &events, is_truncated),
    ));
    html!(out, "</div>");
    Ok(out)
}

fn facts_list(names: &ClientNames, visitor: &SignedInUser, task: &Task, now: Timestamp) -> Html {
    let mut out = Html::new();
    let owner_tasks = format!(
        "/console/tasks{}",
        super::query_string(&[("owner", Some(task.owner.as_str()))])
    );
    let ended = task.finished_at.unwrap_or(now);
    html!(out, "<dl class=\"facts\"><div><dt>Agent</dt><dd>" (task.agent)
        "</dd></div><div><dt>Owner</dt><dd><a href=\"" (owner_tasks) "\" title=\"" (task.owner) "\">" (names.display_name(task.owner.as_str()))
        "</a></dd></div><div><dt>Created</dt><dd>" [timestamp(task.created_at)] "</dd></div>");
    match task.finished_at {
        Some(at) => {
            html!(out, "<div><dt>Ended</dt><dd>" [timestamp(at)] "</dd></div><div><dt>Took</dt><dd>"
            (elapsed(task.created_at, ended)) "</dd></div>")
        }
        None => {
            html!(out, "<div><dt>Age</dt><dd>" [relative_time(task.created_at, now)] "</dd></div>")
        }
    }
    html!(out, "<div><dt>Priority</dt><dd>" (task.priority.name().to_ascii_lowercase())
        "</dd></div><div><dt>Conversation</dt><dd class=\"id\">" (task.context_id) "</dd></div>");
    let status = task.status_message.as_ref().map(|status| status.inline());
    if let Some(code) = status.and_then(failure_code) {
        html!(out, "<div><dt>Error code</dt><dd><code>" (code) "</code></dd></div>");
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
            html!(out, [hidden_content("metadata")]);
        }
        html!(out, "</details>");
    }
    out
}

fn actions(visitor: &SignedInUser, task: &Task) -> Html {
    let mut out = Html::new();
    if task.state.is_terminal() {
        return out;
    }
    if !visitor.rights.change {
        return missing_change_scope_notice();
    }
    html!(out, "<details class=\"ask\"><summary class=\"button\">Cancel…</summary>"
        "<form method=\"post\" action=\"/console/tasks/" (path_segment(task.id.as_str())) "/cancel\">"
        [csrf_field(visitor)] "<p>The agent stops immediately; the owner sees that an operator canceled the task.</p>"
        "<button class=\"danger\">Cancel this task</button></form></details>");
    out
}

fn conversation(visitor: &SignedInUser, snapshot: &TaskSnapshot) -> Html {
    let mut out = Html::new();
    let total = usize::try_from(snapshot.task.message_count).unwrap_or(usize::MAX);
    let first = total.saturating_sub(snapshot.messages.len());
    if first > 0 {
        html!(out, "<p class=\"soft\">" (first) " earlier messages are not shown.</p>");
    }
    if snapshot.messages.is_empty() {
        html!(out, "<p class=\"soft\">No messages.</p>");
    }
    html!(out, "<ol class=\"messages\">");
    for (index, stored) in snapshot.messages.iter().enumerate() {
        let message = stored.inline();
        let role = message.role().name();
        html!(out, "<li class=\"" (role) "\"><p class=\"by\"><span>" (role) "</span>");
        if let Some(at) = message.timestamp() {
            html!(out, [timestamp(at)]);
        }
        let location = PartsLocation {
            task: &snapshot.task.id,
            container: "message",
            index: first + index,
            heading: None,
        };
        html!(out, "</p>" [render_parts(visitor, stored, Some(&location))] "</li>");
    }
    html!(out, "</ol>");
    out
}

fn artifacts(visitor: &SignedInUser, snapshot: &TaskSnapshot) -> Html {
    let mut out = Html::new();
    if snapshot.artifacts.is_empty() {
        html!(out, "<p class=\"soft\">No artifacts.</p>");
        return out;
    }
    html!(out, "<ul class=\"artifacts\">");
    for (index, stored) in snapshot.artifacts.iter().enumerate() {
        let artifact = stored.inline();
        html!(out, "<li><p class=\"by\">");
        if visitor.rights.content {
            html!(out, "<span>" (artifact.name()) "</span>");
        } else {
            html!(out, [hidden_content("name")]);
        }
        let location = PartsLocation {
            task: &snapshot.task.id,
            container: "artifact",
            index,
            heading: Some(artifact.name()),
        };
        html!(out, "</p>" [render_parts(visitor, stored, Some(&location))] "</li>");
    }
    html!(out, "</ul>");
    out
}

fn delivery_table(deliveries: &[PushDelivery]) -> Html {
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
        let status = &delivery.status;
        let (state, mut out) = (status.state, Html::new());
        html!(out, "<tr><td data-label=\"State\">" [badge(delivery_tone(state), state.name())]
            "</td><td data-label=\"Event\">" (delivery.seq.map_or_else(String::new, |seq| seq.to_string()))
            "</td><td data-label=\"Channel\">" (delivery.channel)
            "</td><td data-label=\"Subscription\" class=\"id\">" (delivery.subscription_id)
            "</td><td data-label=\"Attempts\" class=\"n\">" (status.attempt)
            "</td><td data-label=\"Added\">" [timestamp(status.created_at)]
            "</td><td data-label=\"Next or last\">");
        let at = match state {
            DeliveryState::Waiting => Some(status.due_at),
            DeliveryState::Delivered | DeliveryState::Dead => status.settled_at,
        };
        if let Some(at) = at {
            html!(out, [timestamp(at)]);
        }
        html!(out, "</td><td data-label=\"Error\">"(status.error.as_deref().unwrap_or("–")));
        if state == DeliveryState::Dead {
            html!(
                out,
                " <a href=\"/console/dead-letters\">Dead letters</a>"
            );
        }
        html!(out, "</td></tr>");
        out
    });
    table(None, &heads, rows, "No deliveries for this task.")
}
