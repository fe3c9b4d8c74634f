//! Server-sent events, read as they come.

use super::verdict::Flaw;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{StatusCode, header};
use serde_json::Value;

/// The most of one event. No check causes nearly so much.
const MOST: usize = 4 << 20;

/// Events of one response.
pub(super) struct Events {
    pieces: BoxStream<'static, reqwest::Result<Bytes>>,
    unread: Vec<u8>,
}

/// One event that carries a notification.
pub(super) struct Event {
    pub(super) id: Option<u64>,
    pub(super) method: String,
    pub(super) params: Value,
}

impl Events {
    /// Takes a response that must be events.
    pub(super) fn of(response: reqwest::Response) -> Result<Self, Flaw> {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if response.status() != StatusCode::OK {
            return Err(Flaw::broken(format!("HTTP {}", response.status().as_u16())));
        }
        if !kind.starts_with("text/event-stream") {
            return Err(Flaw::broken("the answer is not text/event-stream"));
        }
        Ok(Self {
            pieces: response.bytes_stream().boxed(),
            unread: Vec::new(),
        })
    }

    /// The next event, which must come.
    pub(super) async fn next(&mut self) -> Result<Event, Flaw> {
        let event = self.until_end().await?;
        event.ok_or_else(|| Flaw::broken("the events end too soon"))
    }

    /// The next event, or nothing if the server has ended them.
    pub(super) async fn until_end(&mut self) -> Result<Option<Event>, Flaw> {
        loop {
            while let Some(block) = self.take_block() {
                if let Some(event) = parse(&block)? {
                    return Ok(Some(event));
                }
            }
            match self.pieces.next().await {
                Some(Ok(piece)) if self.unread.len() + piece.len() <= MOST => {
                    self.unread.extend_from_slice(&piece);
                }
                Some(Ok(_)) => return Err(Flaw::broken("an event is larger than 4 MiB")),
                Some(Err(_)) => return Err(Flaw::broken("no event in time")),
                None => return Ok(None),
            }
        }
    }

    /// What stands before the next empty line.
    fn take_block(&mut self) -> Option<String> {
        let end = self.unread.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.unread.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&block).into_owned())
    }
}

/// Reads a block; nothing if it is only a comment.
fn parse(block: &str) -> Result<Option<Event>, Flaw> {
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
    let not = || Flaw::broken("an event is no JSON-RPC notification");
    let mut message: Value = serde_json::from_str(&data).map_err(|_| not())?;
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") || message.get("id").is_some()
    {
        return Err(not());
    }
    let method = message
        .get("method")
        .and_then(Value::as_str)
        .ok_or_else(not)?
        .to_owned();
    let params = message
        .get_mut("params")
        .map(Value::take)
        .unwrap_or_default();
    Ok(Some(Event { id, method, params }))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn blocks() {
        assert!(parse(": keep-alive\n\n").unwrap().is_none());
        let event = parse("id: 7\nevent: a\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n");
        let event = event.unwrap().unwrap();
        assert_eq!((event.id, event.method.as_str()), (Some(7), "a"));
        assert!(parse("data: {}\n\n").is_err());
        assert!(parse("data: {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1}\n\n").is_err());
    }
}
