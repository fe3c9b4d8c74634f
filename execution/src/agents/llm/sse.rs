//! Server-sent events from bytes that come in any pieces. What an event means is not known here.

use super::errors::Misread;

/// Reads events. Each is passed on as soon as its last byte is there.
#[derive(Debug)]
pub(super) struct Sse {
    /// How many bytes an event may have.
    limit: usize,
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The line before ended with a carriage return, so a line feed now is the rest of its end.
    after_return: bool,
    at_start: bool,
}

const MARK: &[u8] = b"\xef\xbb\xbf";

impl Sse {
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

    /// Reads on. Every whole event is given to `each`, its name and its data.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Misread>,
    ) -> Result<(), Misread> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + piece.len() > self.limit {
                return Err(Misread::Broken("an event is too large"));
            }
            self.line.extend_from_slice(piece);
            let Some((ending, rest)) = rest.split_first() else {
                return Ok(());
            };
            self.after_return = *ending == b'\r';
            bytes = rest;
            let mut line = std::mem::take(&mut self.line);
            self.read(&line, &mut each)?;
            line.clear();
            self.line = line;
        }
        Ok(())
    }

    fn read(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(&[u8], &[u8]) -> Result<(), Misread>,
    ) -> Result<(), Misread> {
        let line = match line.strip_prefix(MARK) {
            Some(rest) if self.at_start => rest,
            _ => line,
        };
        self.at_start = false;
        if line.is_empty() {
            let told = if self.has_data {
                each(&self.name, &self.data)
            } else {
                Ok(())
            };
            self.has_data = false;
            self.data.clear();
            self.name.clear();
            return told;
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
            // Comments keep the connection alive; ids and waits are for those who come back.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut sse = Sse::new(64);
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
    fn an_event_is_the_same_wherever_it_is_cut() {
        let whole = "\u{feff}: hi\r\nevent: a\r\ndata: é1\r\ndata:2\r\n\r\ndata\n\nevent: gone\r\rdata: x\r\r";
        let expected = [("a", "é1\n2"), ("", ""), ("", "x")];
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
            .collect();
        for cut in 0..=whole.len() {
            let (one, two) = whole.as_bytes().split_at(cut);
            assert_eq!(events(&[one, two]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = whole.as_bytes().chunks(1).collect();
        assert_eq!(events(&single), expected);
    }

    #[test]
    fn an_event_without_its_end_is_none() {
        assert!(events(&[b"data: half\n"]).is_empty());
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut sse = Sse::new(64);
        let mut refused = 0;
        for _ in 0..10 {
            refused += usize::from(sse.push(b"data: 0123456789", |_, _| Ok(())).is_err());
        }
        assert!(refused > 0);
    }
}
