//! Audit log: one line for each authenticated request.
//!
//! A line has a fixed set of members. Request content, response content and credentials have no member, so they cannot
//! get in.

mod writer;

use crate::telemetry::{self, Metrics};
use serde::{Serialize, Serializer};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use writer::AuditWriter;

/// Maximum length of a value; longer ones are truncated. Ids and names are short.
const MAX_VALUE_BYTES: usize = 200;

/// One audit entry, in its JSON form.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntry<'a> {
    /// Time of the response; the request arrived `latency` before.
    #[serde(serialize_with = "utc_time")]
    pub at: SystemTime,
    /// Principal of the caller.
    #[serde(rename = "who", serialize_with = "truncated")]
    pub principal: &'a str,
    /// Client of the caller.
    #[serde(serialize_with = "truncated")]
    pub client: &'a str,
    /// Called method.
    #[serde(serialize_with = "truncated")]
    pub method: &'a str,
    /// Id of the request as its caller sent it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "truncated_option"
    )]
    pub id: Option<&'a str>,
    /// Id of the task or stream concerned.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "truncated_option"
    )]
    pub subject: Option<&'a str>,
    /// Outcome label.
    #[serde(serialize_with = "truncated")]
    pub outcome: &'a str,
    /// Error code, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Processing time.
    #[serde(rename = "latency_ms", serialize_with = "milliseconds")]
    pub latency: Duration,
    /// Correlation id of the request.
    #[serde(serialize_with = "truncated")]
    pub correlation: &'a str,
    /// Address of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

impl AuditEntry<'_> {
    /// Encodes the entry with a line feed. `None` if it cannot be encoded.
    fn to_line(&self) -> Option<Vec<u8>> {
        let mut line = Vec::with_capacity(LINE_CAPACITY);
        serde_json::to_writer(&mut line, self).ok()?;
        line.push(b'\n');
        Some(line)
    }
}

/// Initial buffer size of a line, which holds nearly all of them.
const LINE_CAPACITY: usize = 512;

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
        let Some(line) = entry.to_line() else {
            self.metrics.record_audit_dropped();
            return false;
        };
        for lines in log.into_iter().chain(&self.file) {
            lines.push(&line);
        }
        log.is_some()
    }
}

/// Serializes a time in UTC with milliseconds.
fn utc_time<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let at = OffsetDateTime::from(*at);
    serializer.collect_str(&format_args!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    ))
}

/// Serializes a duration in milliseconds, rounded to microseconds.
fn milliseconds<S: Serializer>(latency: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let micros = (latency.as_nanos() + 500) / 1000;
    let millis = u32::try_from(micros / 1000).unwrap_or(u32::MAX);
    let thousandths = u32::try_from(micros % 1000).unwrap_or(0);
    serializer.serialize_f64(f64::from(millis) + f64::from(thousandths) / 1000.0)
}

fn truncated<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let end = text.floor_char_boundary(MAX_VALUE_BYTES);
    serializer.serialize_str(text.get(..end).unwrap_or_default())
}

fn truncated_option<S: Serializer>(text: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    truncated(text.unwrap_or_default(), serializer)
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

    fn encode(entry: &AuditEntry<'_>) -> serde_json::Value {
        serde_json::from_slice(&entry.to_line().unwrap()).unwrap()
    }

    #[test]
    fn timestamps_are_formatted_in_utc() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (7, "1970-01-01T00:00:00.007Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_120, "2024-12-31T23:59:59.120Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_millis(millis);
            let line = encode(&AuditEntry { at, ..entry("x") });
            assert_eq!(line["at"], expected);
        }
    }

    #[test]
    fn latencies_and_addresses_are_encoded() {
        let encode = |latency, address| {
            encode(&AuditEntry {
                latency,
                address,
                code: Some(-32_000),
                ..entry("x")
            })
        };
        let line = encode(Duration::from_nanos(4_499), Some([10, 0, 200, 255].into()));
        assert_eq!(line["latency_ms"], 0.004);
        assert_eq!(line["address"], "10.0.200.255");
        assert_eq!(line["code"], -32_000);
        let line = encode(Duration::from_nanos(60_012_345_500), None);
        assert_eq!(line["latency_ms"], 60_012.346);
        assert!(line.get("address").is_none());
        let line = encode(Duration::MAX, Some(std::net::Ipv6Addr::LOCALHOST.into()));
        assert_eq!(line["address"], "::1");
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
