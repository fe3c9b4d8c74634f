//! Replaces the "received" reaction on a question with its final status. Best effort: a workspace without the
//! permission still gets its answer.

use super::outbox_payload::FinalStatus;
use super::poster::{PostContext, UNDELIVERED_KIND, classify_slack_error};
use crate::slack::api::SlackError;
use interzone_delivery::DeliveryOutcome;

/// Reaction for a received question.
pub(super) const RECEIVED_REACTION: &str = "eyes";

impl FinalStatus {
    const fn reaction_name(self) -> &'static str {
        match self {
            Self::Answered => "white_check_mark",
            Self::Failed => "x",
            Self::Stopped => "octagonal_sign",
        }
    }
}

/// Sets the final reaction.
pub(super) async fn react(ctx: &PostContext<'_>, ending: FinalStatus) -> DeliveryOutcome {
    let (slack, location) = (&ctx.service.slack, &ctx.action.location);
    let ending = match ctx
        .service
        .store
        .get(UNDELIVERED_KIND, &location.question)
        .await
    {
        Ok(None) => ending,
        Ok(Some(_)) => FinalStatus::Failed,
        Err(error) => return DeliveryOutcome::retry(error),
    };
    let (channel, ts) = (&location.channel, &location.question_ts);
    // The two calls concern different reactions, so they run concurrently.
    let (removed, added) = tokio::join!(
        slack.reactions_remove(ctx.installation, channel, ts, RECEIVED_REACTION),
        slack.reactions_add(ctx.installation, channel, ts, ending.reaction_name()),
    );
    match [removed, added].into_iter().find_map(retryable_error) {
        Some(error) => classify_slack_error(&error),
        None => DeliveryOutcome::Delivered,
    }
}

/// Returns the error if it is retryable. Both calls are idempotent, and permanent errors are ignored.
fn retryable_error(result: Result<(), SlackError>) -> Option<SlackError> {
    result.err().filter(SlackError::is_retryable)
}
