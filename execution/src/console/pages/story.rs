//! What happened to a task or stream, step by step: its log, with growing text told as one step.

use super::parts::parts;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{Problem, hidden};
use crate::console::names::Names;
use crate::console::words::{bytes, called, instant, stream_called};
use interzone_hub::{Event, EventBody, Hub, Subject};
use interzone_protocol::vocab::Timestamp;

/// How many events are read for one page, and at a time.
const MOST: usize = 2_000;
const AT_ONCE: usize = 500;
/// How many characters of one step are shown.
const SHOWN: usize = 2_000;

/// The latest events of a log, oldest first, and whether there were more.
pub(super) async fn read(
    hub: &Hub,
    subject: &Subject,
    last: u64,
) -> Result<(Vec<Event>, bool), Problem> {
    let first = last.saturating_sub(u64::try_from(MOST).unwrap_or(u64::MAX));
    let (mut after, mut events) = (first, Vec::new());
    while events.len() < MOST {
        let page = hub.store().events(subject, after, AT_ONCE).await?;
        let whole = page.len() == AT_ONCE;
        after = page.last().map_or(after, |event| event.seq);
        events.extend(page);
        if !whole {
            break;
        }
    }
    Ok((events, first > 0))
}

/// A step as it is being put together.
struct Step {
    seq: u64,
    last: u64,
    at: Timestamp,
    what: What,
}

enum What {
    /// Growing text: its run, how many pieces, and the text itself.
    Text(u64, usize, String),
    /// What the agent said of itself, one line after another.
    Status(Vec<String>),
    Other(Html),
}

/// The log as steps: text that grew, and lines of status, are one step for as long as nothing else comes
/// between.
fn collect(names: &Names, visitor: &Visitor, events: &[Event]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for event in events {
        let last = steps.last_mut();
        let what = match (&event.body, last) {
            (EventBody::Text { run, delta, .. }, last) => {
                if let Some(step) = last
                    && let What::Text(known, pieces, text) = &mut step.what
                    && known == run
                {
                    *pieces += 1;
                    text.push_str(delta);
                    step.last = event.seq;
                    continue;
                }
                What::Text(*run, 1, delta.clone())
            }
            (EventBody::Status { text }, last) => {
                if let Some(step) = last
                    && let What::Status(lines) = &mut step.what
                {
                    lines.push(text.clone());
                    step.last = event.seq;
                    continue;
                }
                What::Status(vec![text.clone()])
            }
            (body, _) => What::Other(told(names, visitor, body)),
        };
        steps.push(Step {
            seq: event.seq,
            last: event.seq,
            at: event.at,
            what,
        });
    }
    steps
}

/// The steps as a list.
pub(super) fn steps(names: &Names, visitor: &Visitor, events: &[Event], cut: bool) -> Html {
    let mut out = Html::new();
    if cut {
        html!(
            out,
            "<p class=\"soft\">Only the latest events are shown.</p>"
        );
    }
    html!(out, "<ol class=\"steps\">");
    for step in collect(names, visitor, events) {
        html!(out, "<li><span class=\"seq\">"(step.seq));
        if step.last > step.seq {
            html!(out, "–"(step.last));
        }
        html!(out, "</span>" [instant(step.at)] "<div class=\"what\">");
        match step.what {
            What::Other(body) => out.put(&body),
            What::Text(_, pieces, text) => {
                let size = bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
                let word = if pieces == 1 { "piece" } else { "pieces" };
                html!(out, "Answer grew by " (pieces) " " (word) ", " (size));
                let shown: String = text.chars().take(SHOWN).collect();
                more(visitor, &mut out, "Text", &shown);
            }
            What::Status(lines) => {
                html!(out, "Status");
                match (lines.as_slice(), visitor.rights.content) {
                    (lines, false) => html!(out, " "[hidden(&format!("{} lines", lines.len()))]),
                    ([line], true) => html!(out, " <span class=\"soft\">" (line) "</span>"),
                    (lines, true) => {
                        let last = lines.last().map_or("", String::as_str);
                        html!(out, ", " (lines.len()) " lines, last <span class=\"soft\">" (last) "</span>");
                        let all: String = lines.join("\n").chars().take(SHOWN).collect();
                        more(visitor, &mut out, "All", &all);
                    }
                }
            }
        }
        html!(out, "</div></li>");
    }
    html!(out, "</ol>");
    out
}

fn more(visitor: &Visitor, out: &mut Html, title: &'static str, text: &str) {
    if visitor.rights.content {
        html!(out, "<details><summary>" (title) "</summary><div class=\"said\" dir=\"auto\">" (text)
            "</div></details>");
    }
}

fn told(names: &Names, visitor: &Visitor, body: &EventBody) -> Html {
    let mut out = Html::new();
    match body {
        EventBody::Created { .. } => html!(out, "Accepted"),
        EventBody::State { from, to, message } => {
            html!(out, (called(*from)) " → <strong>" (called(*to)) "</strong>");
            if let Some(message) = message {
                html!(out, [parts(visitor, message, None)]);
            }
        }
        EventBody::Message { index, message } => {
            let role = message.without_large().role().name();
            html!(out, "Message " (index + 1) " from the " (role));
        }
        EventBody::Artifact {
            artifact,
            append,
            last,
        } => {
            let way = match (append, last) {
                (true, true) => "Artifact completed",
                (true, false) => "Artifact grew",
                (false, _) => "Artifact",
            };
            html!(out, (way) " ");
            let artifact = artifact.without_large();
            if visitor.rights.content {
                html!(out, "<strong>" (artifact.name()) "</strong>");
            } else {
                html!(out, [hidden("name")]);
            }
        }
        EventBody::Text { .. } | EventBody::Status { .. } => {}
        EventBody::Chunk { from, chunk, last } => {
            html!(out, "<span title=\"" (from) "\">" (names.called(from.as_str())) "</span>");
            if *last {
                html!(out, " <span class=\"soft\">(complete)</span>");
            }
            html!(out, [parts(visitor, chunk, None)]);
        }
        EventBody::StreamState { from, to, reason } => {
            match from {
                Some(from) => html!(out, (stream_called(*from)) " → "),
                None => html!(out, "Begun: "),
            }
            html!(out, "<strong>" (stream_called(*to)) "</strong>");
            if let Some(reason) = reason.as_ref().filter(|_| visitor.rights.content) {
                html!(out, " <span class=\"soft\">" (reason) "</span>");
            }
        }
        _ => html!(out, (body.name())),
    }
    out
}
