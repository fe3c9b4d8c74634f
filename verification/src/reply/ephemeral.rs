//! Ephemeral messages. Slack has no way to check whether one was delivered, so it is sent again after an
//! ambiguous error: a duplicate is better than a lost message.

use super::markdown::mrkdwn;
use super::post_message;
use super::poster::PostContext;
use crate::slack::api::chat::PostEphemeral;
use crate::slack::ids::UserId;
use interzone_delivery::DeliveryOutcome;

/// Posts an ephemeral message.
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
