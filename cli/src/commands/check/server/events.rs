//! Reader of server-sent events.

use super::check_result::CheckFailure;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{StatusCode, header};
use interzone_client::sse::{SseEvent, SseParser};
use serde_json::Value;
use std::collections::VecDeque;

/// Maximum size of an event, far larger than any expected event.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Event stream of one response.
pub(super) struct SseReader {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: SseParser,
    unread: VecDeque<SseEvent>,
}

/// An event that contains a JSON-RPC notification.
pub(super) struct SseNotification {
    pub(super) id: Option<u64>,
    pub(super) method: String,
    pub(super) params: Value,
}

impl SseReader {
    /// Checks that a response is an event stream, and starts reading it.
    pub(super) fn from_response(response: reqwest::Response) -> Result<Self, CheckFailure> {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if response.status() != StatusCode::OK {
            return Err(CheckFailure::violation(format!(
                "HTTP {}",
                response.status().as_u16()
            )));
        }
        if !kind.starts_with("text/event-stream") {
            return Err(CheckFailure::violation(
                "the response is not text/event-stream",
            ));
        }
        Ok(Self {
            chunks: response.bytes_stream().boxed(),
            parser: SseParser::new(MAX_EVENT_BYTES),
            unread: VecDeque::new(),
        })
    }

    /// Returns the next event; the end of the stream is an error.
    pub(super) async fn next(&mut self) -> Result<SseNotification, CheckFailure> {
        let event = self.next_or_end().await?;
        event.ok_or_else(|| CheckFailure::violation("the event stream ended too early"))
    }

    /// Returns the next event, or `None` at the end of the stream.
    pub(super) async fn next_or_end(&mut self) -> Result<Option<SseNotification>, CheckFailure> {
        loop {
            if let Some(event) = self.unread.pop_front() {
                return decode_event(&event).map(Some);
            }
            match self.chunks.next().await {
                Some(Ok(piece)) => self
                    .parser
                    .push(&piece, &mut self.unread)
                    .map_err(|_| CheckFailure::violation("an event is larger than 4 MiB"))?,
                Some(Err(_)) => {
                    return Err(CheckFailure::violation("timed out waiting for an event"));
                }
                None => return Ok(None),
            }
        }
    }
}

fn decode_event(event: &SseEvent) -> Result<SseNotification, CheckFailure> {
    let invalid = || CheckFailure::violation("an event is not a JSON-RPC notification");
    let mut message: Value = serde_json::from_slice(&event.data).map_err(|_| invalid())?;
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") || message.get("id").is_some()
    {
        return Err(invalid());
    }
    let method = message
        .get("method")
        .and_then(Value::as_str)
        .ok_or_else(invalid)?
        .to_owned();
    let params = message
        .get_mut("params")
        .map(Value::take)
        .unwrap_or_default();
    Ok(SseNotification {
        id: event.id.as_ref().and_then(|id| id.parse().ok()),
        method,
        params,
    })
}

#[cfg(test)]
mod tests {
    use super::{SseEvent, decode_event};

    #[test]
    fn event_data_must_be_a_notification() {
        let decode = |data: &str| {
            decode_event(&SseEvent {
                id: Some("7".to_owned()),
                name: "a".to_owned(),
                data: data.into(),
            })
        };
        let event = decode(r#"{"jsonrpc":"2.0","method":"a"}"#).unwrap();
        assert_eq!((event.id, event.method.as_str()), (Some(7), "a"));
        assert!(decode("").is_err());
        assert!(decode("{}").is_err());
        assert!(decode(r#"{"jsonrpc":"2.0","method":"a","id":1}"#).is_err());
    }
}
