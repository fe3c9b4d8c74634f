//! Streamed messages: start, append, stop. A stream may end before the app stops it.

use super::args::Args;
use super::chat::{MAX_MARKDOWN_CHARS, own_message, resolve_thread};
use super::{ApiResult, SlackApiError, blocks, writable_channel};
use crate::tokens::TokenHolder;
use crate::workspace::channels::ChannelKind;
use crate::workspace::messages::{PlaygroundMessage, StreamStatus};
use crate::workspace::{UiChange, Workspace};
use serde_json::{Value, json};

/// Parses the appended text, and the blocks below it.
fn parse_chunks(args: &Args) -> Result<(String, Vec<Value>), SlackApiError> {
    let markdown = args.text("markdown_text").unwrap_or_default();
    if markdown.chars().count() > MAX_MARKDOWN_CHARS {
        return Err(SlackApiError::new("msg_too_long"));
    }
    let mut text = markdown.to_owned();
    let mut below = Vec::new();
    let chunks = match args.json("chunks", "invalid_chunks")? {
        None => Vec::new(),
        Some(Value::Array(chunks)) => chunks,
        Some(_) => return Err(SlackApiError::new("invalid_chunks")),
    };
    if !chunks.is_empty() && !markdown.is_empty() {
        return Err(SlackApiError::new(
            "cannot_provide_both_markdown_text_and_chunks",
        ));
    }
    for chunk in chunks {
        match chunk.get("type").and_then(Value::as_str) {
            Some("markdown_text") => {
                let more = chunk.get("text").and_then(Value::as_str);
                let more = more.ok_or(SlackApiError::new("invalid_chunks"))?;
                if more.chars().count() > MAX_MARKDOWN_CHARS {
                    return Err(SlackApiError::new("msg_too_long"));
                }
                text.push_str(more);
            }
            Some("blocks") => below.extend(blocks::validate_blocks(chunk.get("blocks").cloned())?),
            Some("task_update" | "plan_update") => {}
            _ => return Err(SlackApiError::new("invalid_chunks")),
        }
    }
    Ok((text, below))
}

/// Appends to a streamed message; its text is in its first block.
fn append_content(message: &mut PlaygroundMessage, text: &str, below: Vec<Value>) {
    message.text.push_str(text);
    message
        .blocks
        .retain(|block| block.get("block_id") != Some(&json!("stream")));
    if !message.text.is_empty() {
        let first = json!({"type": "markdown", "text": message.text, "block_id": "stream"});
        message.blocks.insert(0, first);
    }
    message.blocks.extend(below);
}

pub(super) fn start(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("chat:write")?;
    let channel = writable_channel(workspace, args.required("channel")?)?;
    args.required("thread_ts")?;
    let thread = resolve_thread(workspace, &channel.id, args)?;
    if channel.kind != ChannelKind::Im {
        let missing = |name, word| args.text(name).ok_or(SlackApiError::new(word));
        let user = missing("recipient_user_id", "missing_recipient_user_id")?;
        let team = missing("recipient_team_id", "missing_recipient_team_id")?;
        if team != workspace.team {
            return Err(SlackApiError::new("team_not_found"));
        }
        if !workspace.users.contains_key(user) {
            return Err(SlackApiError::new("user_not_found"));
        }
    }
    let (text, below) = parse_chunks(args)?;
    let ts = workspace.next_ts();
    let mut message = PlaygroundMessage::new(&channel.id, &workspace.bot_user, ts.clone());
    message.thread_ts = thread.map(str::to_owned);
    message.stream = Some(StreamStatus::Open);
    message.stream_started_at = workspace.clock.monotonic();
    append_content(&mut message, &text, below);
    workspace.insert_message(message.clone());
    workspace.emit_message_event(&message);
    Ok(json!({"channel": channel.id, "ts": ts}))
}

/// Returns the stream of a call, if it is still open.
fn open_stream(workspace: &mut Workspace, args: &Args) -> Result<PlaygroundMessage, SlackApiError> {
    let channel = writable_channel(workspace, args.required("channel")?)?.id;
    let ts = args.required("ts")?;
    let message = own_message(workspace, &channel, ts, "message_not_owned_by_app")?.clone();
    match workspace.stream_state(&message) {
        Some(StreamStatus::Open) => Ok(message),
        Some(StreamStatus::StoppedByUser) => Err(SlackApiError::new("stopped_by_user")),
        _ => Err(SlackApiError::new("message_not_in_streaming_state")),
    }
}

fn store_message(workspace: &mut Workspace, message: PlaygroundMessage) {
    let (channel, ts) = (message.channel.clone(), message.ts.clone());
    if let Some(all) = workspace.messages.get_mut(&channel) {
        all.insert(ts.clone(), message);
    }
    workspace.record_change(UiChange::Message(channel, ts));
}

pub(super) fn append(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("chat:write")?;
    let mut message = open_stream(workspace, args)?;
    let (text, below) = parse_chunks(args)?;
    if text.is_empty() && below.is_empty() && args.json("chunks", "invalid_chunks")?.is_none() {
        return Err(SlackApiError::new("no_text"));
    }
    append_content(&mut message, &text, below);
    let answer = json!({"channel": message.channel, "ts": message.ts});
    store_message(workspace, message);
    Ok(answer)
}

pub(super) fn stop(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("chat:write")?;
    let before = open_stream(workspace, args)?;
    let mut message = before.clone();
    let (text, below) = parse_chunks(args)?;
    let last = blocks::validate_blocks(args.json("blocks", "invalid_blocks_format")?)?;
    let metadata = blocks::validate_metadata(args.json("metadata", "invalid_metadata_format")?)?;
    append_content(&mut message, &text, below);
    message.blocks.extend(last);
    message.metadata = metadata.or(message.metadata);
    message.stream = Some(StreamStatus::Ended);
    store_message(workspace, message.clone());
    workspace.emit_change_event(&before, Some(&message));
    let shown = workspace.message_json(&message, true);
    Ok(json!({"channel": message.channel, "ts": message.ts, "message": shown}))
}
