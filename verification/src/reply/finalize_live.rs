//! Finalizes a live reply: replaces its message with the final text. Idempotent.

use super::live::LiveReplyRecord;
use super::outbox_payload::{LiveReplyState, PostedAs};
use super::poster::PostContext;
use super::thread_scan::PostedMessages;
use super::{blocks, post_message};
use crate::slack::api::SlackError;
use crate::slack::api::chat::StopStream;
use crate::slack::ids::Ts;
use interzone_delivery::DeliveryOutcome;

/// Replaces the live reply's message with the final text.
pub(super) async fn finalize_live(
    ctx: &PostContext<'_>,
    text: &str,
    feedback: bool,
    live_state: &LiveReplyState,
) -> DeliveryOutcome {
    if let PostedAs::Stream { ts, is_exact: true } = &live_state.posted_as
        && !ctx.is_retry
        && let Some(remainder) = remainder(text, &live_state.accepted_text)
    {
        match stop_stream_with(ctx, ts, remainder, feedback).await {
            Ok(()) => return DeliveryOutcome::Delivered,
            // In both cases the next attempt handles it.
            Err(error) if error.is_retryable() || error.is_unknown_code() => {
                return ctx.classify(&error);
            }
            Err(error) => tracing::debug!(%error, "could not end stream with text"),
        }
    }
    let found = match find_message(ctx, &live_state.posted_as).await {
        Ok(found) => found,
        Err(outcome) => return outcome,
    };
    let Some((ts, is_stream)) = found else {
        return post_message::post_message(ctx, text, feedback).await;
    };
    if is_stream {
        if let Err(error) = stop_stream(ctx, &ts).await {
            return ctx.classify(&error);
        }
        // Two answers in one thread may claim the same stream, each while the other's call was in flight. It
        // belongs to the one that ended it and whose key it has; the other is posted as a new message.
        match PostedMessages::load(ctx.service, ctx.installation, &ctx.action.location).await {
            Ok(stands) if stands.belongs_to_other(&ts, &ctx.action.location) => {
                return post_message::post_message(ctx, text, feedback).await;
            }
            Ok(_) => {}
            Err(error) => return ctx.classify(&error),
        }
    }
    match post_message::edit_message(ctx, &ts, ctx.key, text, feedback).await {
        Ok(()) => DeliveryOutcome::Delivered,
        // The message was deleted or can no longer be edited; the answer must be posted all the same.
        Err(error) if is_gone(&error) => post_message::post_message(ctx, text, feedback).await,
        Err(error) if post_message::is_too_long(&error) => {
            match post_message::load_posted(ctx).await {
                Ok(stands) => {
                    post_message::post_in_parts(ctx, Some(&ts), text, feedback, &stands).await
                }
                Err(error) => ctx.classify(&error),
            }
        }
        Err(error) => ctx.classify(&error),
    }
}

/// Returns the part of `text` that follows the accepted text, or `None` if `text` does not start with it.
fn remainder<'a>(text: &'a str, accepted_text: &str) -> Option<&'a str> {
    // Trailing whitespace in the accepted text is no difference.
    text.strip_prefix(accepted_text)
        .or_else(|| (text == accepted_text.trim_end()).then_some(""))
}

/// Finds the live reply's message, and whether it may still be streaming.
async fn find_message(
    ctx: &PostContext<'_>,
    posted_as: &PostedAs,
) -> Result<Option<(Ts, bool)>, DeliveryOutcome> {
    match posted_as {
        PostedAs::Stream { ts, .. } => return Ok(Some((ts.clone(), true))),
        PostedAs::Post { ts } => return Ok(Some((ts.clone(), false))),
        PostedAs::NotPosted => return Ok(None),
        PostedAs::Unknown => {}
    }
    let (service, location) = (ctx.service, &ctx.action.location);
    let record = LiveReplyRecord::load(&*service.store, &location.question).await;
    if let Some(LiveReplyRecord::Posted { ts, streams }) = record.map_err(DeliveryOutcome::retry)? {
        return Ok(Some((ts, streams)));
    }
    let posted = PostedMessages::load(service, ctx.installation, location).await;
    let posted = posted.map_err(|error| ctx.classify(&error))?;
    if let Some(ts) = posted.find_by_key(ctx.key) {
        return Ok(Some((ts.clone(), false)));
    }
    if ctx.installation.bot_user.is_none() && ctx.installation.bot_id.is_none() && ctx.is_early {
        // Our own messages cannot be identified yet, and a missed one would lead to a duplicate.
        return Err(DeliveryOutcome::retry(
            "slack has not returned the bot identity yet",
        ));
    }
    for ts in posted.own_without_key(ctx.installation, location) {
        let owner = LiveReplyRecord::find_question(&*service.store, &location.channel, &ts).await;
        let whose = owner.map_err(DeliveryOutcome::retry)?;
        if whose.is_none_or(|whose| whose == location.question) {
            // No other question started it, so it is the one whose response was lost.
            return Ok(Some((ts, true)));
        }
    }
    Ok(None)
}

/// Ends a stream with the remainder of its text.
async fn stop_stream_with(
    ctx: &PostContext<'_>,
    ts: &Ts,
    remainder: &str,
    feedback: bool,
) -> Result<(), SlackError> {
    let location = &ctx.action.location;
    let blocks = feedback.then(|| {
        let buttons = blocks::feedback_buttons(&location.question, ctx.action.language);
        serde_json::Value::Array(vec![buttons])
    });
    let metadata = blocks::key_metadata(ctx.key);
    let stop = StopStream {
        channel: &location.channel,
        ts,
        markdown: Some(remainder).filter(|rest| !rest.is_empty()),
        chunks: None,
        blocks: blocks.as_ref(),
        metadata: Some(&metadata),
    };
    ctx.service
        .slack
        .chat_stop_stream(ctx.installation, &stop)
        .await
}

/// Ends a stream as it is and sets our key on it. Succeeds if it has ended already.
async fn stop_stream(ctx: &PostContext<'_>, ts: &Ts) -> Result<(), SlackError> {
    let metadata = blocks::key_metadata(ctx.key);
    let stop = StopStream {
        channel: &ctx.action.location.channel,
        ts,
        markdown: None,
        chunks: None,
        blocks: None,
        metadata: Some(&metadata),
    };
    match ctx
        .service
        .slack
        .chat_stop_stream(ctx.installation, &stop)
        .await
    {
        // A permanent error shows again when the message is edited, which is not possible while it streams.
        Err(error) if !error.is_retryable() => Ok(()),
        result => result,
    }
}

fn is_gone(error: &SlackError) -> bool {
    [
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
    ]
    .iter()
    .any(|code| error.is_code(code))
}
