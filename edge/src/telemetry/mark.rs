//! The correlation id on the lines that are logged while a request is worked at.
//!
//! A span would put it there too, but costs more than many an answer. So whoever polls a request says whose
//! it is, and a line that is written meanwhile gets the id, unless it says it by itself.

use super::LogFormat;
use crate::request::Correlation;
use std::cell::Cell;
use std::io::{self, Write};
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    static CURRENT: Cell<Option<Correlation>> = const { Cell::new(None) };
}

/// While it lives, lines of this thread are about one request.
#[derive(Debug)]
#[must_use = "dropping it at once marks nothing"]
pub struct Mark(Option<Correlation>);

/// Marks the lines of this thread until the answer is dropped. Never keep it while waiting: others are
/// worked at meanwhile.
pub fn mark(correlation: &Correlation) -> Mark {
    Mark(CURRENT.replace(Some(correlation.clone())))
}

impl Drop for Mark {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current() -> Option<Correlation> {
    let look = |current: &Cell<Option<Correlation>>| {
        let found = current.take();
        current.set(found.clone());
        found
    };
    CURRENT.try_with(look).ok().flatten()
}

/// Gives writers that mark lines.
pub(super) struct Marking<W> {
    pub(super) inner: W,
    pub(super) format: LogFormat,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Marking<W> {
    type Writer = Marked<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Marked {
            inner: self.inner.make_writer(),
            format: self.format,
            about: current(),
        }
    }
}

/// Writes one line, which comes to it as a whole.
pub(super) struct Marked<W> {
    inner: W,
    format: LogFormat,
    about: Option<Correlation>,
}

impl<W: Write> Write for Marked<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some(about) = &self.about else {
            return self.inner.write(line);
        };
        match marked(line, about.as_str(), self.format) {
            Some(marked) => self.inner.write_all(&marked)?,
            None => self.inner.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The line with the id, whose letters need no care in either form. `None` if it has it, or is no line.
fn marked(line: &[u8], id: &str, format: LogFormat) -> Option<Vec<u8>> {
    let line = std::str::from_utf8(line).ok()?;
    let marked = match format {
        LogFormat::Text if says(line, id) => return None,
        LogFormat::Text => format!("{} correlation={id}\n", line.strip_suffix('\n')?),
        LogFormat::Json if line.contains("\"correlation\":") => return None,
        LogFormat::Json => format!("{{\"correlation\":\"{id}\",{}", line.strip_prefix('{')?),
    };
    Some(marked.into_bytes())
}

/// Whether a line of text says the id by itself, in colours or without. That it names another does not count:
/// it may be what somebody outside has said.
fn says(line: &str, id: &str) -> bool {
    ["=", "\u{1b}[0m\u{1b}[2m=\u{1b}[0m"]
        .iter()
        .any(|sign| line.contains(&format!("correlation{sign}{id}")))
}
