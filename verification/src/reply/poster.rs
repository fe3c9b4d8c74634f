//! Outbox handler for Slack posts. An entry may be delivered again after a crash or a lost response, so from its
//! second attempt on each action first checks whether it is done already.

use super::ReplyService;
use super::outbox_payload::{ActionKind, SlackAction};
use super::plan::ReplyPlan;
use super::{actions, finalize_live, post_message, upload_file};
use crate::slack::api::SlackError;
use crate::texts;
use async_trait::async_trait;
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_hub::{HubError, OutboxEntry};
use std::time::Duration;

/// Number of attempts below which an attempt counts as early and may wait for optional information.
const EARLY_ATTEMPTS: u32 = 8;

/// Record kind of answers that could not be posted, keyed by question id.
pub(super) const UNDELIVERED_KIND: &str = "slack.unsaid";
const UNDELIVERED_TTL: Duration = Duration::from_secs(3 * 24 * 3600);

/// Delivers entries of [`POST_CHANNEL`](super::POST_CHANNEL). Cheap to clone.
#[derive(Clone)]
pub struct PostHandler {
    service: ReplyService,
}

impl PostHandler {
    pub(super) fn new(service: ReplyService) -> Self {
        Self { service }
    }

    async fn attempt(&self, entry: &OutboxEntry, action: &SlackAction) -> DeliveryOutcome {
        let location = &action.location;
        let lookup = self
            .service
            .tokens
            .installation(&location.team, location.enterprise.as_ref());
        let installation = match lookup.await {
            Ok(Some(at)) => at,
            Ok(None) => return DeliveryOutcome::failed("no token for the workspace"),
            Err(reason) => return DeliveryOutcome::retry(reason),
        };
        let ctx = PostContext {
            service: &self.service,
            installation: &installation,
            action,
            key: &entry.key,
            is_retry: entry.attempt > 1,
            is_early: entry.attempt < EARLY_ATTEMPTS,
        };
        match &action.kind {
            ActionKind::Post { text, feedback } => {
                post_message::post_message(&ctx, text, *feedback).await
            }
            ActionKind::FinalizeLive {
                text,
                feedback,
                live_state: left,
            } => finalize_live::finalize_live(&ctx, text, *feedback, left).await,
            ActionKind::File {
                task,
                artifact,
                name,
            } => upload_file::upload_file(&ctx, task, artifact, name).await,
            ActionKind::React { ending } => actions::react(&ctx, *ending).await,
            ActionKind::Ephemeral {
                user,
                text,
                in_thread,
                is_direct_message: alone,
            } => actions::post_ephemeral(&ctx, user, text, *in_thread, *alone).await,
        }
    }

    /// Records that an answer was not delivered, so that its question does not get the success reaction.
    async fn record_undelivered(&self, entry: &OutboxEntry) {
        let Ok(action) = entry.payload.decode::<SlackAction>() else {
            return;
        };
        if matches!(
            action.kind,
            ActionKind::Post { .. } | ActionKind::FinalizeLive { .. }
        ) {
            let store = &self.service.store;
            let result = store
                .put(
                    UNDELIVERED_KIND,
                    &action.location.question,
                    "",
                    UNDELIVERED_TTL,
                )
                .await;
            if let Err(error) = result {
                tracing::warn!(id = %entry.id, %error, "could not record undelivered answer");
            }
        }
    }

    /// Enqueues a notice that a file could not be posted. Returns an outcome only if that failed.
    async fn post_apology(
        &self,
        action: &SlackAction,
        key: &str,
        reason: &str,
    ) -> Option<DeliveryOutcome> {
        let ActionKind::File { name, .. } = &action.kind else {
            return None;
        };
        let language = action.language;
        let text = if upload_file::is_size_error(reason) {
            texts::file_too_large_text(language, name)
        } else {
            texts::file_not_posted_text(language, name)
        };
        let text = super::markdown::escape_mentions(&text).into_owned();
        let feedback = false;
        let key = key.rsplit_once('/').map_or(key, |(_, number)| number);
        let plan = ReplyPlan::for_location(action.location.clone(), language);
        let entry = plan.and_then(|plan| {
            plan.entry(&format!("sorry/{key}"), ActionKind::Post { text, feedback })
        });
        match entry {
            Ok(entry) => match self.service.store.enqueue(vec![entry]).await {
                Ok(()) => None,
                Err(error) => Some(DeliveryOutcome::retry(error)),
            },
            Err(error) => Some(DeliveryOutcome::retry(error)),
        }
    }
}

#[async_trait]
impl DeliveryHandler for PostHandler {
    /// Cancellation-safe; the same entry may be delivered again with the next attempt number.
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        let Ok(action) = entry.payload.decode::<SlackAction>() else {
            let reason = "payload cannot be decoded: written by another version";
            return Ok(DeliveryOutcome::failed(reason));
        };
        let outcome = self.attempt(entry, &action).await;
        Ok(match &outcome {
            DeliveryOutcome::Failed { reason } => self
                .post_apology(&action, &entry.key, reason)
                .await
                .unwrap_or(outcome),
            _ => outcome,
        })
    }

    /// Posts a notice in the thread if a file could not be posted.
    async fn on_dead_letter(&self, entry: &OutboxEntry, reason: &str) {
        self.record_undelivered(entry).await;
        if let Ok(effect) = entry.payload.decode::<SlackAction>()
            && let Some(DeliveryOutcome::Retry { reason: why, .. }) =
                self.post_apology(&effect, &entry.key, reason).await
        {
            tracing::warn!(id = %entry.id, reason = why, "failed to post file notice");
        }
    }
}

/// Classifies a Slack error.
pub(super) fn classify_slack_error(error: &SlackError) -> DeliveryOutcome {
    if error.is_retryable_after_refresh() {
        DeliveryOutcome::Retry {
            reason: error.to_string(),
            retry_after: error.retry_after(),
        }
    } else {
        DeliveryOutcome::failed(error)
    }
}

/// Context of one delivery attempt.
pub(super) struct PostContext<'a> {
    pub(super) service: &'a ReplyService,
    pub(super) installation: &'a crate::slack::tokens::Installation,
    pub(super) action: &'a SlackAction,
    /// The entry's key.
    pub(super) key: &'a str,
    /// True from the second attempt on, when the action may be done already.
    pub(super) is_retry: bool,
    /// True if many attempts are left.
    pub(super) is_early: bool,
}

impl PostContext<'_> {
    /// Classifies a Slack error. An unknown code may be permanent, and retrying it would block the entries behind it
    /// in the thread for an hour; so it counts as permanent after a few attempts.
    pub(super) fn classify(&self, error: &SlackError) -> DeliveryOutcome {
        if error.is_unknown_code() && self.is_early {
            DeliveryOutcome::retry(error)
        } else {
            classify_slack_error(error)
        }
    }
}

#[cfg(test)]
mod tests;
