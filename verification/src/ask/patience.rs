//! How long and how often a question is tried. Its time began when Slack told us of it, whichever process
//! is at it now; its tries are those in which something failed.

use super::Asking;
use std::time::Duration;
use tokio::time::Instant;

/// However late it is, an attempt waits this long for the Execution Zone.
pub(super) const LEAST: Duration = Duration::from_secs(10);

impl Asking<'_> {
    /// What is left of the time for an answer.
    pub(super) fn left(&self) -> Duration {
        let (zone, question) = (self.zone, self.question);
        let gone = zone.hub.now().since(question.asked_at);
        zone.ask.budget.saturating_sub(gone)
    }

    /// Until when this attempt may take.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.left().max(LEAST)
    }

    /// Whether there is another try after this one. To be put off by Slack was none.
    pub(super) async fn may_try_again(&self) -> bool {
        let most = self.zone.ask.attempts;
        if self.attempt < most {
            return true;
        }
        let put_off = self.notes.times_put_off(self.question).await;
        // At worst something counts as a try that was none.
        self.attempt.saturating_sub(put_off.unwrap_or(0)) < most
    }

    /// Notes that Slack put the question off.
    pub(super) async fn was_put_off(&self) {
        if let Err(error) = self.notes.put_off(self.question).await {
            let event = &self.question.event_id;
            tracing::debug!(event, %error, "that slack put a question off could not be noted");
        }
    }
}
