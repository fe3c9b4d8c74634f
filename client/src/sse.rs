//! Incremental parser for server-sent events, of zones and other servers.

use std::collections::VecDeque;
use std::time::Duration;

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The id field of this event, not inherited from earlier ones.
    pub id: Option<String>,
    /// The event field, or empty.
    pub name: String,
    /// The data fields, joined by line feeds.
    pub data: Vec<u8>,
}

/// The event exceeds the size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is too large")]
pub struct EventTooLarge;

/// Parser for input that is split anywhere.
///
/// ```
/// use interzone_client::sse::SseParser;
/// use std::collections::VecDeque;
///
/// let mut parser = SseParser::new(1024);
/// let mut events = VecDeque::new();
/// for piece in [&b"event: tick\nda"[..], b"ta: 1\n\n: comment\n\n"] {
///     parser.push(piece, &mut events)?;
/// }
/// assert_eq!(events.len(), 1);
/// assert_eq!((events[0].name.as_str(), events[0].data.as_slice()), ("tick", &b"1"[..]));
/// # Ok::<(), interzone_client::sse::EventTooLarge>(())
/// ```
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    line: Vec<u8>,
    /// The previous line ended with a carriage return, so a line feed now belongs to it.
    after_return: bool,
    /// Nothing has been read, so a byte order mark may follow.
    at_start: bool,
    event: SseEvent,
    has_data: bool,
    retry: Option<Duration>,
}

/// Maximum `retry` that is honored; a longer one is a mistake of the server.
const MAX_RETRY: Duration = Duration::from_secs(300);
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl SseParser {
    /// Creates a parser for events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: SseEvent::default(),
            has_data: false,
            retry: None,
        }
    }

    /// Returns the reconnect delay that the server requested.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Parses more bytes. Complete events are appended to `out`.
    ///
    /// # Errors
    /// An event is larger than the limit. The events before it are in `out`.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        out: &mut VecDeque<SseEvent>,
    ) -> Result<(), EventTooLarge> {
        while let Some(first) = bytes.first() {
            if self.after_return {
                self.after_return = false;
                if *first == b'\n' {
                    bytes = bytes.get(1..).unwrap_or_default();
                    continue;
                }
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (line, tail) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.event.data.len() + line.len() > self.limit {
                return Err(EventTooLarge);
            }
            self.line.extend_from_slice(line);
            let Some((ending, tail)) = tail.split_first() else {
                return Ok(());
            };
            self.after_return = *ending == b'\r';
            bytes = tail;
            let complete_line = std::mem::take(&mut self.line);
            self.read_line(&complete_line, out);
            // The buffer is reused, unless it has grown beyond a typical line.
            if complete_line.capacity() <= 64 * 1024 {
                self.line = complete_line;
                self.line.clear();
            }
        }
        Ok(())
    }

    fn read_line(&mut self, line: &[u8], out: &mut VecDeque<SseEvent>) {
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(content) if self.at_start => content,
            _ => line,
        };
        self.at_start = false;
        if line.is_empty() {
            self.dispatch(out);
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.event.data.push(b'\n');
                }
                self.has_data = true;
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.event.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => {
                let text = std::str::from_utf8(value).ok();
                let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let wait = digits.and_then(|text| text.parse().ok());
                let wait = wait
                    .map(Duration::from_millis)
                    .map(|wait| wait.min(MAX_RETRY));
                self.retry = wait.or(self.retry);
            }
            // A comment has an empty name. Other fields are ignored, as the standard requires.
            _ => {}
        }
    }

    /// Ends an event at a blank line. Without data there is none, and its id is dropped: our servers send ids with
    /// data only.
    fn dispatch(&mut self, out: &mut VecDeque<SseEvent>) {
        let event = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) {
            out.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests;
