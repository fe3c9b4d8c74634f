//! HTML formatting of states, times, durations, sizes and numbers.

use interzone_edge::html::{Html, html};
use interzone_hub::{DeliveryState, SubscriptionState};
use interzone_protocol::vocab::{StreamState, TaskState, Timestamp};
use std::time::Duration;

/// CSS class for the colour of a task state.
pub(super) const fn state_tone(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "idle",
        TaskState::Working => "busy",
        TaskState::InputRequired | TaskState::AuthRequired => "wait",
        TaskState::Completed => "good",
        TaskState::Failed | TaskState::Rejected => "bad",
        TaskState::Canceled => "off",
    }
}

/// Display name of a task state.
pub(super) const fn state_label(state: TaskState) -> &'static str {
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

pub(super) const fn stream_label(state: StreamState) -> &'static str {
    match state {
        StreamState::Active => "Active",
        StreamState::Paused => "Paused",
        StreamState::Closed => "Closed",
    }
}

pub(super) const fn delivery_tone(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Waiting => "wait",
        DeliveryState::Delivered => "good",
        DeliveryState::Dead => "bad",
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

/// A label with a coloured dot. The label is self-explanatory; the colour is only a hint.
pub(super) fn badge(tone: &str, label: &str) -> Html {
    let mut out = Html::new();
    html!(out, "<span class=\"badge " (tone) "\">" (label) "</span>");
    out
}

pub(super) fn state_badge(state: TaskState) -> Html {
    badge(state_tone(state), state_label(state))
}

/// A timestamp. The page's script converts it to local time.
pub(super) fn timestamp(at: Timestamp) -> Html {
    let exact = at.to_string();
    let shown = exact.replace('T', " ");
    let shown = shown.get(..19).unwrap_or(&shown);
    let mut out = Html::new();
    html!(out, "<time datetime=\"" (exact) "\" data-at title=\"" (exact) "\">" (shown) "</time>");
    out
}

/// A timestamp with milliseconds, for events in quick succession.
pub(super) fn timestamp_ms(at: Timestamp) -> Html {
    let exact = at.to_string();
    let shown = exact.replace('T', " ");
    let shown = shown.trim_end_matches('Z');
    let mut out = Html::new();
    html!(out, "<time datetime=\"" (exact) "\" data-at=\"ms\" title=\"" (exact) "\">" (shown) "</time>");
    out
}

/// Time since a timestamp. The page's script keeps it up to date.
pub(super) fn relative_time(at: Timestamp, now: Timestamp) -> Html {
    let exact = at.to_string();
    let ago = duration_short(now.duration_since(at));
    let mut out = Html::new();
    html!(out, "<time class=\"age\" datetime=\"" (exact) "\" data-age title=\"" (exact) "\">" (ago) "</time>");
    out
}

/// A duration in its largest unit.
pub(super) fn duration_short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A duration with enough precision to compare.
pub(super) fn duration_exact(duration: Duration) -> String {
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

/// Time between two timestamps, with their millisecond precision.
pub(super) fn elapsed(from: Timestamp, to: Timestamp) -> String {
    let duration = to.duration_since(from);
    match duration.as_millis() {
        0 => "under 1 ms".to_owned(),
        millis @ 1..10 => format!("{millis} ms"),
        _ => duration_exact(duration),
    }
}

/// A size in bytes.
pub(super) fn format_bytes(count: u64) -> String {
    let (mut scaled, mut unit) = (count, "bytes");
    for larger in ["KB", "MB", "GB"] {
        if scaled < 10_000 {
            break;
        }
        (scaled, unit) = (scaled / 1_000, larger);
    }
    format!("{} {unit}", format_number(scaled))
}

/// A number with thousands separators.
pub(super) fn format_number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count from a metric value.
pub(super) fn format_count(value: f64) -> String {
    let rounded = format!("{:.0}", value.max(0.0));
    rounded.parse().map_or(rounded, format_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_formatted_briefly() {
        let formatted = [0, 9_999, 12_345, 5_000_000, 40_000_000_000].map(format_bytes);
        let expected = ["0 bytes", "9,999 bytes", "12 KB", "5,000 KB", "40 GB"];
        assert_eq!(formatted, expected);
        let formatted = [0, 59, 60, 7_199, 86_400].map(|s| duration_short(Duration::from_secs(s)));
        assert_eq!(formatted, ["0 s", "59 s", "1 min", "1 h", "1 d"]);
        let formatted = [400, 4_200, 42_000, 4_200_000, 4_000_000_000]
            .map(|micros| duration_exact(Duration::from_micros(micros)));
        assert_eq!(
            formatted,
            ["0.40 ms", "4.2 ms", "42 ms", "4.2 s", "1 h 6 min"]
        );
        assert_eq!(format_count(1_234_567.0), "1,234,567");
        let at = Timestamp::from_millis;
        let formatted = [0, 1, 42, 4_200].map(|millis| elapsed(at(7), at(7 + millis)));
        assert_eq!(formatted, ["under 1 ms", "1 ms", "42 ms", "4.2 s"]);
    }

    #[test]
    fn timestamp_has_exact_datetime_and_short_text() {
        let at = Timestamp::from_millis(1_709_210_096_789);
        let page = timestamp(at).into_string();
        assert!(
            page.contains("datetime=\"2024-02-29T12:34:56.789Z\""),
            "{page}"
        );
        assert!(page.contains(">2024-02-29 12:34:56<"), "{page}");
    }
}
