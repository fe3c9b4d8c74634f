//! Posting, updating and deleting messages.

use super::args::Args;
use super::{ApiResult, SlackApiError, blocks, writable_channel};
use crate::tokens::TokenHolder;
use crate::workspace::messages::{EditInfo, PlaygroundMessage, StreamStatus};
use crate::workspace::{UiChange, Workspace};
use serde_json::{Value, json};

/// Maximum text length; longer text is truncated.
const MAX_TEXT_CHARS: usize = 40_000;
/// Maximum Markdown length; longer Markdown is rejected.
pub(super) const MAX_MARKDOWN_CHARS: usize = 12_000;

/// Content of a message.
struct MessageContent {
    text: String,
    blocks: Vec<Value>,
    metadata: Option<Value>,
    warnings: Vec<&'static str>,
}

fn parse_content(args: &Args) -> Result<MessageContent, SlackApiError> {
    let mut listed = blocks::validate_blocks(args.json("blocks", "invalid_blocks_format")?)?;
    let metadata = blocks::validate_metadata(args.json("metadata", "invalid_metadata_format")?)?;
    let text = args.text("text").unwrap_or_default();
    let attachments = args.json("attachments", "invalid_attachments")?;
    let mut warnings = Vec::new();
    let text = match args.text("markdown_text") {
        Some(markdown) => {
            if !text.is_empty() || !listed.is_empty() {
                return Err(SlackApiError::new("markdown_text_conflict"));
            }
            if markdown.chars().count() > MAX_MARKDOWN_CHARS {
                return Err(SlackApiError::new("msg_too_long"));
            }
            listed = vec![json!({"type": "markdown", "text": markdown, "block_id": "b0"})];
            markdown.to_owned()
        }
        None => {
            if text.is_empty() && listed.is_empty() && attachments.is_none() {
                return Err(SlackApiError::new("no_text"));
            }
            if text.is_empty() {
                warnings.push("missing_text_in_message");
            }
            if text.chars().count() > MAX_TEXT_CHARS {
                warnings.push("message_truncated");
            }
            text.chars().take(MAX_TEXT_CHARS).collect()
        }
    };
    Ok(MessageContent {
        text,
        blocks: listed,
        metadata,
        warnings,
    })
}

/// Returns the thread of a message to post. The ts of a reply is not a thread.
pub(super) fn resolve_thread<'a>(
    workspace: &Workspace,
    channel: &str,
    args: &'a Args,
) -> Result<Option<&'a str>, SlackApiError> {
    let Some(ts) = args.text("thread_ts") else {
        return Ok(None);
    };
    let parent = workspace.message(channel, ts);
    let parent = parent.ok_or(SlackApiError::new("thread_not_found"))?;
    if parent.is_reply() {
        return Err(SlackApiError::new("cannot_reply_to_message"));
    }
    Ok(Some(ts))
}

fn with_warnings(mut answer: Value, warnings: &[&str]) -> Value {
    if let Some(fields) = answer.as_object_mut().filter(|_| !warnings.is_empty()) {
        fields.insert("warning".to_owned(), warnings.join(",").into());
        let metadata = json!({"warnings": warnings});
        fields.insert("response_metadata".to_owned(), metadata);
    }
    answer
}

pub(super) fn post_message(
    workspace: &mut Workspace,
    caller: &TokenHolder,
    args: &Args,
) -> ApiResult {
    caller.require_scope("chat:write")?;
    let channel = writable_channel(workspace, args.required("channel")?)?.id;
    let thread = resolve_thread(workspace, &channel, args)?;
    let content = parse_content(args)?;
    let ts = workspace.next_ts();
    let mut message = PlaygroundMessage::new(&channel, &workspace.bot_user, ts.clone());
    message.text = content.text;
    message.blocks = content.blocks;
    message.metadata = content.metadata;
    message.thread_ts = thread.map(str::to_owned);
    if thread.is_some() && args.flag("reply_broadcast") {
        message.subtype = Some("thread_broadcast");
    }
    workspace.insert_message(message.clone());
    workspace.emit_message_event(&message);
    let shown = workspace.message_json(&message, true);
    let answer = json!({"channel": channel, "ts": ts, "message": shown});
    Ok(with_warnings(answer, &content.warnings))
}

/// Returns a message of the bot.
pub(super) fn own_message<'a>(
    workspace: &'a Workspace,
    channel: &str,
    ts: &str,
    not_ours: &'static str,
) -> Result<&'a PlaygroundMessage, SlackApiError> {
    let message = workspace.message(channel, ts);
    let message = message.ok_or(SlackApiError::new("message_not_found"))?;
    if message.user != workspace.bot_user {
        return Err(SlackApiError::new(not_ours));
    }
    Ok(message)
}

pub(super) fn update(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("chat:write")?;
    let channel = writable_channel(workspace, args.required("channel")?)?.id;
    let ts = args.required("ts")?;
    let before = own_message(workspace, &channel, ts, "cant_update_message")?.clone();
    if workspace.stream_state(&before) == Some(StreamStatus::Open) {
        return Err(SlackApiError::new("streaming_state_conflict"));
    }
    let content = parse_content(args)?;
    let edited_at = workspace.next_ts();
    let mut after = before.clone();
    after.text = content.text;
    // Blocks that are not sent again are removed; metadata stays unless replaced.
    after.blocks = content.blocks;
    after.metadata = content.metadata.or(after.metadata);
    after.edited = Some(EditInfo {
        user: workspace.bot_user.clone(),
        ts: edited_at,
    });
    replace_message(workspace, &before, after.clone());
    let shown = workspace.message_json(&after, true);
    let answer = json!({"channel": channel, "ts": ts, "text": after.text, "message": shown});
    Ok(with_warnings(answer, &content.warnings))
}

/// Replaces a message and sends the change event.
pub(crate) fn replace_message(
    workspace: &mut Workspace,
    before: &PlaygroundMessage,
    after: PlaygroundMessage,
) {
    if let Some(place) = workspace
        .messages
        .get_mut(&before.channel)
        .and_then(|all| all.get_mut(&before.ts))
    {
        *place = after.clone();
    }
    workspace.record_change(UiChange::Message(before.channel.clone(), before.ts.clone()));
    workspace.emit_change_event(before, Some(&after));
}

pub(super) fn delete(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("chat:write")?;
    let channel = writable_channel(workspace, args.required("channel")?)?.id;
    let ts = args.required("ts")?;
    let before = own_message(workspace, &channel, ts, "cant_delete_message")?.clone();
    if let Some(all) = workspace.messages.get_mut(&channel) {
        all.remove(ts);
    }
    workspace.emit_change_event(&before, None);
    Ok(json!({"channel": channel, "ts": ts}))
}

pub(super) fn post_ephemeral(
    workspace: &mut Workspace,
    caller: &TokenHolder,
    args: &Args,
) -> ApiResult {
    caller.require_scope("chat:write")?;
    let channel = writable_channel(workspace, args.required("channel")?)?;
    let user = args.required("user")?;
    if !workspace.users.contains_key(user) || !channel.has_member(user) {
        return Err(SlackApiError::new("user_not_in_channel"));
    }
    let thread = resolve_thread(workspace, &channel.id, args)?;
    let content = parse_content(args)?;
    let ts = workspace.next_ts();
    let mut message = PlaygroundMessage::new(&channel.id, &workspace.bot_user, ts.clone());
    message.text = content.text;
    message.blocks = content.blocks;
    message.thread_ts = thread.map(str::to_owned);
    message.visible_to = Some(user.to_owned());
    workspace.insert_ephemeral(message);
    Ok(with_warnings(json!({"message_ts": ts}), &content.warnings))
}
