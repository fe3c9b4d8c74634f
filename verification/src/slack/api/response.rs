//! Response parsing with a size limit: first the `ok` flag and error code, then the payload.

use super::error::{sanitize_code, sanitize_scopes};
use super::{SlackError, SlackMethod};
use bytes::Bytes;
use http::header::{DATE, HeaderMap, RETRY_AFTER};
use interzone_edge::limited_body::{self, BodyReadError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::time::{Duration, SystemTime};

/// Delay if Slack sends no `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Upper limit of `Retry-After`, in seconds.
const MAX_RETRY_AFTER_SECS: u64 = 3600;

/// A successful response (`ok: true`).
pub(super) struct SlackResponse {
    pub(super) headers: HeaderMap,
    body: Bytes,
}

#[derive(Deserialize)]
struct ResponseStatus {
    ok: bool,
    error: Option<String>,
    needed: Option<String>,
}

impl SlackResponse {
    pub(super) async fn from_response(
        method: SlackMethod,
        response: reqwest::Response,
    ) -> Result<Self, SlackError> {
        let operation = method.name();
        let status = response.status();
        let headers = response.headers().clone();
        let rate_limited = |headers: &HeaderMap| SlackError::RateLimited {
            method,
            after: retry_after(headers),
        };
        if status.as_u16() == 429 {
            return Err(rate_limited(&headers));
        }
        let status_error = || SlackError::HttpStatus {
            operation,
            status: status.as_u16(),
        };
        if status.is_redirection() {
            // Redirects are not followed, since the token is for this address only. The call may have been
            // executed before the redirect.
            tracing::warn!(method = operation, %status, "slack redirect not followed");
            return Err(SlackError::Unreadable { operation });
        }
        if status.is_server_error() {
            return Err(status_error());
        }
        let body = match read_body(operation, response, method.max_response_bytes()).await {
            Err(SlackError::TooLarge { limit, .. }) => {
                tracing::warn!(method = operation, limit, "slack response too large");
                return Err(SlackError::Unreadable { operation });
            }
            body => body?,
        };
        let status_body: ResponseStatus = match serde_json::from_slice(&body) {
            Ok(verdict) => verdict,
            Err(_) if status.is_success() => return Err(SlackError::Unreadable { operation }),
            Err(_) => return Err(status_error()),
        };
        if status_body.ok && status.is_success() {
            return Ok(Self { headers, body });
        }
        let code = sanitize_code(status_body.error.as_deref().unwrap_or_default());
        if matches!(code.as_str(), "ratelimited" | "rate_limited") {
            return Err(rate_limited(&headers));
        }
        let needed = status_body.needed.as_deref().and_then(sanitize_scopes);
        Err(SlackError::Rejected {
            method,
            code,
            needed_scopes: needed,
        })
    }

    pub(super) fn parse<R: DeserializeOwned>(&self, method: SlackMethod) -> Result<R, SlackError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // Log the position of the error, never the content.
            tracing::warn!(
                method = method.name(),
                line = error.line(),
                column = error.column(),
                "slack response has unexpected format"
            );
            SlackError::Unreadable {
                operation: method.name(),
            }
        })
    }
}

/// Reads the body if it has at most `limit` bytes.
pub(super) async fn read_body(
    operation: &'static str,
    response: reqwest::Response,
    limit: usize,
) -> Result<Bytes, SlackError> {
    let body = limited_body::read_all(response, limit).await;
    body.map_err(|error| match error {
        BodyReadError::TooLong { limit } => SlackError::TooLarge { operation, limit },
        BodyReadError::Connection(error) => SlackError::from_reqwest(operation, error),
    })
}

/// Parses `Retry-After`. Slack sends whole seconds; a proxy may send another format.
pub(super) fn retry_after(headers: &HeaderMap) -> Duration {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let value = header(RETRY_AFTER).map(str::trim);
    let seconds = value
        .and_then(|told| parse_seconds(told).or_else(|| seconds_until_date(told, header(DATE))));
    // Zero would be a busy loop, and excessive values are limited.
    seconds.map_or(DEFAULT_RETRY_AFTER, |seconds| {
        Duration::from_secs(seconds.clamp(1, MAX_RETRY_AFTER_SECS))
    })
}

/// Parses seconds, rounded up, since a retry that is too early is rejected again.
fn parse_seconds(text: &str) -> Option<u64> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(integer) || !is_digits(fraction) {
        return None;
    }
    let round_up = u64::from(fraction.bytes().any(|digit| digit != b'0'));
    // A value that overflows is treated as the maximum.
    Some(integer.parse().unwrap_or(u64::MAX).saturating_add(round_up))
}

/// Returns the seconds until an HTTP date, relative to the response's `Date` header or else the local clock.
fn seconds_until_date(text: &str, date: Option<&str>) -> Option<u64> {
    let target = httpdate::parse_http_date(text).ok()?;
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let wait = target.duration_since(now.unwrap_or_else(SystemTime::now));
    let wait = wait.unwrap_or_default();
    let round_up = u64::from(wait.subsec_nanos() > 0);
    Some(wait.as_secs().saturating_add(round_up))
}

/// Deserializes an optional value; a value of unexpected format counts as absent.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// Deserializes a list and skips elements of unexpected format.
pub(super) fn lenient_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let list: Option<Vec<serde_json::Value>> = Option::deserialize(deserializer)?;
    let parse = |value| serde_json::from_value(value).ok();
    Ok(list
        .unwrap_or_default()
        .into_iter()
        .filter_map(parse)
        .collect())
}

/// Deserializes a string that may be null.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(lenient(deserializer)?.unwrap_or_default())
}

/// Pagination cursor of a response.
#[derive(Default, Deserialize)]
pub(super) struct PageCursor {
    #[serde(default, deserialize_with = "text")]
    next_cursor: String,
}

impl PageCursor {
    pub(super) fn next_cursor(self) -> Option<String> {
        Some(self.next_cursor).filter(|cursor| !cursor.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_formats_are_parsed_and_rounded_up() {
        let date_value = "Sun, 06 Nov 1994 08:49:37 GMT";
        let earlier = Some("Sun, 06 Nov 1994 08:48:37 GMT");
        let much_earlier = Some("Sun, 06 Nov 1994 01:00:00 GMT");
        for (value, date, seconds) in [
            ("30", None, 30),
            (" 30 ", None, 30),
            ("0", None, 1),
            ("0.2", None, 1),
            ("1.5", None, 2),
            ("7.000", None, 7),
            ("3599.5", None, 3_600),
            ("3600.5", None, MAX_RETRY_AFTER_SECS),
            ("99999999999999999999999", None, MAX_RETRY_AFTER_SECS),
            (date_value, earlier, 60),
            (date_value, much_earlier, MAX_RETRY_AFTER_SECS),
            // Already past, by the local clock or the response's.
            (date_value, None, 1),
            (date_value, Some(date_value), 1),
            ("Fri, 31 Dec 9999 23:59:59 GMT", None, MAX_RETRY_AFTER_SECS),
            ("-1", None, DEFAULT_RETRY_AFTER.as_secs()),
            ("1.", None, DEFAULT_RETRY_AFTER.as_secs()),
            (".5", None, DEFAULT_RETRY_AFTER.as_secs()),
            ("1e3", None, DEFAULT_RETRY_AFTER.as_secs()),
            ("soon", None, DEFAULT_RETRY_AFTER.as_secs()),
            ("", None, DEFAULT_RETRY_AFTER.as_secs()),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            if let Some(date) = date {
                headers.insert(DATE, date.parse().unwrap());
            }
            let wait = Duration::from_secs(seconds);
            assert_eq!(retry_after(&headers), wait, "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), DEFAULT_RETRY_AFTER);
    }
}
