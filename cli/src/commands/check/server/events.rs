//! Reader of server-sent events.

use super::check_result::CheckFailure;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{StatusCode, header};
use serde_json::Value;

/// Maximum size of an event, far larger than any expected event.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Event stream of one response.
pub(super) struct SseReader {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    unread: Vec<u8>,
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
            unread: Vec::new(),
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
            while let Some(block) = self.take_block() {
                if let Some(event) = parse(&block)? {
                    return Ok(Some(event));
                }
            }
            match self.chunks.next().await {
                Some(Ok(piece)) if self.unread.len() + piece.len() <= MAX_EVENT_BYTES => {
                    self.unread.extend_from_slice(&piece);
                }
                Some(Ok(_)) => {
                    return Err(CheckFailure::violation("an event is larger than 4 MiB"));
                }
                Some(Err(_)) => {
                    return Err(CheckFailure::violation("timed out waiting for an event"));
                }
                None => return Ok(None),
            }
        }
    }

    /// Removes and returns the text before the next empty line.
    fn take_block(&mut self) -> Option<String> {
        let end = self.unread.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.unread.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&block).into_owned())
    }
}

/// Parses a block; `None` if it is only a comment.
fn parse(block: &str) -> Result<Option<SseNotification>, CheckFailure> {
    let (mut id, mut data) = (None, String::new());
    for line in block.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => id = value.parse().ok(),
            "data" => data.push_str(value),
            _ => {}
        }
    }
    if data.is_empty() {
        return Ok(None);
    }
    let invalid = || CheckFailure::violation("an event is not a JSON-RPC notification");
    let mut message: Value = serde_json::from_str(&data).map_err(|_| invalid())?;
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
    Ok(Some(SseNotification { id, method, params }))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn event_blocks_are_parsed() {
        assert!(parse(": keep-alive\n\n").unwrap().is_none());
        let event = parse("id: 7\nevent: a\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n");
        let event = event.unwrap().unwrap();
        assert_eq!((event.id, event.method.as_str()), (Some(7), "a"));
        assert!(parse("data: {}\n\n").is_err());
        assert!(parse("data: {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1}\n\n").is_err());
    }
}
