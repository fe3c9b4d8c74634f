//! Who did what, when, and how it went: one line for each authenticated request.
//!
//! A line has a fixed set of members. What was said, what was answered and what proved the caller
//! have no member, so they cannot get in.

mod line;
mod lines;

use crate::telemetry::{self, Metrics};
use line::Line;
use lines::Lines;
use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// One line of the audit.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// When it was answered; it came `latency` before.
    pub at: SystemTime,
    /// Who asked: the principal.
    pub who: &'a str,
    /// By which client.
    pub client: &'a str,
    /// What was asked for.
    pub method: &'a str,
    /// The id of the call itself, as its caller gave it.
    pub id: Option<&'a str>,
    /// The id of the task or stream that it was about.
    pub subject: Option<&'a str>,
    /// How it went, in a word.
    pub outcome: &'a str,
    /// The error's code, if there was one.
    pub code: Option<i32>,
    /// How long it took.
    pub latency: Duration,
    /// The request's correlation id.
    pub correlation: &'a str,
    /// Where it came from.
    pub address: Option<IpAddr>,
}

/// Writes entries, each a JSON object on a line of its own, to the log, to a file, or to both. Neither
/// ever makes a request wait: threads of their own write, and if one cannot keep up, lines are dropped
/// and counted.
#[derive(Clone, Debug)]
pub struct Audit {
    log: Option<Arc<Lines>>,
    file: Option<Arc<Lines>>,
    metrics: Arc<Metrics>,
}

impl Audit {
    /// To where the log goes; for a program that is `std::io::stderr`. The lines are there if the
    /// log's filter lets the target `audit` through at the level `info`.
    pub fn to_log(log: impl Write + Send + 'static, metrics: Arc<Metrics>) -> io::Result<Self> {
        Ok(Self {
            log: Some(Arc::new(Lines::to(log, Arc::clone(&metrics))?)),
            file: None,
            metrics,
        })
    }

    /// To the end of the file at `path`, which is made if it is not there, for its owner's eyes only.
    pub fn to_file(path: &Path, metrics: Arc<Metrics>) -> io::Result<Self> {
        Self {
            log: None,
            file: None,
            metrics,
        }
        .and_to_file(path)
    }

    /// To the end of the file at `path` as well.
    pub fn and_to_file(self, path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lines = Lines::to(options.open(path)?, Arc::clone(&self.metrics))?;
        Ok(Self {
            file: Some(Arc::new(lines)),
            ..self
        })
    }

    /// Records one entry. Answers whether it goes to the log.
    pub fn record(&self, entry: &Entry<'_>) -> bool {
        let logged =
            telemetry::audited() && tracing::enabled!(target: "audit", tracing::Level::INFO);
        let log = self.log.as_ref().filter(|_| logged);
        if log.is_none() && self.file.is_none() {
            return false;
        }
        LINE.with_borrow_mut(|line| {
            let Some(line) = line.write(entry) else {
                self.metrics.audit_dropped();
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
    static LINE: RefCell<Line> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::UNIX_EPOCH;

    fn entry(method: &str) -> Entry<'_> {
        Entry {
            at: UNIX_EPOCH + Duration::from_millis(1_709_210_096_789),
            who: "alice",
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

    fn recorded(entries: &[Entry<'_>]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for entry in entries {
            // Opened anew each time: it is written at the end, and what waits is written on the way out.
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
    fn a_line_says_who_did_what_and_nothing_else() {
        let text = recorded(&[entry("tasks.get")]);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expect = json!({
            "at": "2024-02-29T12:34:56.789Z", "who": "alice", "client": "laptop",
            "method": "tasks.get", "id": "req-1", "subject": "task-1", "outcome": "refused", "code": 7,
            "latency_ms": 1.234, "correlation": "abc", "address": "127.0.0.1",
        });
        assert_eq!(line, expect);
    }

    #[test]
    fn hostile_words_stay_in_their_line_and_short() {
        let hostile = format!("x\n{{\"who\":\"mallory\"}}\u{1b}[2J{}", "é".repeat(500));
        let mut bare = entry(&hostile);
        (bare.subject, bare.code, bare.address) = (None, None, None);
        let text = recorded(&[bare, entry("tasks.get")]);
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

    /// A log that can be read.
    #[derive(Clone, Default)]
    struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_log_gets_every_line_by_the_end_if_its_filter_lets_them_through() {
        use tracing_subscriber::layer::SubscriberExt;
        let write = |wanted: &str| {
            let filter: tracing_subscriber::filter::Targets = wanted.parse().unwrap();
            let subscriber = tracing_subscriber::registry().with(filter);
            let log = Log::default();
            let audit = Audit::to_log(log.clone(), Arc::default()).unwrap();
            tracing::subscriber::with_default(subscriber, || {
                assert!((0..1000).all(|_| audit.record(&entry("tasks.get")) == (wanted == "info")));
            });
            drop(audit);
            let text = log.0.lock().unwrap().clone();
            let lines = text.split_inclusive(|byte| *byte == b'\n');
            let whole = |line: &&[u8]| {
                serde_json::from_slice::<serde_json::Value>(line).unwrap()["who"] == "alice"
            };
            lines.filter(whole).count()
        };
        assert_eq!(write("info"), 1000);
        assert_eq!(write("info,audit=off"), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
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
