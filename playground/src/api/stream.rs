//! Messages that grow: begin, add, end. A stream has a life of its own and may end before the app ends it.

use super::args::Args;
use super::chat::{MARKDOWN, own, thread};
use super::{Answer, Refused, blocks, writable};
use crate::access::Caller;
use crate::workspace::channels::Kind;
use crate::workspace::messages::{Message, Stream};
use crate::workspace::{Change, Workspace};
use serde_json::{Value, json};

/// What is added: text, and blocks that stand below it.
fn added(args: &Args) -> Result<(String, Vec<Value>), Refused> {
    let markdown = args.text("markdown_text").unwrap_or_default();
    if markdown.chars().count() > MARKDOWN {
        return Err(Refused::new("msg_too_long"));
    }
    let mut text = markdown.to_owned();
    let mut below = Vec::new();
    let chunks = match args.json("chunks", "invalid_chunks")? {
        None => Vec::new(),
        Some(Value::Array(chunks)) => chunks,
        Some(_) => return Err(Refused::new("invalid_chunks")),
    };
    if !chunks.is_empty() && !markdown.is_empty() {
        return Err(Refused::new("cannot_provide_both_markdown_text_and_chunks"));
    }
    for chunk in chunks {
        match chunk.get("type").and_then(Value::as_str) {
            Some("markdown_text") => {
                let more = chunk.get("text").and_then(Value::as_str);
                let more = more.ok_or(Refused::new("invalid_chunks"))?;
                if more.chars().count() > MARKDOWN {
                    return Err(Refused::new("msg_too_long"));
                }
                text.push_str(more);
            }
            Some("blocks") => below.extend(blocks::checked(chunk.get("blocks").cloned())?),
            Some("task_update" | "plan_update") => {}
            _ => return Err(Refused::new("invalid_chunks")),
        }
    }
    Ok((text, below))
}

/// The text of a streamed message stands in its first block.
fn grow(message: &mut Message, text: &str, below: Vec<Value>) {
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

pub(super) fn start(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let channel = writable(workspace, args.required("channel")?)?;
    args.required("thread_ts")?;
    let thread = thread(workspace, &channel.id, args)?;
    if channel.kind != Kind::Im {
        let missing = |name, word| args.text(name).ok_or(Refused::new(word));
        let user = missing("recipient_user_id", "missing_recipient_user_id")?;
        let team = missing("recipient_team_id", "missing_recipient_team_id")?;
        if team != workspace.team {
            return Err(Refused::new("team_not_found"));
        }
        if !workspace.users.contains_key(user) {
            return Err(Refused::new("user_not_found"));
        }
    }
    let (text, below) = added(args)?;
    let ts = workspace.next_ts();
    let mut message = Message::new(&channel.id, &workspace.bot_user, ts.clone());
    message.thread_ts = thread.map(str::to_owned);
    message.stream = Some(Stream::Open);
    message.stream_began = workspace.clock.steady();
    grow(&mut message, &text, below);
    workspace.keep(message.clone());
    workspace.tell_message(&message);
    Ok(json!({"channel": channel.id, "ts": ts}))
}

/// The stream that a call means, if it is still open.
fn open(workspace: &mut Workspace, args: &Args) -> Result<Message, Refused> {
    let channel = writable(workspace, args.required("channel")?)?.id;
    let ts = args.required("ts")?;
    let message = own(workspace, &channel, ts, "message_not_owned_by_app")?.clone();
    match workspace.stream_of(&message) {
        Some(Stream::Open) => Ok(message),
        Some(Stream::StoppedByUser) => Err(Refused::new("stopped_by_user")),
        _ => Err(Refused::new("message_not_in_streaming_state")),
    }
}

fn put(workspace: &mut Workspace, message: Message) {
    let (channel, ts) = (message.channel.clone(), message.ts.clone());
    if let Some(all) = workspace.messages.get_mut(&channel) {
        all.insert(ts.clone(), message);
    }
    workspace.changed(Change::Message(channel, ts));
}

pub(super) fn append(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let mut message = open(workspace, args)?;
    let (text, below) = added(args)?;
    if text.is_empty() && below.is_empty() && args.json("chunks", "invalid_chunks")?.is_none() {
        return Err(Refused::new("no_text"));
    }
    grow(&mut message, &text, below);
    let answer = json!({"channel": message.channel, "ts": message.ts});
    put(workspace, message);
    Ok(answer)
}

pub(super) fn stop(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let before = open(workspace, args)?;
    let mut message = before.clone();
    let (text, below) = added(args)?;
    let last = blocks::checked(args.json("blocks", "invalid_blocks_format")?)?;
    let metadata = blocks::metadata(args.json("metadata", "invalid_metadata_format")?)?;
    grow(&mut message, &text, below);
    message.blocks.extend(last);
    message.metadata = metadata.or(message.metadata);
    message.stream = Some(Stream::Ended);
    put(workspace, message.clone());
    workspace.tell_change(&before, Some(&message));
    let shown = workspace.message_json(&message, true);
    Ok(json!({"channel": message.channel, "ts": message.ts, "message": shown}))
}
