//! Retry backoff of model requests: the delay that the provider requests, else exponential with jitter.

use http::HeaderMap;
use interzone_backoff::Backoff;
use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

/// Delays between retries, unless the provider requests one. Used with equal jitter: an overloaded provider is still
/// overloaded after a millisecond.
pub(super) const RETRY_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(500), Duration::from_secs(8));

/// Returns the delay that the provider requests. A timestamp is compared with the provider's own clock if it sends
/// `Date`, else with `now`.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let now = text("date").and_then(parse_timestamp).unwrap_or(now);
    let millis = text("retry-after-ms").and_then(|wait| parse_seconds(wait, 1_000.0));
    let after = || {
        let wait = text("retry-after")?;
        parse_seconds(wait, 1.0).or_else(|| Some(parse_timestamp(wait)?.duration_since(now)))
    };
    millis.or_else(after).or_else(|| until_reset(headers, now))
}

/// Returns the time until the exhausted rate limits are reset. Limits that are not exhausted are ignored.
fn until_reset(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let mut longest = None;
    for (name, value) in headers {
        let Some(format) = exhausted_limit_format(name.as_str(), headers) else {
            continue;
        };
        let value = value.to_str().ok().map(str::trim);
        let wait = value.and_then(|value| match format {
            ResetFormat::Relative => parse_duration(value),
            ResetFormat::Absolute => Some(parse_timestamp(value)?.duration_since(now)),
        });
        longest = longest.max(wait);
    }
    longest
}

/// Format of a rate-limit reset header.
enum ResetFormat {
    /// Duration such as `6m0s` (OpenAI).
    Relative,
    /// RFC 3339 timestamp (Anthropic).
    Absolute,
}

fn exhausted_limit_format(name: &str, headers: &HeaderMap) -> Option<ResetFormat> {
    let (format, remaining) = if let Some(what) = name.strip_prefix("x-ratelimit-reset-") {
        (
            ResetFormat::Relative,
            format!("x-ratelimit-remaining-{what}"),
        )
    } else {
        let what = name.strip_prefix("anthropic-ratelimit-")?;
        let what = what.strip_suffix("-reset")?;
        (
            ResetFormat::Absolute,
            format!("anthropic-ratelimit-{what}-remaining"),
        )
    };
    let left = headers.get(remaining)?.to_str().ok()?;
    (left.trim() == "0").then_some(format)
}

/// Parses a number of seconds, or of fractions of a second.
fn parse_seconds(text: &str, parts: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / parts).ok()
}

/// Parses a duration such as `1s`, `6m0s`, `1h2m3.5s` or `20ms`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut remaining = text;
    let mut total = Duration::ZERO;
    while !remaining.is_empty() {
        let digits = remaining.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = remaining.split_at_checked(digits)?;
        let unit_len = behind
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(unit_len)?;
        let parts = match unit {
            "ms" => 1_000.0,
            "s" => 1.0,
            "m" => 1.0 / 60.0,
            "h" => 1.0 / 3_600.0,
            _ => return None,
        };
        total = total.checked_add(parse_seconds(number, parts)?)?;
        remaining = behind;
    }
    Some(total)
}

/// Parses a timestamp in RFC 3339 or HTTP format: `Wed, 21 Oct 2015 07:28:00 GMT`.
fn parse_timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse() {
        return Some(timestamp);
    }
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut fields = text.split_whitespace().skip(1);
    let (day, month, year) = (fields.next()?, fields.next()?, fields.next()?);
    let (time, zone) = (fields.next()?, fields.next()?);
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

    fn parse_retry_after(headers: &Headers) -> Option<Duration> {
        let map = headers.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        retry_after(&map.collect(), now)
    }

    #[test]
    fn retry_hint_is_parsed_in_every_format() {
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
            assert_eq!(parse_retry_after(headers), expected, "{headers:?}");
        }
    }
}
