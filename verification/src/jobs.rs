//! Background jobs for Slack: stop a task, store and forward feedback, remove a revoked token, and check whether a
//! message is in a followed thread.

mod stop;

use crate::ask::AskStateStore;
use crate::intake::{StopRequest, Uninstall};
use crate::question::Question;
use crate::reply::SlackFeedback;
use crate::state::{self, VerificationState};
use async_trait::async_trait;
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_hub::{HubError, OutboxEntry};
use interzone_protocol::zone::{ErrorReason, FeedbackParams, FeedbackVerdict};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Retention of the deduplication key of a follow-up question.
const FOLLOW_UP_DEDUP_TTL: Duration = Duration::from_secs(24 * 3_600);

/// A background job, stored in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", content = "with", rename_all = "snake_case")]
pub(crate) enum BackgroundJob {
    Stop(StopRequest),
    Feedback(SlackFeedback),
    #[serde(rename = "forget")]
    RemoveToken(Uninstall),
    Followed(Box<Question>),
}

/// Outbox handler for background jobs.
pub(crate) struct BackgroundJobHandler(pub(crate) VerificationState);

#[async_trait]
impl DeliveryHandler for BackgroundJobHandler {
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        let Ok(job) = entry.payload.decode::<BackgroundJob>() else {
            let reason = "cannot decode the job: written by another version";
            return Ok(DeliveryOutcome::failed(reason));
        };
        match job {
            BackgroundJob::Stop(stop) => self.stop(&stop).await,
            BackgroundJob::Feedback(feedback) => self.send_feedback(&feedback).await,
            BackgroundJob::RemoveToken(uninstall) => Ok(self.remove_token(&uninstall).await),
            BackgroundJob::Followed(question) => self.process_follow_up(&question).await,
        }
    }
}

impl BackgroundJobHandler {
    /// Stores the feedback and sends it to the Execution Zone, which stores it with the task.
    async fn send_feedback(&self, feedback: &SlackFeedback) -> Result<DeliveryOutcome, HubError> {
        let zone = &self.0.0;
        let state = AskStateStore(zone.hub.clone());
        if !state
            .was_answered(&feedback.channel, &feedback.question)
            .await?
        {
            tracing::info!(channel = %feedback.channel, "feedback without an answer ignored");
            return Ok(DeliveryOutcome::Delivered);
        }
        zone.replies.feedback_store().put(feedback).await?;
        let Some(task) = state.running_task(&feedback.question).await? else {
            // There was no task, or it was too long ago.
            return Ok(DeliveryOutcome::Delivered);
        };
        let params = FeedbackParams {
            task_id: task.task,
            user_id: feedback.user.to_string(),
            verdict: if feedback.good {
                FeedbackVerdict::Up
            } else {
                FeedbackVerdict::Down
            },
            comment: None,
            given_at: Some(feedback.at),
        };
        let client = zone.client.with_correlation(&feedback.question);
        Ok(match client.give_feedback(&params).await {
            Ok(_) => DeliveryOutcome::Delivered,
            Err(error) if error.is_retryable() => DeliveryOutcome::Retry {
                reason: error.to_string(),
                retry_after: error.retry_after(),
            },
            Err(error) => match error.reason() {
                // The task is gone, or that zone does not support feedback. It is stored here.
                ErrorReason::TaskNotFound | ErrorReason::MethodNotFound => {
                    DeliveryOutcome::Delivered
                }
                _ => DeliveryOutcome::failed(error),
            },
        })
    }

    async fn remove_token(&self, uninstall: &Uninstall) -> DeliveryOutcome {
        let tokens = &self.0.0.tokens;
        for team in [Some(&uninstall.team), uninstall.enterprise.as_ref()]
            .into_iter()
            .flatten()
        {
            match tokens.remove(team, Some(uninstall.happened_at)).await {
                Ok(removed) => {
                    tracing::info!(%team, removed, "workspace revoked its token")
                }
                Err(error) => return DeliveryOutcome::retry(error),
            }
        }
        DeliveryOutcome::Delivered
    }

    async fn process_follow_up(&self, question: &Question) -> Result<DeliveryOutcome, HubError> {
        let zone = &self.0.0;
        if AskStateStore(zone.hub.clone())
            .is_thread_followed(question)
            .await?
        {
            let keys = [state::question_key(question)];
            let work = vec![state::ask_entry(question)?];
            zone.hub
                .accept_once(&keys, FOLLOW_UP_DEDUP_TTL, work)
                .await?;
        }
        Ok(DeliveryOutcome::Delivered)
    }
}
