//! Correlation id of log lines.
//!
//! A span would add it too, but costs more than many responses. Instead, the task that polls a request enters a
//! [`CorrelationScope`], and lines that this thread logs meanwhile get the id unless they already contain it.

use super::LogFormat;
use crate::request_context::CorrelationId;
use std::cell::Cell;
use std::io::{self, Write};
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    static CURRENT: Cell<Option<CorrelationId>> = const { Cell::new(None) };
}

/// Guard: while it lives, log lines of this thread carry the correlation id of one request.
#[derive(Debug)]
#[must_use = "dropping it at once has no effect"]
pub struct CorrelationScope(Option<CorrelationId>);

/// Adds the correlation id to the log lines of this thread until the guard is dropped. Never hold it across an
/// await: the thread polls other requests meanwhile.
pub fn enter_correlation(correlation: &CorrelationId) -> CorrelationScope {
    CorrelationScope(CURRENT.replace(Some(correlation.clone())))
}

impl Drop for CorrelationScope {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current_correlation() -> Option<CorrelationId> {
    let peek = |current: &Cell<Option<CorrelationId>>| {
        let correlation = current.take();
        current.set(correlation.clone());
        correlation
    };
    CURRENT.try_with(peek).ok().flatten()
}

/// `MakeWriter` whose writers add the correlation id.
pub(super) struct CorrelatingMakeWriter<W> {
    pub(super) inner: W,
    pub(super) format: LogFormat,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for CorrelatingMakeWriter<W> {
    type Writer = CorrelatingWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        CorrelatingWriter {
            inner: self.inner.make_writer(),
            format: self.format,
            correlation: current_correlation(),
        }
    }
}

/// Writer of one log line, which arrives in one `write` call.
pub(super) struct CorrelatingWriter<W> {
    inner: W,
    format: LogFormat,
    correlation: Option<CorrelationId>,
}

impl<W: Write> Write for CorrelatingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some(correlation) = &self.correlation else {
            return self.inner.write(line);
        };
        match add_correlation(line, correlation.as_str(), self.format) {
            Some(line_with_id) => self.inner.write_all(&line_with_id)?,
            None => self.inner.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Returns the line with the id added, which needs no escaping in either format. `None` if the line has it already or
/// is not a complete line.
fn add_correlation(line: &[u8], id: &str, format: LogFormat) -> Option<Vec<u8>> {
    let line = std::str::from_utf8(line).ok()?;
    let line_with_id = match format {
        LogFormat::Text if has_correlation(line, id) => return None,
        LogFormat::Text => format!("{} correlation={id}\n", line.strip_suffix('\n')?),
        LogFormat::Json if line.contains("\"correlation\":") => return None,
        LogFormat::Json => format!("{{\"correlation\":\"{id}\",{}", line.strip_prefix('{')?),
    };
    Some(line_with_id.into_bytes())
}

/// Returns true if a text line contains the id as a field, with or without colors. Another id does not count: it may
/// come from outside.
fn has_correlation(line: &str, id: &str) -> bool {
    ["=", "\u{1b}[0m\u{1b}[2m=\u{1b}[0m"]
        .iter()
        .any(|separator| line.contains(&format!("correlation{separator}{id}")))
}
