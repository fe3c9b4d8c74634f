//! Posts a text as a new message.

use super::blocks;
use super::markdown::mrkdwn;
use super::poster::PostContext;
use super::split::split;
use super::thread_scan::PostedMessages;
use crate::slack::api::SlackError;
use crate::slack::api::chat::{PostMessage, UpdateMessage};
use crate::slack::ids::Ts;
use interzone_delivery::DeliveryOutcome;
use serde_json::Value;

/// Maximum number of characters per part of a message that Slack rejected as too long.
const MAX_PART_CHARS: usize = 3_500;

/// Posts a text, unless it was posted already.
pub(super) async fn post_message(
    ctx: &PostContext<'_>,
    text: &str,
    feedback: bool,
) -> DeliveryOutcome {
    let posted = match load_posted(ctx).await {
        Ok(stands) => stands,
        Err(error) => return ctx.classify(&error),
    };
    if posted.find_by_key(ctx.key).is_some() {
        return DeliveryOutcome::Delivered;
    }
    match send_message(ctx, ctx.key, text, feedback).await {
        Ok(()) => DeliveryOutcome::Delivered,
        Err(error) if is_too_long(&error) => {
            post_in_parts(ctx, None, text, feedback, &posted).await
        }
        Err(error) => ctx.classify(&error),
    }
}

/// Loads the messages of the thread; empty on the first attempt, when none of ours can exist.
pub(super) async fn load_posted(ctx: &PostContext<'_>) -> Result<PostedMessages, SlackError> {
    if ctx.is_retry {
        PostedMessages::load(ctx.service, ctx.installation, &ctx.action.location).await
    } else {
        Ok(PostedMessages::default())
    }
}

/// Posts a text as several messages, the first in place of `first`. Each has its own key.
pub(super) async fn post_in_parts(
    ctx: &PostContext<'_>,
    first: Option<&Ts>,
    text: &str,
    feedback: bool,
    posted: &PostedMessages,
) -> DeliveryOutcome {
    let parts = split(text, MAX_PART_CHARS);
    let last = parts.len().saturating_sub(1);
    for (index, part) in parts.iter().enumerate() {
        let key = format!("{}+{index}", ctx.key);
        let feedback = feedback && index == last;
        let result = match first.filter(|_| index == 0) {
            Some(ts) => edit_message(ctx, ts, &key, part, feedback).await,
            None if posted.find_by_key(&key).is_some() => Ok(()),
            None => send_message(ctx, &key, part, feedback).await,
        };
        if let Err(error) = result {
            return ctx.classify(&error);
        }
    }
    DeliveryOutcome::Delivered
}

/// Sends a new message.
async fn send_message(
    ctx: &PostContext<'_>,
    key: &str,
    text: &str,
    feedback: bool,
) -> Result<(), SlackError> {
    let location = &ctx.action.location;
    let (mrkdwn_text, metadata) = (mrkdwn(text), blocks::key_metadata(key));
    let mut result = Ok(());
    for block_variant in block_variants(ctx, text, feedback) {
        let post = PostMessage {
            channel: &location.channel,
            thread: Some(&location.thread),
            text: &mrkdwn_text,
            blocks: block_variant.as_ref(),
            metadata: Some(&metadata),
        };
        let response = ctx
            .service
            .slack
            .chat_post_message(ctx.installation, &post)
            .await;
        result = response.map(drop);
        if !result.as_ref().is_err_and(is_block_error) {
            break;
        }
    }
    result
}

/// Edits a message.
pub(super) async fn edit_message(
    ctx: &PostContext<'_>,
    ts: &Ts,
    key: &str,
    text: &str,
    feedback: bool,
) -> Result<(), SlackError> {
    let (mrkdwn_text, metadata) = (mrkdwn(text), blocks::key_metadata(key));
    let no_blocks = serde_json::json!([]);
    let mut result = Ok(());
    for block_variant in block_variants(ctx, text, feedback) {
        let update = UpdateMessage {
            channel: &ctx.action.location.channel,
            ts,
            text: &mrkdwn_text,
            // Existing blocks stay unless they are replaced explicitly.
            blocks: Some(block_variant.as_ref().unwrap_or(&no_blocks)),
            metadata: Some(&metadata),
        };
        result = ctx
            .service
            .slack
            .chat_update(ctx.installation, &update)
            .await;
        if !result.as_ref().is_err_and(is_block_error) {
            break;
        }
    }
    result
}

/// Returns block variants of a message, in order of preference: not every workspace accepts all blocks, and plain
/// text is accepted everywhere.
fn block_variants(ctx: &PostContext<'_>, text: &str, feedback: bool) -> Vec<Option<Value>> {
    let feedback_target = (ctx.action.location.question.as_str(), ctx.action.language);
    let mut variants = vec![Some(blocks::message_blocks(text, None)), None];
    if feedback {
        variants.insert(0, Some(blocks::message_blocks(text, Some(feedback_target))));
    }
    variants
}

pub(super) fn is_too_long(error: &SlackError) -> bool {
    [
        "msg_too_long",
        "msg_blocks_too_long",
        "markdown_text_too_long",
    ]
    .iter()
    .any(|code| error.is_code(code))
}

pub(super) fn is_block_error(error: &SlackError) -> bool {
    ["invalid_blocks", "invalid_blocks_format", "block_mismatch"]
        .iter()
        .any(|code| error.is_code(code))
}
