//! Time and attempt budget of a question. Its time starts when the event was received, in whichever process; only
//! failed attempts count.

use super::AskAttempt;
use std::time::Duration;
use tokio::time::Instant;

/// Minimum time that an attempt waits for the Execution Zone.
pub(super) const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

impl AskAttempt<'_> {
    /// Returns the remaining time for an answer.
    pub(super) fn remaining(&self) -> Duration {
        let (zone, question) = (self.zone, self.question);
        let elapsed = zone.hub.now().duration_since(question.asked_at);
        zone.ask.budget.saturating_sub(elapsed)
    }

    /// Returns the deadline of this attempt.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.remaining().max(MIN_ATTEMPT_TIMEOUT)
    }

    /// Returns true if another attempt may follow. Attempts deferred by Slack do not count.
    pub(super) async fn has_attempts_left(&self) -> bool {
        let max_attempts = self.zone.ask.attempts;
        if self.attempt < max_attempts {
            return true;
        }
        let deferrals = self.state.deferral_count(self.question).await;
        // If the count cannot be read, deferrals count as attempts.
        self.attempt.saturating_sub(deferrals.unwrap_or(0)) < max_attempts
    }

    /// Records that Slack deferred the question.
    pub(super) async fn record_deferral(&self) {
        if let Err(error) = self.state.count_deferral(self.question).await {
            let event = &self.question.event_id;
            tracing::debug!(event, %error, "recording deferral failed");
        }
    }
}
