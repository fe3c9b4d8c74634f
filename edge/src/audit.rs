//! Who did what, when, and how it went: one line for each authenticated request.
//!
//! A line has a fixed set of members. What was said, what was answered and what proved the caller
//! have no member, so they cannot get in.

mod file;

use crate::telemetry::Metrics;
use serde::Serialize;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longer words are cut: an id or a name is short, and a log is no place to keep anything else.
const LONGEST: usize = 200;

/// One line of the audit.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// When the request came.
    pub at: SystemTime,
    /// Who asked: the principal.
    pub who: &'a str,
    /// By which client.
    pub client: &'a str,
    /// What was asked for.
    pub method: &'a str,
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

/// Writes entries to the log (target `audit`, one JSON object as the message) and, if there is one,
/// to a file. Neither ever makes a request wait: if the file cannot keep up, lines are dropped and
/// counted.
#[derive(Clone, Debug)]
pub struct Audit {
    file: Option<Arc<file::Lines>>,
    metrics: Arc<Metrics>,
}

impl Audit {
    /// To the log alone.
    pub fn to_log(metrics: Arc<Metrics>) -> Self {
        Self {
            file: None,
            metrics,
        }
    }

    /// To the log and to the end of the file at `path`, which is made if it is not there, for its
    /// owner's eyes only.
    pub fn to_file(path: &Path, metrics: Arc<Metrics>) -> io::Result<Self> {
        Ok(Self {
            file: Some(Arc::new(file::Lines::open(path, Arc::clone(&metrics))?)),
            metrics,
        })
    }

    /// Records one entry.
    pub fn record(&self, entry: &Entry<'_>) {
        let logged = tracing::enabled!(target: "audit", tracing::Level::INFO);
        if !logged && self.file.is_none() {
            return;
        }
        let Ok(line) = serde_json::to_string(&Line::from(entry)) else {
            return self.metrics.audit_dropped();
        };
        if logged {
            tracing::info!(target: "audit", "{line}");
        }
        if let Some(file) = &self.file {
            file.push(&line);
        }
    }
}

/// An entry as it is written.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    who: &'a str,
    client: &'a str,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    latency_ms: f64,
    correlation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
}

impl<'a> From<&Entry<'a>> for Line<'a> {
    fn from(entry: &Entry<'a>) -> Self {
        Self {
            at: rfc3339(entry.at),
            who: short(entry.who),
            client: short(entry.client),
            method: short(entry.method),
            subject: entry.subject.map(short),
            outcome: short(entry.outcome),
            code: entry.code,
            latency_ms: (entry.latency.as_secs_f64() * 1_000_000.0).round() / 1000.0,
            correlation: short(entry.correlation),
            address: entry.address,
        }
    }
}

fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST))
        .unwrap_or_default()
}

/// The moment in UTC, to the millisecond.
fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from the 1st of March of the year 0, so that a leap day is the last of its
    // year; 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (
        day - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(method: &str) -> Entry<'_> {
        Entry {
            at: UNIX_EPOCH + Duration::from_millis(1_709_210_096_789),
            who: "alice",
            client: "laptop",
            method,
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
            "method": "tasks.get", "subject": "task-1", "outcome": "refused", "code": 7,
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

    #[test]
    fn moments_are_told_in_utc() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59.000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
    }
}
