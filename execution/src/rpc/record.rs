//! The word that every call leaves: a line of the audit, a number for the metrics, a note for those
//! who look for it later, and of calls between the zones a line of the log. None has a place for what was said.

use super::zone::id_text;
use crate::zone::Zone;
use interzone_edge::audit::Entry;
use interzone_edge::auth::Identity;
use interzone_edge::listener::Peer;
use interzone_edge::request::Correlation;
use interzone_jsonrpc::RequestId;
use std::time::{Duration, SystemTime};

/// The most characters of a subject in the log: it may be whatever a caller sent.
const LONGEST_SUBJECT: usize = 128;

/// What is noted of a call.
pub(super) struct Line<'c> {
    pub(super) identity: &'c Identity,
    pub(super) method: &'static str,
    /// The id that its caller gave it.
    pub(super) id: Option<&'c RequestId<'c>>,
    /// The task or stream that it was about.
    pub(super) subject: Option<&'c str>,
    pub(super) outcome: &'static str,
    pub(super) code: Option<i32>,
    pub(super) took: Duration,
    pub(super) correlation: &'c Correlation,
    pub(super) peer: Option<&'c Peer>,
    /// Whether it is one between the zones, whose pairs of request and response are found by their ids.
    pub(super) zone_call: bool,
}

impl Line<'_> {
    /// Notes it.
    pub(super) fn leave(&self, zone: &Zone) {
        let took = self.took.as_secs_f64();
        zone.metrics.request(self.method, self.outcome, took);
        let id = self.id.map(id_text);
        let entry = Entry {
            at: SystemTime::now(),
            who: &self.identity.principal,
            client: &self.identity.client,
            method: self.method,
            id: id.as_deref(),
            subject: self.subject,
            outcome: self.outcome,
            code: self.code,
            latency: self.took,
            correlation: self.correlation.as_str(),
            address: self.peer.map(|peer| peer.address.ip()),
        };
        let logged = zone.audit.record(&entry);
        if let Some(pairs) = &zone.pairs {
            pairs.note(&entry, self.id);
        }
        // The audit's line says the same, and more.
        if self.zone_call && !logged {
            tracing::info!(
                id = id.as_deref().unwrap_or("null"),
                correlation = %self.correlation,
                method = self.method,
                task = shown(self.subject.unwrap_or_default()),
                outcome = self.outcome,
                code = self.code,
                "zone call"
            );
        }
    }
}

/// As much of what a caller calls a task as a log line takes.
fn shown(subject: &str) -> String {
    let subject: String = subject.chars().take(LONGEST_SUBJECT).collect();
    subject.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_calls_a_task_takes_little_of_the_log_and_forges_no_line() {
        assert_eq!(shown("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(shown(&"q".repeat(10_000_000)).len(), LONGEST_SUBJECT);
    }
}
