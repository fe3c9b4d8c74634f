//! Waterfall chart of a task: requests, queueing, runs and deliveries over time.

use crate::console::format::{duration_exact, elapsed};
use interzone_edge::html::{Html, html};
use interzone_hub::ports::RequestLogEntry;
use interzone_hub::{DeliveryState, Event, EventBody, PushDelivery, Task};
use interzone_protocol::vocab::{TaskState, Timestamp};
use std::time::Duration;

/// Maximum number of bars.
const MAX_BARS: usize = 24;
/// Width of the SVG's coordinate system; the image is scaled to its container.
const WIDTH: f64 = 1_000.0;

struct Bar {
    label: String,
    tone: &'static str,
    from: Timestamp,
    to: Timestamp,
    /// Measured duration, if more precise than the timestamps.
    duration: Option<Duration>,
}

/// Renders the chart.
pub(super) fn waterfall(
    task: &Task,
    now: Timestamp,
    events: &[Event],
    requests: &[RequestLogEntry],
    deliveries: &[PushDelivery],
) -> Html {
    let end = task.finished_at.unwrap_or(now);
    let mut bars = state_bars(task, end, events);
    // Requests long after the end would compress everything else.
    let during = requests
        .iter()
        .filter(|pair| pair.answered_at.minus(pair.duration) <= end);
    bars.extend(during.map(|pair| Bar {
        label: pair.method.clone(),
        tone: if pair.code.is_some() { "bad" } else { "call" },
        from: pair.answered_at.minus(pair.duration),
        to: pair.answered_at,
        duration: Some(pair.duration),
    }));
    bars.extend(deliveries.iter().map(|delivery| {
        let status = &delivery.status;
        Bar {
            label: match delivery.seq {
                Some(seq) => format!("{} of event {seq}", delivery.channel),
                None => delivery.channel.clone(),
            },
            tone: match status.state {
                DeliveryState::Waiting => "wait",
                DeliveryState::Delivered => "good",
                DeliveryState::Dead => "bad",
            },
            from: status.created_at,
            to: status.settled_at.unwrap_or(now),
            duration: None,
        }
    }));
    bars.sort_by_key(|bar| (bar.from, bar.to));
    let omitted = bars.len().saturating_sub(MAX_BARS);
    bars.truncate(MAX_BARS);
    let first = bars
        .iter()
        .map(|bar| bar.from)
        .min()
        .unwrap_or(task.created_at);
    let last = bars.iter().map(|bar| bar.to).max().unwrap_or(end);
    draw(&bars, first, last, omitted)
}

/// Bars of the task's states.
fn state_bars(task: &Task, end: Timestamp, events: &[Event]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let (mut since, mut state) = (task.created_at, TaskState::Submitted);
    let mut push = |state: TaskState, from: Timestamp, to: Timestamp| {
        let (label, tone) = match state {
            TaskState::Submitted => ("queued", "idle"),
            TaskState::Working => ("run", "busy"),
            TaskState::InputRequired | TaskState::AuthRequired => ("waiting for input", "wait"),
            _ => return,
        };
        bars.push(Bar {
            label: label.to_owned(),
            tone,
            from,
            to,
            duration: None,
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

fn draw(bars: &[Bar], first: Timestamp, last: Timestamp, omitted: usize) -> Html {
    let total = last.duration_since(first).as_secs_f64().max(0.001);
    let position = |at: Timestamp| at.duration_since(first).as_secs_f64() / total * WIDTH;
    let mut out = Html::new();
    html!(out, "<div class=\"waterfall\" role=\"list\">");
    for bar in bars {
        let duration = match bar.duration {
            Some(took) => duration_exact(took),
            None => elapsed(bar.from, bar.to),
        };
        let x = position(bar.from).min(WIDTH - 4.0);
        let width = (position(bar.to) - x).max(4.0);
        html!(out, "<div class=\"bar\" role=\"listitem\"><span class=\"name\">" (bar.label)
            "</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
            "<rect class=\"" (bar.tone) "\" x=\"" (format!("{x:.1}")) "\" y=\"0\" width=\""
            (format!("{width:.1}")) "\" height=\"10\"/></svg><span class=\"took\">" (duration) "</span></div>");
    }
    html!(out, "</div><p class=\"axis\"><span>0</span><span>" (elapsed(first, last))
        "</span></p>");
    if omitted > 0 {
        html!(out, "<p class=\"soft\">And " (omitted) " more, in the lists below.</p>");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_duration_is_shown_below_one_millisecond() {
        let at = Timestamp::from_millis(1_000);
        let bar = |label: &str, took| Bar {
            label: label.to_owned(),
            tone: "call",
            from: at,
            to: at,
            duration: took,
        };
        let measured = Some(Duration::from_micros(520));
        let bars = [bar("tasks.create", measured), bar("run", None)];
        let page = draw(&bars, at, at, 0).into_string();
        let took: Vec<_> = page.split("class=\"took\">").skip(1).collect();
        assert!(took[0].starts_with("0.52 ms<"), "{page}");
        assert!(took[1].starts_with("under 1 ms<"), "{page}");
    }
}
