//! Actions in addition to the answer: ephemeral messages and the final reaction.

use super::markdown::mrkdwn;
use super::outbox_payload::FinalStatus;
use super::post_message;
use super::poster::{PostContext, UNDELIVERED_KIND, classify_slack_error};
use crate::slack::api::SlackError;
use crate::slack::api::chat::PostEphemeral;
use crate::slack::ids::UserId;
use interzone_delivery::DeliveryOutcome;

/// Reaction for a received question.
pub(super) const RECEIVED_REACTION: &str = "eyes";

/// Posts an ephemeral message. Slack has no way to check whether one was delivered, so it is sent again after an
/// ambiguous error: a duplicate is better than a lost message.
pub(super) async fn post_ephemeral(
    ctx: &PostContext<'_>,
    user: &UserId,
    text: &str,
    in_thread: bool,
    is_direct_message: bool,
) -> DeliveryOutcome {
    let location = &ctx.action.location;
    let mrkdwn_text = mrkdwn(text);
    let post = PostEphemeral {
        channel: &location.channel,
        user,
        // A thread without replies is not open in the client, so the user would not see the message.
        thread: in_thread.then_some(&location.thread),
        text: &mrkdwn_text,
        blocks: None,
    };
    match ctx
        .service
        .slack
        .chat_post_ephemeral(ctx.installation, &post)
        .await
    {
        Ok(()) => DeliveryOutcome::Delivered,
        // In a direct message a normal message is equally private.
        Err(error) if is_direct_message && !error.is_retryable() => {
            post_message::post_message(ctx, text, false).await
        }
        Err(error) => ctx.classify(&error),
    }
}

impl FinalStatus {
    const fn reaction_name(self) -> &'static str {
        match self {
            Self::Answered => "white_check_mark",
            Self::Failed => "x",
            Self::Stopped => "octagonal_sign",
        }
    }
}

/// Replaces the "received" reaction on a question with its final status. Best effort: a workspace without the permission
/// still gets its answer.
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
