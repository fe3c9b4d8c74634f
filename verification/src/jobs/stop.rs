//! Stops a task. The button message is deleted. If nothing was stopped, the user who pressed it gets an ephemeral
//! message with the reason.

use super::BackgroundJobHandler;
use crate::ask::AskStateStore;
use crate::intake::StopRequest;
use crate::reply;
use crate::texts::UserPhrase;
use interzone_delivery::DeliveryOutcome;
use interzone_hub::HubError;
use interzone_protocol::zone::{ErrorReason, TaskIdParams};

/// Outcome of a stop request.
enum StopOutcome {
    /// Stopped, or will be when it starts.
    Stopped,
    /// Not stopped, with the reason for the user.
    NotStopped(UserPhrase),
    /// Not decided; this is the delivery outcome.
    Undecided(DeliveryOutcome),
}

impl BackgroundJobHandler {
    pub(super) async fn stop(&self, stop: &StopRequest) -> Result<DeliveryOutcome, HubError> {
        let reason = match self.cancel(stop).await? {
            StopOutcome::Stopped => None,
            StopOutcome::NotStopped(reason) => Some(reason),
            StopOutcome::Undecided(outcome) => return Ok(outcome),
        };
        if let Some(offer) = &stop.button_url
            && let Err(error) = self.0.0.slack.delete_original(offer).await
        {
            // The client removes it on reload.
            tracing::debug!(%error, "deleting stop button failed");
        }
        match reason {
            Some(reason) => self.notify_user(stop, reason).await,
            None => Ok(DeliveryOutcome::Delivered),
        }
    }

    /// Records the stop request, then cancels the task if it is running. A starting attempt records its task first and
    /// then checks for stop requests, so one of the two sees the other.
    async fn cancel(&self, stop: &StopRequest) -> Result<StopOutcome, HubError> {
        let zone = &self.0.0;
        let state = AskStateStore(zone.hub.clone());
        state.mark_stop(stop).await?;
        // "Already finished" is reported only for a named question: in a thread, the next question may be meant.
        let is_named = stop.question.is_some();
        let finished = if is_named {
            StopOutcome::NotStopped(UserPhrase::NothingToStop)
        } else {
            StopOutcome::Stopped
        };
        let task = state.running_task(&stop.target()).await?;
        let question = stop.question.as_deref();
        let question = question.or_else(|| task.as_ref().map(|running| &*running.question));
        if let Some(question) = question
            && state.has_ended(question).await?
        {
            return Ok(finished);
        }
        let Some(running) = task else {
            return Ok(StopOutcome::Stopped);
        };
        let is_elsewhere = running.channel.is_some_and(|asked| asked != stop.channel);
        if is_elsewhere || stop.user.as_ref().is_some_and(|user| *user != running.user) {
            return Ok(StopOutcome::NotStopped(UserPhrase::NotYours));
        }
        let client = zone.client.with_correlation(&stop.event_id);
        let task_id = running.task;
        let result = client.cancel_task(&TaskIdParams { task_id }).await;
        Ok(match result {
            Ok(_) => StopOutcome::Stopped,
            Err(error) if error.is_retryable() => StopOutcome::Undecided(DeliveryOutcome::Retry {
                reason: error.to_string(),
                retry_after: error.retry_after(),
            }),
            Err(error) => match error.reason() {
                ErrorReason::TaskFinished | ErrorReason::TaskNotFound => finished,
                _ => StopOutcome::Undecided(DeliveryOutcome::failed(error)),
            },
        })
    }

    /// Tells the user who pressed the button why nothing was stopped.
    async fn notify_user(
        &self,
        stop: &StopRequest,
        reason: UserPhrase,
    ) -> Result<DeliveryOutcome, HubError> {
        let zone = &self.0.0;
        let Some(user) = &stop.user else {
            return Ok(DeliveryOutcome::Delivered);
        };
        let installation = zone
            .tokens
            .installation(&stop.team, stop.enterprise.as_ref());
        let installation = match installation.await {
            Ok(Some(at)) => at,
            // Without a token no message can be posted.
            Ok(None) => return Ok(DeliveryOutcome::Delivered),
            Err(error) => return Ok(DeliveryOutcome::retry(error)),
        };
        let slack_user = zone
            .gates
            .directory
            .user(&installation, &stop.team, user)
            .await
            .ok();
        let locale = slack_user
            .as_ref()
            .and_then(|known| known.locale.as_deref());
        let language = zone.gates.resolve_language(locale, "");
        match reply::plan_stop_notice(stop, user, language, reason) {
            Ok(entry) => {
                zone.hub.enqueue(vec![entry]).await?;
                Ok(DeliveryOutcome::Delivered)
            }
            Err(error) => Ok(DeliveryOutcome::failed(error)),
        }
    }
}
