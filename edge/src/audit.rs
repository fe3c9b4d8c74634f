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
