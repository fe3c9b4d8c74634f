//! What Slack answers: never more of it than was asked for, and read in two steps, whether it was done
//! and what came of it. What that means is for the callers.

use super::error::{clean_scopes, clean_word};
use super::{Method, SlackError};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{DATE, HeaderMap, RETRY_AFTER};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::time::{Duration, SystemTime};

/// How long to wait when Slack does not say.
const UNTOLD: Duration = Duration::from_secs(5);
/// The longest wait that we believe, in seconds.
const LONGEST: u64 = 3600;

/// An answer in which Slack says that it did it.
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    body: Bytes,
}

#[derive(Deserialize)]
struct Verdict {
    ok: bool,
    error: Option<String>,
    needed: Option<String>,
}

impl Answer {
    pub(super) async fn take(
        method: Method,
        response: reqwest::Response,
    ) -> Result<Self, SlackError> {
        let what = method.name();
        let status = response.status();
        let headers = response.headers().clone();
        let limited = |headers: &HeaderMap| SlackError::RateLimited {
            method,
            after: retry_after(headers),
        };
        if status.as_u16() == 429 {
            return Err(limited(&headers));
        }
        let wordless = || SlackError::Status {
            what,
            status: status.as_u16(),
        };
        if status.is_redirection() {
            // The client follows none: the token is for this address alone. Whether the call was made
            // before we were sent on, nobody says.
            tracing::warn!(method = what, %status, "slack sends a call elsewhere; it is not followed");
            return Err(SlackError::Unreadable { what });
        }
        if status.is_server_error() {
            return Err(wordless());
        }
        let body = match whole(what, response, method.largest()).await {
            Err(SlackError::TooLarge { limit, .. }) => {
                tracing::warn!(
                    method = what,
                    limit,
                    "an answer of slack is too long to be read"
                );
                return Err(SlackError::Unreadable { what });
            }
            body => body?,
        };
        let verdict: Verdict = match serde_json::from_slice(&body) {
            Ok(verdict) => verdict,
            Err(_) if status.is_success() => return Err(SlackError::Unreadable { what }),
            Err(_) => return Err(wordless()),
        };
        if verdict.ok && status.is_success() {
            return Ok(Self { headers, body });
        }
        let word = clean_word(verdict.error.as_deref().unwrap_or_default());
        if matches!(word.as_str(), "ratelimited" | "rate_limited") {
            return Err(limited(&headers));
        }
        let needed = verdict.needed.as_deref().and_then(clean_scopes);
        Err(SlackError::Said {
            method,
            word,
            needed,
        })
    }

    pub(super) fn read<R: DeserializeOwned>(&self, method: Method) -> Result<R, SlackError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // Where it is wrong, and never what stands there.
            tracing::warn!(
                method = method.name(),
                line = error.line(),
                column = error.column(),
                "an answer of slack does not have its shape"
            );
            SlackError::Unreadable {
                what: method.name(),
            }
        })
    }
}

/// The whole body, if it has at most `limit` bytes.
pub(super) async fn whole(
    what: &'static str,
    response: reqwest::Response,
    limit: usize,
) -> Result<Bytes, SlackError> {
    let too_large = || SlackError::TooLarge { what, limit };
    let told = response.content_length();
    if told.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit)) {
        return Err(too_large());
    }
    let mut pieces = response.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| SlackError::of(what, error))?;
        if piece.len() > limit.saturating_sub(body.len()) {
            return Err(too_large());
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// How long to wait. Slack says it in whole seconds; whatever stands before it may say it otherwise.
pub(super) fn retry_after(headers: &HeaderMap) -> Duration {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let told = text(RETRY_AFTER).map(str::trim);
    let told = told.and_then(|told| seconds(told).or_else(|| until(told, text(DATE))));
    // Zero would be a busy loop, and nobody means centuries.
    told.map_or(UNTOLD, |seconds| {
        Duration::from_secs(seconds.clamp(1, LONGEST))
    })
}

/// Seconds, rounded up: who comes back too early is turned away once more.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let more = u64::from(part.bytes().any(|digit| digit != b'0'));
    // More digits than fit are a very long time.
    Some(whole.parse().unwrap_or(u64::MAX).saturating_add(more))
}

/// The seconds until a moment, by the clock of whoever names it, if it tells; else by ours.
fn until(text: &str, date: Option<&str>) -> Option<u64> {
    let then = httpdate::parse_http_date(text).ok()?;
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let wait = then.duration_since(now.unwrap_or_else(SystemTime::now));
    let wait = wait.unwrap_or_default();
    let more = u64::from(wait.subsec_nanos() > 0);
    Some(wait.as_secs().saturating_add(more))
}

/// Reads what is optional: something that does not have its shape counts as not there.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// Reads a list, without the things in it that do not have their shape.
pub(super) fn lenient_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let list: Option<Vec<serde_json::Value>> = Option::deserialize(deserializer)?;
    let read = |value| serde_json::from_value(value).ok();
    Ok(list
        .unwrap_or_default()
        .into_iter()
        .filter_map(read)
        .collect())
}

/// Reads a text that may be null.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(lenient(deserializer)?.unwrap_or_default())
}

/// Where the next page begins, if there is one.
#[derive(Default, Deserialize)]
pub(super) struct PageMark {
    #[serde(default, deserialize_with = "text")]
    next_cursor: String,
}

impl PageMark {
    pub(super) fn next(self) -> Option<String> {
        Some(self.next_cursor).filter(|cursor| !cursor.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_however_it_is_written_and_is_never_shorter_than_told() {
        let moment = "Sun, 06 Nov 1994 08:49:37 GMT";
        let earlier = Some("Sun, 06 Nov 1994 08:48:37 GMT");
        let much_earlier = Some("Sun, 06 Nov 1994 01:00:00 GMT");
        for (told, date, seconds) in [
            ("30", None, 30),
            (" 30 ", None, 30),
            ("0", None, 1),
            ("0.2", None, 1),
            ("1.5", None, 2),
            ("7.000", None, 7),
            ("3599.5", None, 3_600),
            ("3600.5", None, LONGEST),
            ("99999999999999999999999", None, LONGEST),
            (moment, earlier, 60),
            (moment, much_earlier, LONGEST),
            // By our clock, or by theirs, it is over.
            (moment, None, 1),
            (moment, Some(moment), 1),
            ("Fri, 31 Dec 9999 23:59:59 GMT", None, LONGEST),
            ("-1", None, UNTOLD.as_secs()),
            ("1.", None, UNTOLD.as_secs()),
            (".5", None, UNTOLD.as_secs()),
            ("1e3", None, UNTOLD.as_secs()),
            ("soon", None, UNTOLD.as_secs()),
            ("", None, UNTOLD.as_secs()),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, told.parse().unwrap());
            if let Some(date) = date {
                headers.insert(DATE, date.parse().unwrap());
            }
            let wait = Duration::from_secs(seconds);
            assert_eq!(retry_after(&headers), wait, "{told}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), UNTOLD);
    }
}
