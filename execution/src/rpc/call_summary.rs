//! Records a finished call: audit entry, metrics, request log, and a log line if its method has one. Never includes
//! request or response content.

use super::zone::loggable_id;
use crate::state::ExecutionState;
use interzone_edge::audit::AuditEntry;
use interzone_edge::auth::Identity;
use interzone_edge::listener::Peer;
use interzone_edge::request_context::CorrelationId;
use interzone_jsonrpc::RequestId;
use std::time::{Duration, SystemTime};

/// Maximum characters of a subject in the log, since callers choose it.
const MAX_SUBJECT_CHARS: usize = 128;

/// Summary of a finished call.
pub(super) struct CallSummary<'c> {
    pub(super) identity: &'c Identity,
    pub(super) method: &'static str,
    /// JSON-RPC id.
    pub(super) id: Option<&'c RequestId<'c>>,
    /// Task or stream of the call.
    pub(super) subject: Option<&'c str>,
    pub(super) outcome: &'static str,
    pub(super) code: Option<i32>,
    pub(super) duration: Duration,
    pub(super) correlation: &'c CorrelationId,
    pub(super) peer: Option<&'c Peer>,
    /// Message of the log line that it writes when there is no audit log, if it writes one.
    pub(super) log_message: Option<&'static str>,
}

impl CallSummary<'_> {
    /// Writes the records.
    pub(super) fn emit(&self, zone: &ExecutionState) {
        let seconds = self.duration.as_secs_f64();
        zone.metrics
            .record_request(self.method, self.outcome, seconds);
        let id = self.id.map(loggable_id);
        let entry = AuditEntry {
            at: SystemTime::now(),
            principal: &self.identity.principal,
            client: &self.identity.client,
            method: self.method,
            id: id.as_deref(),
            subject: self.subject,
            outcome: self.outcome,
            code: self.code,
            latency: self.duration,
            correlation: self.correlation.as_str(),
            address: self.peer.map(|peer| peer.address.ip()),
        };
        let logged = zone.audit.record(&entry);
        if let Some(log) = &zone.request_log {
            log.record(&entry, self.id);
        }
        // The audit line contains the same and more.
        if let (Some(message), false) = (self.log_message, logged) {
            tracing::info!(
                id = id.as_deref().unwrap_or("null"),
                correlation = %self.correlation,
                method = self.method,
                task = loggable_subject(self.subject.unwrap_or_default()),
                outcome = self.outcome,
                code = self.code,
                "{message}"
            );
        }
    }
}

/// Truncates and escapes a subject for the log.
fn loggable_subject(subject: &str) -> String {
    let subject: String = subject.chars().take(MAX_SUBJECT_CHARS).collect();
    subject.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_subject_is_truncated_and_escaped() {
        assert_eq!(loggable_subject("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(
            loggable_subject(&"q".repeat(10_000_000)).len(),
            MAX_SUBJECT_CHARS
        );
    }
}
