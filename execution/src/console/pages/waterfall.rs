//! When what happened, side by side: requests, waiting, runs and deliveries of one task.

use crate::console::html::{Html, html};
use crate::console::words::{between, exactly};
use interzone_hub::ports::Pair;
use interzone_hub::{Delivered, Event, EventBody, Fate, Task};
use interzone_protocol::vocab::{TaskState, Timestamp};
use std::time::Duration;

/// More than this is not a picture any more.
const MOST: usize = 24;
/// The picture's own units; it is stretched to its place.
const WIDTH: f64 = 1_000.0;

struct Bar {
    label: String,
    tone: &'static str,
    from: Timestamp,
    to: Timestamp,
    /// How long it took, if that is known better than by the two.
    took: Option<Duration>,
}

/// The picture.
pub(super) fn waterfall(
    task: &Task,
    now: Timestamp,
    events: &[Event],
    pairs: &[Pair],
    deliveries: &[Delivered],
) -> Html {
    let end = task.finished_at.unwrap_or(now);
    let mut bars = turns(task, end, events);
    // What was asked long after it ended would leave no room for what happened.
    let during = pairs.iter().filter(|pair| pair.at.before(pair.took) <= end);
    bars.extend(during.map(|pair| Bar {
        label: pair.method.clone(),
        tone: if pair.code.is_some() { "bad" } else { "call" },
        from: pair.at.before(pair.took),
        to: pair.at,
        took: Some(pair.took),
    }));
    bars.extend(deliveries.iter().map(|delivery| {
        let carried = &delivery.carried;
        Bar {
            label: match delivery.seq {
                Some(seq) => format!("{} of event {seq}", delivery.channel),
                None => delivery.channel.clone(),
            },
            tone: match carried.fate {
                Fate::Waiting => "wait",
                Fate::Delivered => "good",
                Fate::Dead => "bad",
            },
            from: carried.created_at,
            to: carried.settled_at.unwrap_or(now),
            took: None,
        }
    }));
    bars.sort_by_key(|bar| (bar.from, bar.to));
    let left = bars.len().saturating_sub(MOST);
    bars.truncate(MOST);
    let first = bars
        .iter()
        .map(|bar| bar.from)
        .min()
        .unwrap_or(task.created_at);
    let last = bars.iter().map(|bar| bar.to).max().unwrap_or(end);
    draw(&bars, first, last, left)
}

/// What a task did, from one change of its state to the next.
fn turns(task: &Task, end: Timestamp, events: &[Event]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let (mut since, mut state) = (task.created_at, TaskState::Submitted);
    let mut push = |state: TaskState, from: Timestamp, to: Timestamp| {
        let (label, tone) = match state {
            TaskState::Submitted => ("queued", "idle"),
            TaskState::Working => ("run", "busy"),
            TaskState::InputRequired | TaskState::AuthRequired => ("waits for a person", "wait"),
            _ => return,
        };
        bars.push(Bar {
            label: label.to_owned(),
            tone,
            from,
            to,
            took: None,
        });
    };
    for event in events {
        if let EventBody::State { to, .. } = &event.body {
            push(state, since, event.at);
            (since, state) = (event.at, *to);
        }
    }
    push(state, since, end);
    bars
}

fn draw(bars: &[Bar], first: Timestamp, last: Timestamp, left: usize) -> Html {
    let whole = last.since(first).as_secs_f64().max(0.001);
    let place = |at: Timestamp| at.since(first).as_secs_f64() / whole * WIDTH;
    let mut out = Html::new();
    html!(out, "<div class=\"waterfall\" role=\"list\">");
    for bar in bars {
        let took = match bar.took {
            Some(took) => exactly(took),
            None => between(bar.from, bar.to),
        };
        let x = place(bar.from).min(WIDTH - 4.0);
        let width = (place(bar.to) - x).max(4.0);
        html!(out, "<div class=\"bar\" role=\"listitem\"><span class=\"name\">" (bar.label)
            "</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
            "<rect class=\"" (bar.tone) "\" x=\"" (format!("{x:.1}")) "\" y=\"0\" width=\""
            (format!("{width:.1}")) "\" height=\"10\"/></svg><span class=\"took\">" (took) "</span></div>");
    }
    html!(out, "</div><p class=\"axis\"><span>0</span><span>" (between(first, last))
        "</span></p>");
    if left > 0 {
        html!(out, "<p class=\"soft\">And " (left) " more, in the lists below.</p>");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_less_than_moments_can_tell_is_told_as_it_was_measured() {
        let at = Timestamp::from_millis(1_000);
        let bar = |label: &str, took| Bar {
            label: label.to_owned(),
            tone: "call",
            from: at,
            to: at,
            took,
        };
        let measured = Some(Duration::from_micros(520));
        let bars = [bar("tasks.create", measured), bar("run", None)];
        let page = draw(&bars, at, at, 0).into_string();
        let took: Vec<_> = page.split("class=\"took\">").skip(1).collect();
        assert!(took[0].starts_with("0.52 ms<"), "{page}");
        assert!(took[1].starts_with("under 1 ms<"), "{page}");
    }
}
