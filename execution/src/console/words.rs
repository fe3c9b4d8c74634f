//! How small things look on every page: states, moments, durations, sizes. What they mean is decided
//! elsewhere.

use super::html::{Html, html};
use interzone_hub::{Fate, SubscriptionState};
use interzone_protocol::vocab::{StreamState, TaskState, Timestamp};
use std::time::Duration;

/// How a state feels.
pub(super) const fn tone(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "idle",
        TaskState::Working => "busy",
        TaskState::InputRequired | TaskState::AuthRequired => "wait",
        TaskState::Completed => "good",
        TaskState::Failed | TaskState::Rejected => "bad",
        TaskState::Canceled => "off",
    }
}

/// A state in words.
pub(super) const fn called(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "Submitted",
        TaskState::Working => "Working",
        TaskState::InputRequired => "Needs input",
        TaskState::AuthRequired => "Needs sign-in",
        TaskState::Completed => "Completed",
        TaskState::Failed => "Failed",
        TaskState::Rejected => "Rejected",
        TaskState::Canceled => "Canceled",
    }
}

pub(super) const fn stream_tone(state: StreamState) -> &'static str {
    match state {
        StreamState::Active => "busy",
        StreamState::Paused => "wait",
        StreamState::Closed => "off",
    }
}

pub(super) const fn stream_called(state: StreamState) -> &'static str {
    match state {
        StreamState::Active => "Active",
        StreamState::Paused => "Paused",
        StreamState::Closed => "Closed",
    }
}

pub(super) const fn fate_tone(fate: Fate) -> &'static str {
    match fate {
        Fate::Waiting => "wait",
        Fate::Delivered => "good",
        Fate::Dead => "bad",
    }
}

pub(super) const fn subscription_tone(state: SubscriptionState) -> &'static str {
    match state {
        SubscriptionState::Pending => "wait",
        SubscriptionState::Active => "good",
        SubscriptionState::Denied | SubscriptionState::Revoked => "bad",
        SubscriptionState::Expired => "off",
    }
}

/// A word with a dot in its colour. The word says it all; the colour only helps.
pub(super) fn badge(tone: &str, word: &str) -> Html {
    let mut out = Html::new();
    html!(out, "<span class=\"badge " (tone) "\">" (word) "</span>");
    out
}

pub(super) fn state_badge(state: TaskState) -> Html {
    badge(tone(state), called(state))
}

/// A moment. The page's script puts it into the viewer's own time.
pub(super) fn moment(at: Timestamp) -> Html {
    let exact = at.to_string();
    let shown = exact.replace('T', " ");
    let shown = shown.get(..19).unwrap_or(&shown);
    let mut out = Html::new();
    html!(out, "<time datetime=\"" (exact) "\" data-at title=\"" (exact) "\">" (shown) "</time>");
    out
}

/// The same, to the millisecond: for things that follow each other closely.
pub(super) fn instant(at: Timestamp) -> Html {
    let exact = at.to_string();
    let shown = exact.replace('T', " ");
    let shown = shown.trim_end_matches('Z');
    let mut out = Html::new();
    html!(out, "<time datetime=\"" (exact) "\" data-at=\"ms\" title=\"" (exact) "\">" (shown) "</time>");
    out
}

/// How long ago it was. The page's script keeps it true.
pub(super) fn age(at: Timestamp, now: Timestamp) -> Html {
    let exact = at.to_string();
    let ago = roughly(now.since(at));
    let mut out = Html::new();
    html!(out, "<time class=\"age\" datetime=\"" (exact) "\" data-age title=\"" (exact) "\">" (ago) "</time>");
    out
}

/// A duration in its largest unit, as an age is told.
pub(super) fn roughly(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A duration, exact enough to compare.
pub(super) fn exactly(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1_000.0;
    if millis < 1.0 {
        format!("{millis:.2} ms")
    } else if millis < 10.0 {
        format!("{millis:.1} ms")
    } else if millis < 1_000.0 {
        format!("{millis:.0} ms")
    } else if millis < 60_000.0 {
        format!("{:.1} s", millis / 1_000.0)
    } else {
        let seconds = duration.as_secs();
        match seconds {
            0..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
            _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        }
    }
}

/// From one moment to another. Moments are known to the millisecond, so nothing is said below that.
pub(super) fn between(from: Timestamp, to: Timestamp) -> String {
    let duration = to.since(from);
    match duration.as_millis() {
        0 => "under 1 ms".to_owned(),
        millis @ 1..10 => format!("{millis} ms"),
        _ => exactly(duration),
    }
}

/// A number of bytes.
pub(super) fn bytes(count: u64) -> String {
    let (mut scaled, mut unit) = (count, "bytes");
    for larger in ["KB", "MB", "GB"] {
        if scaled < 10_000 {
            break;
        }
        (scaled, unit) = (scaled / 1_000, larger);
    }
    format!("{} {unit}", number(scaled))
}

/// A number with its thousands apart.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count that came as a figure of the metrics.
pub(super) fn figure(value: f64) -> String {
    let whole = format!("{:.0}", value.max(0.0));
    whole.parse().map_or(whole, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        let said = [0, 9_999, 12_345, 5_000_000, 40_000_000_000].map(bytes);
        let expected = ["0 bytes", "9,999 bytes", "12 KB", "5,000 KB", "40 GB"];
        assert_eq!(said, expected);
        let said = [0, 59, 60, 7_199, 86_400].map(|s| roughly(Duration::from_secs(s)));
        assert_eq!(said, ["0 s", "59 s", "1 min", "1 h", "1 d"]);
        let said = [400, 4_200, 42_000, 4_200_000, 4_000_000_000]
            .map(|micros| exactly(Duration::from_micros(micros)));
        assert_eq!(said, ["0.40 ms", "4.2 ms", "42 ms", "4.2 s", "1 h 6 min"]);
        assert_eq!(figure(1_234_567.0), "1,234,567");
        let at = Timestamp::from_millis;
        let said = [0, 1, 42, 4_200].map(|millis| between(at(7), at(7 + millis)));
        assert_eq!(said, ["under 1 ms", "1 ms", "42 ms", "4.2 s"]);
    }

    #[test]
    fn a_moment_is_exact_for_machines_and_short_for_people() {
        let at = Timestamp::from_millis(1_709_210_096_789);
        let page = moment(at).into_string();
        assert!(
            page.contains("datetime=\"2024-02-29T12:34:56.789Z\""),
            "{page}"
        );
        assert!(page.contains(">2024-02-29 12:34:56<"), "{page}");
    }
}
