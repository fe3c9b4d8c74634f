//! How long to wait before a request is sent again: what the provider says, else a growing span of
//! which a random part is waited.

use http::HeaderMap;
use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

/// The longest wait before the second try, if the provider does not say.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait before any, if the provider does not say.
const LONGEST: Duration = Duration::from_secs(8);

/// The wait before another try, where the second try is 0, if the provider does not say. At least half
/// of the span is waited, for whoever is busy now is busy in a millisecond too.
pub(super) fn wait(tries: u32) -> Duration {
    let span = FIRST
        .saturating_mul(2_u32.saturating_pow(tries))
        .min(LONGEST);
    let (random, ..) = uuid::Uuid::new_v4().as_fields();
    span.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

/// How long the provider wants us to wait. A moment is compared with the provider's own clock if it
/// tells the time, else with `now`.
pub(super) fn hint(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let now = text("date").and_then(moment).unwrap_or(now);
    let millis = text("retry-after-ms").and_then(|wait| seconds(wait, 1_000.0));
    let after = || {
        let wait = text("retry-after")?;
        seconds(wait, 1.0).or_else(|| Some(moment(wait)?.since(now)))
    };
    millis.or_else(after).or_else(|| window(headers, now))
}

/// When the budget that is used up is filled again. One that has something left is not why we wait.
fn window(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let mut longest = None;
    for (name, value) in headers {
        let Some(budget) = empty_budget(name.as_str(), headers) else {
            continue;
        };
        let value = value.to_str().ok().map(str::trim);
        let wait = value.and_then(|value| match budget {
            Shape::Span => span(value),
            Shape::Moment => Some(moment(value)?.since(now)),
        });
        longest = longest.max(wait);
    }
    longest
}

/// How a provider writes when a budget is filled again.
enum Shape {
    /// `6m0s`, with OpenAI.
    Span,
    /// RFC 3339, with Anthropic.
    Moment,
}

fn empty_budget(name: &str, headers: &HeaderMap) -> Option<Shape> {
    let (shape, remaining) = if let Some(what) = name.strip_prefix("x-ratelimit-reset-") {
        (Shape::Span, format!("x-ratelimit-remaining-{what}"))
    } else {
        let what = name.strip_prefix("anthropic-ratelimit-")?;
        let what = what.strip_suffix("-reset")?;
        (
            Shape::Moment,
            format!("anthropic-ratelimit-{what}-remaining"),
        )
    };
    let left = headers.get(remaining)?.to_str().ok()?;
    (left.trim() == "0").then_some(shape)
}

/// A number of seconds, or of parts of one.
fn seconds(text: &str, parts: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / parts).ok()
}

/// `1s`, `6m0s`, `1h2m3.5s`, `20ms`.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut whole = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at_checked(digits)?;
        let letters = behind
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(letters)?;
        let parts = match unit {
            "ms" => 1_000.0,
            "s" => 1.0,
            "m" => 1.0 / 60.0,
            "h" => 1.0 / 3_600.0,
            _ => return None,
        };
        whole = whole.checked_add(seconds(number, parts)?)?;
        rest = behind;
    }
    Some(whole)
}

/// A moment as RFC 3339 writes it, or as HTTP does: `Wed, 21 Oct 2015 07:28:00 GMT`.
fn moment(text: &str) -> Option<Timestamp> {
    if let Ok(moment) = text.parse() {
        return Some(moment);
    }
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_whitespace().skip(1);
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let (time, zone) = (words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    if zone != "GMT" {
        return None;
    }
    format!("{year}-{month:02}-{day}T{time}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    type Headers = [(&'static str, &'static str)];

    fn hinted(headers: &Headers) -> Option<Duration> {
        let map = headers.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        hint(&map.collect(), now)
    }

    #[test]
    fn the_providers_own_hint_is_taken_in_every_shape() {
        let cases: &[(&Headers, Option<u64>)] = &[
            (&[("retry-after", "7")], Some(7_000)),
            (&[("retry-after", "0.25")], Some(250)),
            (
                &[("retry-after-ms", "1500"), ("retry-after", "9")],
                Some(1_500),
            ),
            (
                &[("retry-after", "Thu, 01 Jan 2026 00:00:05 GMT")],
                Some(5_000),
            ),
            (
                &[
                    ("date", "Thu, 01 Jan 2026 00:00:02 GMT"),
                    ("retry-after", "Thu, 01 Jan 2026 00:00:05 GMT"),
                ],
                Some(3_000),
            ),
            (&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], Some(0)),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1m2.5s"),
                    ("x-ratelimit-remaining-tokens", "12"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                ],
                Some(62_500),
            ),
            (
                &[
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "20ms"),
                ],
                Some(20),
            ),
            (
                &[
                    ("anthropic-ratelimit-tokens-remaining", "0"),
                    ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:09Z"),
                    ("anthropic-ratelimit-requests-remaining", "3"),
                    ("anthropic-ratelimit-requests-reset", "2026-01-01T00:01:00Z"),
                ],
                Some(9_000),
            ),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "NaN")], None),
            (&[("x-ratelimit-reset-tokens", "6m0s")], None),
            (&[], None),
        ];
        for (headers, expected) in cases {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(hinted(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn without_a_hint_the_wait_grows_and_varies() {
        for tries in 0..10 {
            let span = FIRST
                .saturating_mul(2_u32.saturating_pow(tries))
                .min(LONGEST);
            let waits: Vec<Duration> = (0..50).map(|_| wait(tries)).collect();
            assert!(waits.iter().all(|wait| *wait >= span / 2 && *wait <= span));
            assert!(waits.iter().any(|wait| wait != &waits[0]));
        }
    }
}
