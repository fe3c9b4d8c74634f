//! The pages, one file each, and what several of them have in common.

pub(super) mod agents;
pub(super) mod letters;
pub(super) mod limits;
pub(super) mod overview;
mod parts;
pub(super) mod search;
mod story;
pub(super) mod streams;
pub(super) mod talks;
pub(super) mod task;
pub(super) mod tasks;
pub(super) mod topics;
mod waterfall;

use super::html::{Html, html};
use super::names::Names;
use super::words::{age, badge, state_badge, stream_called, stream_tone};
use axum::http::Uri;
use interzone_hub::ports::Pair;
use interzone_hub::{Stream, Task};
use interzone_protocol::vocab::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use url::form_urlencoded;

/// What stands behind the question mark of an address; what is empty counts as absent.
pub(super) struct Asked(HashMap<String, String>);

impl Asked {
    pub(super) fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        let given = pairs.filter(|(_, value)| !value.trim().is_empty());
        Self(
            given
                .map(|(name, value)| (name.into_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The end of an address: a question mark and what is given.
fn asking(pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("?{}", query.finish())
}

/// What a list is of, so that the page's script knows what belongs there.
#[derive(Serialize)]
struct Shown<'s> {
    /// Tasks or streams, as the feed calls them.
    of: &'static str,
    /// Whether it is the first page, on which what is new belongs.
    first: bool,
    /// In words, as the rows have them; none means any.
    states: Vec<&'static str>,
    agent: Option<&'s str>,
    owner: Option<&'s str>,
}

impl Shown<'_> {
    /// The rest of a list's tag, and the line above its table, in which what is new is offered.
    fn written(&self) -> Html {
        let mut out = Html::new();
        let shown = serde_json::to_string(self).unwrap_or_default();
        html!(out, " data-shown=\"" (shown)
            "\"><div class=\"news\"><p class=\"soft\">Newest change first</p>"
            "<button type=\"button\" id=\"newer\" hidden></button>"
            "<span class=\"aside\" role=\"status\"></span></div>");
        out
    }
}

/// An id as a segment of an address.
fn segment(id: &str) -> String {
    // The serializer is one for forms, where a space is a plus.
    let encoded: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// One row of a list of tasks. The page's script fills the same row by the names of its fields.
fn task_row(names: &Names, task: &Task, now: Timestamp, live: bool) -> Html {
    let mut out = Html::new();
    let href = format!("/console/tasks/{}", segment(task.id.as_str()));
    html!(out, "<tr data-id=\"" (task.id) "\"");
    if live && task.state.is_terminal() {
        html!(out, " class=\"done\" data-ended=\"0\"");
    }
    html!(out, "><td data-label=\"State\" data-f=\"state\">" [state_badge(task.state)] "</td><td data-label=\"Task\"><a class=\"id\" data-f=\"id\" href=\"" (href)
        "\">" (task.id) "</a></td><td data-label=\"Agent\" data-f=\"agent\">" (task.agent)
        "</td><td data-label=\"Owner\" data-f=\"owner\" title=\"" (task.owner) "\">" (names.called(task.owner.as_str()))
        "</td><td data-label=\"Age\" class=\"n\" data-f=\"created\">" [age(task.created_at, now)]
        "</td><td data-label=\"Changed\" class=\"n\" data-f=\"updated\">" [age(task.updated_at, now)] "</td></tr>");
    out
}

/// A list of tasks. One that has a name is kept up by the page's script.
fn task_table(
    names: &Names,
    tasks: &[Task],
    now: Timestamp,
    name: Option<&str>,
    none: &'static str,
) -> Html {
    let heads = ["State", "Task", "Agent", "Owner", "Age", "Changed"];
    let rows = tasks
        .iter()
        .map(|task| task_row(names, task, now, name == Some("tasks")));
    table(name, &heads, rows, none)
}

fn stream_row(names: &Names, stream: &Stream, now: Timestamp) -> Html {
    let mut out = Html::new();
    let href = format!("/console/streams/{}", segment(stream.id.as_str()));
    html!(out, "<tr data-id=\"" (stream.id) "\"><td data-label=\"State\" data-f=\"state\">"
        [badge(stream_tone(stream.state), stream_called(stream.state))]
        "</td><td data-label=\"Stream\"><a class=\"id\" data-f=\"id\" href=\"" (href) "\">" (stream.id)
        "</a></td><td data-label=\"Owner\" data-f=\"owner\" title=\"" (stream.owner) "\">" (names.called(stream.owner.as_str()))
        "</td><td data-label=\"Age\" class=\"n\" data-f=\"created\">" [age(stream.created_at, now)]
        "</td><td data-label=\"Changed\" class=\"n\" data-f=\"updated\">" [age(stream.updated_at, now)] "</td></tr>");
    out
}

fn stream_table(
    names: &Names,
    streams: &[Stream],
    now: Timestamp,
    name: Option<&str>,
    none: &'static str,
) -> Html {
    let heads = ["State", "Stream", "Owner", "Age", "Changed"];
    let rows = streams.iter().map(|stream| stream_row(names, stream, now));
    table(name, &heads, rows, none)
}

/// A table that becomes cards where there is little room. If it is empty, words say so.
fn table(
    name: Option<&str>,
    heads: &[&'static str],
    rows: impl IntoIterator<Item = Html>,
    none: &'static str,
) -> Html {
    let mut out = Html::new();
    let mut body = Html::new();
    for row in rows {
        body.put(&row);
    }
    let is_empty = body.is_empty();
    if is_empty && name.is_none() {
        html!(out, "<p class=\"soft\">" (none) "</p>");
        return out;
    }
    // Those whose columns have a place of their own, so that all of them fit.
    let rows = match heads {
        _ if heads.contains(&"Changed") => "list rows",
        _ if heads.contains(&"Correlation") => "list pairs",
        _ if heads.contains(&"Next or last") => "list deliveries",
        _ if heads.contains(&"About") => "list letters",
        _ => "list",
    };
    html!(out, "<div class=\"scroll\"><table class=\"" (rows) "\"");
    if let Some(name) = name {
        html!(out, " data-live=\"" (name) "\"");
    }
    html!(out, "><thead><tr>");
    for head in heads {
        let number = [
            "Age",
            "Changed",
            "Took",
            "Attempts",
            "Count",
            "Questions",
            "Asked",
        ]
        .contains(head);
        let class = if number { "n" } else { "" };
        html!(out, "<th scope=\"col\" class=\"" (class) "\">" (head) "</th>");
    }
    html!(out, "</tr></thead><tbody>"[body]);
    if is_empty {
        html!(out, "<tr class=\"none\"><td colspan=\"" (heads.len()) "\">" (none) "</td></tr>");
    }
    html!(out, "</tbody></table></div>");
    out
}

/// Requests and how they were answered.
fn pair_table(names: &Names, pairs: &[Pair], with_task: bool, none: &'static str) -> Html {
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
    let rows = pairs.iter().map(|pair| pair_row(names, pair, with_task));
    table(None, &heads, rows, none)
}

fn pair_row(names: &Names, pair: &Pair, with_task: bool) -> Html {
    let mut out = Html::new();
    let tone = if pair.code.is_some() { "bad" } else { "good" };
    let id = pair.id.as_deref().unwrap_or("notification");
    html!(out, "<tr><td data-label=\"Answered\">" [super::words::moment(pair.at)]
        "</td><td data-label=\"Id\" title=\"" (id) "\"><code>" (id)
        "</code></td><td data-label=\"Method\" title=\"" (pair.method) "\"><code>" (pair.method)
        "</code></td><td data-label=\"Outcome\">" [badge(tone, &pair.outcome)]);
    if let Some(code) = pair.code {
        html!(out, " <code>" (code) "</code>");
    }
    html!(out, "</td><td data-label=\"Took\" class=\"n\">" (super::words::exactly(pair.took))
        "</td><td data-label=\"Caller\" class=\"cut\" title=\"" (pair.who));
    if pair.client == pair.who {
        html!(out, "\">"(names.called(&pair.who)));
    } else {
        html!(out, " by " (pair.client) "\">" (names.called(&pair.who)) " <span class=\"soft\">by "
            (names.called(&pair.client)) "</span>");
    }
    let found = format!(
        "/console/search{}",
        asking(&[("q", Some(&pair.correlation))])
    );
    html!(out, "</td><td data-label=\"Correlation\"><a class=\"id\" href=\"" (found) "\">"
        (pair.correlation) "</a></td>");
    if with_task {
        html!(out, "<td data-label=\"Task\">");
        match &pair.task {
            Some(task) => {
                let href = format!("/console/tasks/{}", segment(task.as_str()));
                html!(out, "<a class=\"id\" href=\"" (href) "\">" (task) "</a>");
            }
            None => html!(out, "–"),
        }
        html!(out, "</td>");
    }
    html!(out, "</tr>");
    out
}

/// A part of a page under a heading.
fn card(title: &str, body: &Html) -> Html {
    let mut out = Html::new();
    html!(out, "<section class=\"card\"><h2>" (title) "</h2>" [body] "</section>");
    out
}

/// A figure with what it counts.
fn tile(
    name: &str,
    label: &'static str,
    value: impl std::fmt::Display,
    tone: &str,
    to: &str,
) -> Html {
    let mut out = Html::new();
    html!(out, "<a class=\"tile " (tone) "\" href=\"" (to) "\"><span class=\"value\" data-count=\"" (name)
        "\">" (value) "</span><span class=\"label\">" (label) "</span></a>");
    out
}
