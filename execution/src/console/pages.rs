//! Console pages, one module each, and their shared components.

pub(super) mod agents;
pub(super) mod conversations;
pub(super) mod dead_letters;
pub(super) mod limits;
pub(super) mod overview;
mod parts;
pub(super) mod search;
pub(super) mod streams;
pub(super) mod task;
pub(super) mod tasks;
mod timeline;
pub(super) mod topics;
mod waterfall;

use super::client_names::ClientNames;
use super::format::{badge, relative_time, state_badge, stream_label, stream_tone};
use axum::http::Uri;
use interzone_edge::html::{Html, html};
use interzone_hub::ports::RequestLogEntry;
use interzone_hub::{Stream, Task};
use interzone_protocol::vocab::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use url::form_urlencoded;

/// Query parameters of a URL; empty values count as absent.
pub(super) struct QueryParams(HashMap<String, String>);

impl QueryParams {
    pub(super) fn from_uri(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        let non_empty = pairs.filter(|(_, value)| !value.trim().is_empty());
        Self(
            non_empty
                .map(|(name, value)| (name.into_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Builds a query string, including the question mark.
fn query_string(pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("?{}", query.finish())
}

/// Filter of a list, so that the page's script knows which rows belong to it.
#[derive(Serialize)]
struct ListFilter<'s> {
    /// `tasks` or `streams`, as in live updates.
    #[serde(rename = "of")]
    resource: &'static str,
    /// True on the first page, where new rows belong.
    #[serde(rename = "first")]
    is_first_page: bool,
    /// Labels of the listed states; empty means any.
    states: Vec<&'static str>,
    agent: Option<&'s str>,
    owner: Option<&'s str>,
}

impl ListFilter<'_> {
    /// The end of a list's tag, and the bar above its table that offers new rows.
    fn render_header(&self) -> Html {
        let mut out = Html::new();
        let shown = serde_json::to_string(self).unwrap_or_default();
        html!(out, " data-shown=\"" (shown)
            "\"><div class=\"news\"><p class=\"soft\">Newest change first</p>"
            "<button type=\"button\" id=\"newer\" hidden></button>"
            "<span class=\"aside\" role=\"status\"></span></div>");
        out
    }
}

/// Encodes an id as a path segment.
fn path_segment(id: &str) -> String {
    // Form encoding writes a space as `+`.
    let encoded: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// A row of a task list. The page's script fills the same row by its `data-f` names.
fn task_row(names: &ClientNames, task: &Task, now: Timestamp, is_live: bool) -> Html {
    let mut out = Html::new();
    let href = format!("/console/tasks/{}", path_segment(task.id.as_str()));
    html!(out, "<tr data-id=\"" (task.id) "\"");
    if is_live && task.state.is_terminal() {
        html!(out, " class=\"done\" data-ended=\"0\"");
    }
    html!(out, "><td data-label=\"State\" data-f=\"state\">" [state_badge(task.state)] "</td><td data-label=\"Task\"><a class=\"id\" data-f=\"id\" href=\"" (href)
        "\">" (task.id) "</a></td><td data-label=\"Agent\" data-f=\"agent\">" (task.agent)
        "</td><td data-label=\"Owner\" data-f=\"owner\" title=\"" (task.owner) "\">" (names.display_name(task.owner.as_str()))
        "</td><td data-label=\"Age\" class=\"n\" data-f=\"created\">" [relative_time(task.created_at, now)]
        "</td><td data-label=\"Changed\" class=\"n\" data-f=\"updated\">" [relative_time(task.updated_at, now)] "</td></tr>");
    out
}

/// A task list. A named one is updated by the page's script.
fn task_table(
    names: &ClientNames,
    tasks: &[Task],
    now: Timestamp,
    name: Option<&str>,
    empty_text: &'static str,
) -> Html {
    let heads = ["State", "Task", "Agent", "Owner", "Age", "Changed"];
    let rows = tasks
        .iter()
        .map(|task| task_row(names, task, now, name == Some("tasks")));
    table(name, &heads, rows, empty_text)
}

fn stream_row(names: &ClientNames, stream: &Stream, now: Timestamp) -> Html {
    let mut out = Html::new();
    let href = format!("/console/streams/{}", path_segment(stream.id.as_str()));
    html!(out, "<tr data-id=\"" (stream.id) "\"><td data-label=\"State\" data-f=\"state\">"
        [badge(stream_tone(stream.state), stream_label(stream.state))]
        "</td><td data-label=\"Stream\"><a class=\"id\" data-f=\"id\" href=\"" (href) "\">" (stream.id)
        "</a></td><td data-label=\"Owner\" data-f=\"owner\" title=\"" (stream.owner) "\">" (names.display_name(stream.owner.as_str()))
        "</td><td data-label=\"Age\" class=\"n\" data-f=\"created\">" [relative_time(stream.created_at, now)]
        "</td><td data-label=\"Changed\" class=\"n\" data-f=\"updated\">" [relative_time(stream.updated_at, now)] "</td></tr>");
    out
}

fn stream_table(
    names: &ClientNames,
    streams: &[Stream],
    now: Timestamp,
    name: Option<&str>,
    empty_text: &'static str,
) -> Html {
    let heads = ["State", "Stream", "Owner", "Age", "Changed"];
    let rows = streams.iter().map(|stream| stream_row(names, stream, now));
    table(name, &heads, rows, empty_text)
}

/// A table, shown as cards on narrow screens, or a text if it is empty.
fn table(
    name: Option<&str>,
    heads: &[&'static str],
    rows: impl IntoIterator<Item = Html>,
    empty_text: &'static str,
) -> Html {
    let mut out = Html::new();
    let mut body = Html::new();
    for row in rows {
        body.put(&row);
    }
    let is_empty = body.is_empty();
    if is_empty && name.is_none() {
        html!(out, "<p class=\"soft\">" (empty_text) "</p>");
        return out;
    }
    // Tables with fixed column widths.
    let class = match heads {
        _ if heads.contains(&"Changed") => "list rows",
        _ if heads.contains(&"Correlation") => "list requests",
        _ if heads.contains(&"Next or last") => "list deliveries",
        _ if heads.contains(&"About") => "list dead-letters",
        _ => "list",
    };
    html!(out, "<div class=\"scroll\"><table class=\"" (class) "\"");
    if let Some(name) = name {
        html!(out, " data-live=\"" (name) "\"");
    }
    html!(out, "><thead><tr>");
    for head in heads {
        let is_numeric = [
            "Age",
            "Changed",
            "Took",
            "Attempts",
            "Count",
            "Questions",
            "Asked",
        ]
        .contains(head);
        let class = if is_numeric { "n" } else { "" };
        html!(out, "<th scope=\"col\" class=\"" (class) "\">" (head) "</th>");
    }
    html!(out, "</tr></thead><tbody>"[body]);
    if is_empty {
        html!(out, "<tr class=\"none\"><td colspan=\"" (heads.len()) "\">" (empty_text) "</td></tr>");
    }
    html!(out, "</tbody></table></div>");
    out
}

/// Table of logged requests.
fn request_table(
    names: &ClientNames,
    requests: &[RequestLogEntry],
    with_task: bool,
    empty_text: &'static str,
) -> Html {
    let mut heads = vec![
        "Answered",
        "Id",
        "Method",
        "Outcome",
        "Took",
        "Caller",
        "Correlation",
    ];
    if with_task {
        heads.push("Task");
    }
    let rows = requests
        .iter()
        .map(|pair| request_row(names, pair, with_task));
    table(None, &heads, rows, empty_text)
}

fn request_row(names: &ClientNames, request: &RequestLogEntry, with_task: bool) -> Html {
    let mut out = Html::new();
    let tone = if request.code.is_some() {
        "bad"
    } else {
        "good"
    };
    let id = request.id.as_deref().unwrap_or("notification");
    html!(out, "<tr><td data-label=\"Answered\">" [super::format::timestamp(request.answered_at)]
        "</td><td data-label=\"Id\" title=\"" (id) "\"><code>" (id)
        "</code></td><td data-label=\"Method\" title=\"" (request.method) "\"><code>" (request.method)
        "</code></td><td data-label=\"Outcome\">" [badge(tone, &request.outcome)]);
    if let Some(code) = request.code {
        html!(out, " <code>" (code) "</code>");
    }
    html!(out, "</td><td data-label=\"Took\" class=\"n\">" (super::format::duration_exact(request.duration))
        "</td><td data-label=\"Caller\" class=\"cut\" title=\"" (request.principal));
    if request.client == request.principal {
        html!(out, "\">"(names.display_name(&request.principal)));
    } else {
        html!(out, " by " (request.client) "\">" (names.display_name(&request.principal)) " <span class=\"soft\">by "
            (names.display_name(&request.client)) "</span>");
    }
    let search_url = format!(
        "/console/search{}",
        query_string(&[("q", Some(&request.correlation_id))])
    );
    html!(out, "</td><td data-label=\"Correlation\"><a class=\"id\" href=\"" (search_url) "\">"
        (request.correlation_id) "</a></td>");
    if with_task {
        html!(out, "<td data-label=\"Task\">");
        match &request.task {
            Some(task) => {
                let href = format!("/console/tasks/{}", path_segment(task.as_str()));
                html!(out, "<a class=\"id\" href=\"" (href) "\">" (task) "</a>");
            }
            None => html!(out, "–"),
        }
        html!(out, "</td>");
    }
    html!(out, "</tr>");
    out
}

/// A section of a page with a heading.
fn card(title: &str, body: &Html) -> Html {
    let mut out = Html::new();
    html!(out, "<section class=\"card\"><h2>" (title) "</h2>" [body] "</section>");
    out
}

/// A counter with a label and a link.
fn tile(
    name: &str,
    label: &'static str,
    value: impl std::fmt::Display,
    tone: &str,
    href: &str,
) -> Html {
    let mut out = Html::new();
    html!(out, "<a class=\"tile " (tone) "\" href=\"" (href) "\"><span class=\"value\" data-count=\"" (name)
        "\">" (value) "</span><span class=\"label\">" (label) "</span></a>");
    out
}
