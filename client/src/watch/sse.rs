//! Server-sent events, read from bytes that come in any pieces. What an event means is not known
//! here.

use std::collections::VecDeque;
use std::time::Duration;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The id that came with this very event.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

/// The event is larger than we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

#[derive(Debug)]
pub(crate) struct Parser {
    limit: usize,
    line: Vec<u8>,
    /// The line before ended with a carriage return, so a line feed now is the rest of its end.
    after_return: bool,
    /// Nothing has been read, so a byte order mark may come.
    at_start: bool,
    event: Event,
    has_data: bool,
    retry: Option<Duration>,
}

/// Waits that a server may ask for, beyond which it must be mistaken.
const LONGEST_RETRY: Duration = Duration::from_secs(300);
const MARK: &[u8] = b"\xef\xbb\xbf";

impl Parser {
    /// A parser that takes events of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: Event::default(),
            has_data: false,
            retry: None,
        }
    }

    /// How long the server wants us to wait before we come back.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Reads on. Events that are whole are put to `out`.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), TooLarge> {
        while let Some(first) = bytes.first() {
            if self.after_return {
                self.after_return = false;
                if *first == b'\n' {
                    bytes = bytes.get(1..).unwrap_or_default();
                    continue;
                }
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.event.data.len() + line.len() > self.limit {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(line);
            let Some((ending, rest)) = rest.split_first() else {
                return Ok(());
            };
            self.after_return = *ending == b'\r';
            bytes = rest;
            let whole = std::mem::take(&mut self.line);
            self.read_line(&whole, out);
            // The buffer is used again, unless it has grown beyond what lines usually need.
            if whole.capacity() <= 64 * 1024 {
                self.line = whole;
                self.line.clear();
            }
        }
        Ok(())
    }

    fn read_line(&mut self, line: &[u8], out: &mut VecDeque<Event>) {
        let line = match line.strip_prefix(MARK) {
            Some(rest) if self.at_start => rest,
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
                    .map(|wait| wait.min(LONGEST_RETRY));
                self.retry = wait.or(self.retry);
            }
            // A comment has an empty name. Others are for readers who know more.
            _ => {}
        }
    }

    /// A blank line ends an event. Without data there is none, and its id goes with it: ours come
    /// with data.
    fn dispatch(&mut self, out: &mut VecDeque<Event>) {
        let event = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) {
            out.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests;
