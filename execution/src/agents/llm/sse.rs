//! Server-sent events decoder for input that is split anywhere.

use super::errors::DecodeError;

/// Decoder of server-sent events. Each event is passed on as soon as it is complete.
#[derive(Debug)]
pub(super) struct SseDecoder {
    /// Maximum size of an event, in bytes.
    limit: usize,
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The previous line ended with a carriage return, so a line feed now belongs to its end.
    after_return: bool,
    at_start: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl SseDecoder {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_return: false,
            at_start: true,
        }
    }

    /// Decodes more input. Every complete event is passed to `each`, as name and data.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + piece.len() > self.limit {
                return Err(DecodeError::Malformed("an event is too large"));
            }
            self.line.extend_from_slice(piece);
            let Some((ending, rest)) = rest.split_first() else {
                return Ok(());
            };
            self.after_return = *ending == b'\r';
            bytes = rest;
            let mut line = std::mem::take(&mut self.line);
            self.read_line(&line, &mut each)?;
            line.clear();
            self.line = line;
        }
        Ok(())
    }

    fn read_line(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(&[u8], &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.at_start => rest,
            _ => line,
        };
        self.at_start = false;
        if line.is_empty() {
            let result = if self.has_data {
                each(&self.name, &self.data)
            } else {
                Ok(())
            };
            self.has_data = false;
            self.data.clear();
            self.name.clear();
            return result;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            // Comments are keep-alives; ids and retry times matter only for reconnecting.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut sse = SseDecoder::new(64);
        let mut found = Vec::new();
        for piece in pieces {
            sse.push(piece, |name, data| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                found.push((text(name), text(data)));
                Ok(())
            })
            .unwrap();
        }
        found
    }

    #[test]
    fn events_do_not_depend_on_where_input_is_split() {
        let input = "\u{feff}: hi\r\nevent: a\r\ndata: é1\r\ndata:2\r\n\r\ndata\n\nevent: gone\r\rdata: x\r\r";
        let expected = [("a", "é1\n2"), ("", ""), ("", "x")];
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
            .collect();
        for cut in 0..=input.len() {
            let (one, two) = input.as_bytes().split_at(cut);
            assert_eq!(events(&[one, two]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(events(&single), expected);
    }

    #[test]
    fn incomplete_event_is_not_emitted() {
        assert!(events(&[b"data: half\n"]).is_empty());
    }

    #[test]
    fn endless_event_is_rejected() {
        let mut sse = SseDecoder::new(64);
        let mut refused = 0;
        for _ in 0..10 {
            refused += usize::from(sse.push(b"data: 0123456789", |_, _| Ok(())).is_err());
        }
        assert!(refused > 0);
    }
}
