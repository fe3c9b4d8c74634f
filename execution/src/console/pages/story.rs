//! What happened to a task or stream, step by step: its log, with growing text told as one step.

use super::parts::parts;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{Problem, hidden};
use crate::console::words::{bytes, called, moment, stream_called};
use interzone_hub::{Event, EventBody, Hub, Subject};
use interzone_protocol::vocab::Timestamp;

/// How many events are read for one page, and at a time.
const MOST: usize = 2_000;
const AT_ONCE: usize = 500;

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
    /// Of growing text: its run, how many pieces, and the text itself.
    text: Option<(u64, usize, String)>,
    body: Html,
}

/// The steps as a list.
pub(super) fn steps(visitor: &Visitor, events: &[Event], cut: bool) -> Html {
    let mut steps: Vec<Step> = Vec::new();
    for event in events {
        if let EventBody::Text { run, delta, .. } = &event.body {
            if let Some(step) = steps.last_mut()
                && let Some((known, pieces, text)) = &mut step.text
                && known == run
            {
                *pieces += 1;
                text.push_str(delta);
                step.last = event.seq;
                continue;
            }
            steps.push(Step {
                seq: event.seq,
                last: event.seq,
                at: event.at,
                text: Some((*run, 1, delta.clone())),
                body: Html::new(),
            });
            continue;
        }
        steps.push(Step {
            seq: event.seq,
            last: event.seq,
            at: event.at,
            text: None,
            body: told(visitor, &event.body),
        });
    }
    let mut out = Html::new();
    if cut {
        html!(out, "<p class=\"soft\">Only the latest events are shown.</p>");
    }
    html!(out, "<ol class=\"steps\">");
    for step in steps {
        html!(out, "<li><span class=\"seq\">" (step.seq));
        if step.last > step.seq {
            html!(out, "–" (step.last));
        }
        html!(out, "</span>" [moment(step.at)] "<div class=\"what\">");
        match step.text {
            None => out.put(&step.body),
            Some((_, pieces, text)) => {
                let size = bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
                let word = if pieces == 1 { "piece" } else { "pieces" };
                html!(out, "Answer grew by " (pieces) " " (word) ", " (size));
                if visitor.rights.content {
                    let shown: String = text.chars().take(2_000).collect();
                    html!(out, "<details><summary>Text</summary><div class=\"said\" dir=\"auto\">" (shown)
                        "</div></details>");
                }
            }
        }
        html!(out, "</div></li>");
    }
    html!(out, "</ol>");
    out
}

fn told(visitor: &Visitor, body: &EventBody) -> Html {
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
        EventBody::Text { .. } => {}
        EventBody::Status { text } => {
            html!(out, "Status ");
            if visitor.rights.content {
                html!(out, "<span class=\"soft\">" (text) "</span>");
            } else {
                html!(out, [hidden("words")]);
            }
        }
        EventBody::Chunk { from, chunk, last } => {
            html!(out, (from));
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
