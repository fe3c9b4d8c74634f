//! Lines of bounded length.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What is read at once.
const BUFFER: usize = 64 * 1024;

/// A line may have needed more than this for once; then the room is given back.
const KEPT: usize = 256 * 1024;

/// What happens to a line that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooLong {
    /// It is an error.
    Refuse,
    /// Its end is left out.
    Cut,
}

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("it printed a line of more than {0} bytes")]
    TooLong(usize),
    #[error("its output cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
}

/// Reads lines, and never keeps more than one, nor more of it than is allowed.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    most: usize,
    too_long: TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, most: usize, too_long: TooLong) -> Self {
        Self {
            from: BufReader::with_capacity(BUFFER, from),
            line: Vec::new(),
            most,
            too_long,
        }
    }

    /// The next line, without its end; nothing when there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.line.clear();
        self.line.shrink_to(KEPT);
        let mut began = false;
        loop {
            let read = self.from.fill_buf().await?;
            if read.is_empty() {
                return Ok(began.then_some(self.line.as_slice()));
            }
            began = true;
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = end.map_or(read, |end| read.split_at(end).0);
            let room = self.most.saturating_sub(self.line.len());
            if piece.len() > room && self.too_long == TooLong::Refuse {
                return Err(LineError::TooLong(self.most));
            }
            let taken = piece.get(..room).unwrap_or(piece);
            if self.line.len() >= KEPT {
                // All the room that it may need, once: memory that nothing is written to costs nothing, and each
                // step of growing would leave a copy behind.
                self.line.reserve_exact(room);
            }
            self.line.extend_from_slice(taken);
            let used = piece.len().saturating_add(usize::from(end.is_some()));
            self.from.consume(used);
            if end.is_some() {
                return Ok(Some(self.line.as_slice()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], most: usize, too_long: TooLong) -> Vec<Result<String, String>> {
        let mut lines = Lines::new(text, most, too_long);
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
    async fn lines_are_told_apart_by_their_ends() {
        let all = read(b"one\n\ntwo\r\nthree", 10, TooLong::Refuse).await;
        assert_eq!(
            all,
            ["one", "", "two\r", "three"].map(|line| Ok(line.to_owned()))
        );
        assert!(read(b"", 10, TooLong::Refuse).await.is_empty());
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused_or_cut() {
        let long = [b"1234567\n".as_slice(), &[b'x'; 200_000], b"\nend\n"].concat();
        let cut = read(&long, 7, TooLong::Cut).await;
        assert_eq!(
            cut,
            ["1234567", "xxxxxxx", "end"].map(|line| Ok(line.to_owned()))
        );
        let refused = read(&long, 7, TooLong::Refuse).await;
        assert_eq!(refused.len(), 2);
        assert_eq!(refused[0], Ok("1234567".to_owned()));
        assert!(
            refused[1]
                .as_ref()
                .is_err_and(|why| why.contains("7 bytes"))
        );
    }
}
