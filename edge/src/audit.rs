//! Audit log: one line for each authenticated request.
//!
//! A line has a fixed set of members. Request content, response content and credentials have no member, so they cannot
//! get in.

mod encode;
mod writer;

use crate::telemetry::{self, Metrics};
use encode::LineEncoder;
use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use writer::AuditWriter;

/// One audit entry.
#[derive(Clone, Debug)]
pub struct AuditEntry<'a> {
    /// Time of the response; the request arrived `latency` before.
    pub at: SystemTime,
    /// Principal of the caller.
    pub principal: &'a str,
    /// Client of the caller.
    pub client: &'a str,
    /// Called method.
    pub method: &'a str,
    /// Id of the request as its caller sent it.
    pub id: Option<&'a str>,
    /// Id of the task or stream concerned.
    pub subject: Option<&'a str>,
    /// Outcome label.
    pub outcome: &'a str,
    /// Error code, if any.
    pub code: Option<i32>,
    /// Processing time.
    pub latency: Duration,
    /// Correlation id of the request.
    pub correlation: &'a str,
    /// Address of the caller.
    pub address: Option<IpAddr>,
}

/// Writes entries as JSON lines to the log, a file, or both. Never blocks a request: dedicated threads write, and if
/// one cannot keep up, lines are dropped and counted.
#[derive(Clone, Debug)]
pub struct Audit {
    log: Option<Arc<AuditWriter>>,
    file: Option<Arc<AuditWriter>>,
    metrics: Arc<Metrics>,
}

impl Audit {
    /// Writes to the log output; a program passes `std::io::stderr`. Lines are written if the log filter enables the
    /// target `audit` at the level `info`.
    pub fn to_log(log: impl Write + Send + 'static, metrics: Arc<Metrics>) -> io::Result<Self> {
        Ok(Self {
            log: Some(Arc::new(AuditWriter::spawn(log, Arc::clone(&metrics))?)),
            file: None,
            metrics,
        })
    }

    /// Appends to the file at `path`, which is created with mode 0600 if it does not exist.
    pub fn to_file(path: &Path, metrics: Arc<Metrics>) -> io::Result<Self> {
        Self {
            log: None,
            file: None,
            metrics,
        }
        .and_to_file(path)
    }

    /// Appends to the file at `path` as well.
    pub fn and_to_file(self, path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lines = AuditWriter::spawn(options.open(path)?, Arc::clone(&self.metrics))?;
        Ok(Self {
            file: Some(Arc::new(lines)),
            ..self
        })
    }

    /// Records one entry. Returns true if it goes to the log.
    pub fn record(&self, entry: &AuditEntry<'_>) -> bool {
        let logged =
            telemetry::audit_enabled() && tracing::enabled!(target: "audit", tracing::Level::INFO);
        let log = self.log.as_ref().filter(|_| logged);
        if log.is_none() && self.file.is_none() {
            return false;
        }
        ENCODER.with_borrow_mut(|line| {
            let Some(line) = line.encode(entry) else {
                self.metrics.record_audit_dropped();
                return false;
            };
            for lines in log.into_iter().chain(&self.file) {
                lines.push(line);
            }
            log.is_some()
        })
    }
}

thread_local! {
    static ENCODER: RefCell<LineEncoder> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::UNIX_EPOCH;

    fn entry(method: &str) -> AuditEntry<'_> {
        AuditEntry {
            at: UNIX_EPOCH + Duration::from_millis(1_709_210_096_789),
            principal: "alice",
            client: "laptop",
            method,
            id: Some("req-1"),
            subject: Some("task-1"),
            outcome: "refused",
            code: Some(7),
            latency: Duration::from_micros(1234),
            correlation: "abc",
            address: Some([127, 0, 0, 1].into()),
        }
    }

    fn record_to_file(entries: &[AuditEntry<'_>]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for entry in entries {
            // Reopened each time: lines are appended, and pending lines are written on drop.
            let audit = Audit::to_file(&path, Arc::default()).unwrap();
            audit.record(entry);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn audit_line_has_the_documented_members() {
        let text = record_to_file(&[entry("tasks.get")]);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expect = json!({
            "at": "2024-02-29T12:34:56.789Z", "who": "alice", "client": "laptop",
            "method": "tasks.get", "id": "req-1", "subject": "task-1", "outcome": "refused", "code": 7,
            "latency_ms": 1.234, "correlation": "abc", "address": "127.0.0.1",
        });
        assert_eq!(line, expect);
    }

    #[test]
    fn hostile_values_are_escaped_and_truncated() {
        let hostile = format!("x\n{{\"who\":\"mallory\"}}\u{1b}[2J{}", "é".repeat(500));
        let mut bare = entry(&hostile);
        (bare.subject, bare.code, bare.address) = (None, None, None);
        let text = record_to_file(&[bare, entry("tasks.get")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].len() < 600 && !lines[0].contains('\u{1b}'),
            "{text}"
        );
        let first: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(first["who"], "alice");
        assert!(first.get("subject").is_none());
    }

    /// An in-memory log.
    #[derive(Clone, Default)]
    struct MemoryLog(Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for MemoryLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn log_gets_every_audit_line_if_its_filter_allows() {
        use tracing_subscriber::layer::SubscriberExt;
        let count_lines = |filter_text: &str| {
            let filter: tracing_subscriber::filter::Targets = filter_text.parse().unwrap();
            let subscriber = tracing_subscriber::registry().with(filter);
            let log = MemoryLog::default();
            let audit = Audit::to_log(log.clone(), Arc::default()).unwrap();
            tracing::subscriber::with_default(subscriber, || {
                assert!(
                    (0..1000).all(|_| audit.record(&entry("tasks.get")) == (filter_text == "info"))
                );
            });
            drop(audit);
            let text = log.0.lock().unwrap().clone();
            let lines = text.split_inclusive(|byte| *byte == b'\n');
            let is_complete = |line: &&[u8]| {
                serde_json::from_slice::<serde_json::Value>(line).unwrap()["who"] == "alice"
            };
            lines.filter(is_complete).count()
        };
        assert_eq!(count_lines("info"), 1000);
        assert_eq!(count_lines("info,audit=off"), 0);
    }

    #[test]
    fn unwritable_audit_lines_are_counted() {
        if !Path::new("/dev/full").exists() {
            return;
        }
        let metrics = Arc::new(Metrics::new());
        let audit = Audit::to_file(Path::new("/dev/full"), Arc::clone(&metrics)).unwrap();
        audit.record(&entry("tasks.get"));
        drop(audit);
        let text = metrics.encode();
        assert!(
            text.contains("interzone_audit_lines_dropped_total 1\n"),
            "{text}"
        );
    }
}
