//! Timeline of a task or stream: its event log, with consecutive text deltas merged.

use super::parts::render_parts;
use crate::console::auth_middleware::SignedInUser;
use crate::console::client_names::ClientNames;
use crate::console::format::{format_bytes, state_label, stream_label, timestamp_ms};
use crate::console::layout::{PageError, hidden_content};
use interzone_edge::html::{Html, html};
use interzone_hub::{Event, EventBody, Hub, Subject};
use interzone_protocol::vocab::Timestamp;

/// Maximum number of events per page, and per store read.
const MAX_EVENTS: usize = 2_000;
const READ_BATCH: usize = 500;
/// Maximum number of characters shown per step.
const MAX_SHOWN_CHARS: usize = 2_000;

/// Reads the latest events, oldest first. The flag is true if older events were left out.
pub(super) async fn load_events(
    hub: &Hub,
    subject: &Subject,
    last: u64,
) -> Result<(Vec<Event>, bool), PageError> {
    let first = last.saturating_sub(u64::try_from(MAX_EVENTS).unwrap_or(u64::MAX));
    let (mut after, mut events) = (first, Vec::new());
    while events.len() < MAX_EVENTS {
        let page = hub.store().events(subject, after, READ_BATCH).await?;
        let is_full = page.len() == READ_BATCH;
        after = page.last().map_or(after, |event| event.seq);
        events.extend(page);
        if !is_full {
            break;
        }
    }
    Ok((events, first > 0))
}

/// A step of the timeline.
struct TimelineStep {
    seq: u64,
    last: u64,
    at: Timestamp,
    content: StepContent,
}

enum StepContent {
    /// Text deltas: run number, number of chunks, and the text.
    Text(u64, usize, String),
    /// Status lines of the agent.
    Status(Vec<String>),
    Other(Html),
}

/// Merges events into steps: consecutive text deltas of a run, and consecutive status lines, are one step.
fn merge_events(
    names: &ClientNames,
    visitor: &SignedInUser,
    events: &[Event],
) -> Vec<TimelineStep> {
    let mut steps: Vec<TimelineStep> = Vec::new();
    for event in events {
        let last = steps.last_mut();
        let content = match (&event.body, last) {
            (EventBody::Text { run, delta, .. }, last) => {
                if let Some(step) = last
                    && let StepContent::Text(step_run, chunks, text) = &mut step.content
                    && step_run == run
                {
                    *chunks += 1;
                    text.push_str(delta);
                    step.last = event.seq;
                    continue;
                }
                StepContent::Text(*run, 1, delta.clone())
            }
            (EventBody::Status { text }, last) => {
                if let Some(step) = last
                    && let StepContent::Status(lines) = &mut step.content
                {
                    lines.push(text.clone());
                    step.last = event.seq;
                    continue;
                }
                StepContent::Status(vec![text.clone()])
            }
            (body, _) => StepContent::Other(event_html(names, visitor, body)),
        };
        steps.push(TimelineStep {
            seq: event.seq,
            last: event.seq,
            at: event.at,
            content,
        });
    }
    steps
}

/// Renders the steps as a list.
pub(super) fn steps(
    names: &ClientNames,
    visitor: &SignedInUser,
    events: &[Event],
    is_truncated: bool,
) -> Html {
    let mut out = Html::new();
    if is_truncated {
        html!(
            out,
            "<p class=\"soft\">Only the latest events are shown.</p>"
        );
    }
    html!(out, "<ol class=\"steps\">");
    for step in merge_events(names, visitor, events) {
        html!(out, "<li><span class=\"seq\">"(step.seq));
        if step.last > step.seq {
            html!(out, "–"(step.last));
        }
        html!(out, "</span>" [timestamp_ms(step.at)] "<div class=\"what\">");
        match step.content {
            StepContent::Other(body) => out.put(&body),
            StepContent::Text(_, chunks, text) => {
                let size = format_bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
                let unit = if chunks == 1 { "chunk" } else { "chunks" };
                html!(out, "Answer extended by " (chunks) " " (unit) ", " (size));
                let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
                details(visitor, &mut out, "Text", &shown);
            }
            StepContent::Status(lines) => {
                html!(out, "Status");
                match (lines.as_slice(), visitor.rights.content) {
                    (lines, false) => {
                        html!(out, " "[hidden_content(&format!("{} lines", lines.len()))])
                    }
                    ([line], true) => html!(out, " <span class=\"soft\">" (line) "</span>"),
                    (lines, true) => {
                        let last = lines.last().map_or("", String::as_str);
                        html!(out, ", " (lines.len()) " lines, last <span class=\"soft\">" (last) "</span>");
                        let all: String = lines.join("\n").chars().take(MAX_SHOWN_CHARS).collect();
                        details(visitor, &mut out, "All", &all);
                    }
                }
            }
        }
        html!(out, "</div></li>");
    }
    html!(out, "</ol>");
    out
}

fn details(visitor: &SignedInUser, out: &mut Html, title: &'static str, text: &str) {
    if visitor.rights.content {
        html!(out, "<details><summary>" (title) "</summary><div class=\"content\" dir=\"auto\">" (text)
            "</div></details>");
    }
}

fn event_html(names: &ClientNames, visitor: &SignedInUser, body: &EventBody) -> Html {
    let mut out = Html::new();
    match body {
        EventBody::Created { .. } => html!(out, "Accepted"),
        EventBody::State { from, to, message } => {
            html!(out, (state_label(*from)) " → <strong>" (state_label(*to)) "</strong>");
            if let Some(message) = message {
                html!(out, [render_parts(visitor, message, None)]);
            }
        }
        EventBody::Message { index, message, .. } => {
            let message = message.inline();
            let role = message.role().name();
            html!(out, "Message " (index + 1) " from ");
            match message.author() {
                Some(author) => html!(out, (names.display_name(author.as_str())) " as " (role)),
                None => html!(out, "the "(role)),
            }
        }
        EventBody::Artifact {
            artifact,
            append,
            last,
        } => {
            let label = match (append, last) {
                (true, true) => "Artifact completed",
                (true, false) => "Artifact extended",
                (false, _) => "Artifact",
            };
            html!(out, (label) " ");
            let artifact = artifact.inline();
            if visitor.rights.content {
                html!(out, "<strong>" (artifact.name()) "</strong>");
            } else {
                html!(out, [hidden_content("name")]);
            }
        }
        EventBody::Text { .. } | EventBody::Status { .. } => {}
        EventBody::Chunk { from, chunk, last } => {
            html!(out, "<span title=\"" (from) "\">" (names.display_name(from.as_str())) "</span>");
            if *last {
                html!(out, " <span class=\"soft\">(complete)</span>");
            }
            html!(out, [render_parts(visitor, chunk, None)]);
        }
        EventBody::StreamState { from, to, reason } => {
            match from {
                Some(from) => html!(out, (stream_label(*from)) " → "),
                None => html!(out, "Started: "),
            }
            html!(out, "<strong>" (stream_label(*to)) "</strong>");
            if let Some(reason) = reason.as_ref().filter(|_| visitor.rights.content) {
                html!(out, " <span class=\"soft\">" (reason) "</span>");
            }
        }
        _ => html!(out, (body.name())),
    }
    out
}
