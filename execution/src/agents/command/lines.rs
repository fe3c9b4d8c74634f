//! Line reader with bounded line length.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Read buffer size in bytes.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A line buffer that grew beyond this size is shrunk before the next line.
const RETAINED_BUFFER_BYTES: usize = 256 * 1024;

/// Handling of lines that are too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooLong {
    /// Return an error.
    Reject,
    /// Drop the end of the line.
    Truncate,
}

/// Errors of [`LineReader::next`].
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("output line is longer than {0} bytes")]
    TooLong(usize),
    #[error("output cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
}

/// Reads lines one at a time and buffers at most `max_bytes` of each.
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    too_long: TooLong,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R, max_bytes: usize, too_long: TooLong) -> Self {
        Self {
            reader: BufReader::with_capacity(READ_BUFFER_BYTES, reader),
            line: Vec::new(),
            max_bytes,
            too_long,
        }
    }

    /// Returns the next line without its line feed, or `None` at the end of the input.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.line.clear();
        self.line.shrink_to(RETAINED_BUFFER_BYTES);
        let mut has_data = false;
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(has_data.then_some(self.line.as_slice()));
            }
            has_data = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = end.map_or(available, |end| available.split_at(end).0);
            let remaining = self.max_bytes.saturating_sub(self.line.len());
            if piece.len() > remaining && self.too_long == TooLong::Reject {
                return Err(LineError::TooLong(self.max_bytes));
            }
            let taken = piece.get(..remaining).unwrap_or(piece);
            if self.line.len() >= RETAINED_BUFFER_BYTES {
                // Reserve everything that the line may need at once: untouched memory costs nothing, and each growth
                // step would leave a copy behind.
                self.line.reserve_exact(remaining);
            }
            self.line.extend_from_slice(taken);
            let used = piece.len().saturating_add(usize::from(end.is_some()));
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.line.as_slice()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(
        text: &[u8],
        max_bytes: usize,
        too_long: TooLong,
    ) -> Vec<Result<String, String>> {
        let mut lines = LineReader::new(text, max_bytes, too_long);
        let mut all = Vec::new();
        loop {
            match lines.next().await {
                Ok(None) => return all,
                Ok(Some(line)) => all.push(Ok(String::from_utf8_lossy(line).into_owned())),
                Err(error) => {
                    all.push(Err(error.to_string()));
                    return all;
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_are_split_at_line_feeds() {
        let all = read_all(b"one\n\ntwo\r\nthree", 10, TooLong::Reject).await;
        assert_eq!(
            all,
            ["one", "", "two\r", "three"].map(|line| Ok(line.to_owned()))
        );
        assert!(read_all(b"", 10, TooLong::Reject).await.is_empty());
    }

    #[tokio::test]
    async fn overlong_line_is_rejected_or_truncated() {
        let long = [b"1234567\n".as_slice(), &[b'x'; 200_000], b"\nend\n"].concat();
        let cut = read_all(&long, 7, TooLong::Truncate).await;
        assert_eq!(
            cut,
            ["1234567", "xxxxxxx", "end"].map(|line| Ok(line.to_owned()))
        );
        let refused = read_all(&long, 7, TooLong::Reject).await;
        assert_eq!(refused.len(), 2);
        assert_eq!(refused[0], Ok("1234567".to_owned()));
        assert!(
            refused[1]
                .as_ref()
                .is_err_and(|why| why.contains("7 bytes"))
        );
    }
}
