//! Posting, changing and deleting messages.

use super::args::Args;
use super::{Answer, Refused, blocks, writable};
use crate::access::Caller;
use crate::workspace::messages::{Edited, Message, Stream};
use crate::workspace::{Change, Workspace};
use serde_json::{Value, json};

/// Longer text is cut.
const TEXT: usize = 40_000;
/// Longer Markdown is refused.
pub(super) const MARKDOWN: usize = 12_000;

/// What a message is to say.
struct Said {
    text: String,
    blocks: Vec<Value>,
    metadata: Option<Value>,
    warnings: Vec<&'static str>,
}

fn said(args: &Args) -> Result<Said, Refused> {
    let mut listed = blocks::checked(args.json("blocks", "invalid_blocks_format")?)?;
    let metadata = blocks::metadata(args.json("metadata", "invalid_metadata_format")?)?;
    let text = args.text("text").unwrap_or_default();
    let attachments = args.json("attachments", "invalid_attachments")?;
    let mut warnings = Vec::new();
    let text = match args.text("markdown_text") {
        Some(markdown) => {
            if !text.is_empty() || !listed.is_empty() {
                return Err(Refused::new("markdown_text_conflict"));
            }
            if markdown.chars().count() > MARKDOWN {
                return Err(Refused::new("msg_too_long"));
            }
            listed = vec![json!({"type": "markdown", "text": markdown, "block_id": "b0"})];
            markdown.to_owned()
        }
        None => {
            if text.is_empty() && listed.is_empty() && attachments.is_none() {
                return Err(Refused::new("no_text"));
            }
            if text.is_empty() {
                warnings.push("missing_text_in_message");
            }
            if text.chars().count() > TEXT {
                warnings.push("message_truncated");
            }
            text.chars().take(TEXT).collect()
        }
    };
    Ok(Said {
        text,
        blocks: listed,
        metadata,
        warnings,
    })
}

/// The thread that a message goes to. The ts of a reply is no thread.
pub(super) fn thread<'a>(
    workspace: &Workspace,
    channel: &str,
    args: &'a Args,
) -> Result<Option<&'a str>, Refused> {
    let Some(ts) = args.text("thread_ts") else {
        return Ok(None);
    };
    let parent = workspace.message(channel, ts);
    let parent = parent.ok_or(Refused::new("thread_not_found"))?;
    if parent.is_reply() {
        return Err(Refused::new("cannot_reply_to_message"));
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

pub(super) fn post_message(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let channel = writable(workspace, args.required("channel")?)?.id;
    let thread = thread(workspace, &channel, args)?;
    let said = said(args)?;
    let ts = workspace.next_ts();
    let mut message = Message::new(&channel, &workspace.bot_user, ts.clone());
    message.text = said.text;
    message.blocks = said.blocks;
    message.metadata = said.metadata;
    message.thread_ts = thread.map(str::to_owned);
    if thread.is_some() && args.flag("reply_broadcast") {
        message.subtype = Some("thread_broadcast");
    }
    workspace.keep(message.clone());
    workspace.tell_message(&message);
    let shown = workspace.message_json(&message, true);
    let answer = json!({"channel": channel, "ts": ts, "message": shown});
    Ok(with_warnings(answer, &said.warnings))
}

/// A message of the bot's own.
pub(super) fn own<'a>(
    workspace: &'a Workspace,
    channel: &str,
    ts: &str,
    not_ours: &'static str,
) -> Result<&'a Message, Refused> {
    let message = workspace.message(channel, ts);
    let message = message.ok_or(Refused::new("message_not_found"))?;
    if message.user != workspace.bot_user {
        return Err(Refused::new(not_ours));
    }
    Ok(message)
}

pub(super) fn update(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let channel = writable(workspace, args.required("channel")?)?.id;
    let ts = args.required("ts")?;
    let before = own(workspace, &channel, ts, "cant_update_message")?.clone();
    if workspace.stream_of(&before) == Some(Stream::Open) {
        return Err(Refused::new("streaming_state_conflict"));
    }
    let said = said(args)?;
    let edited_at = workspace.next_ts();
    let mut after = before.clone();
    after.text = said.text;
    // Blocks that are not sent again are gone, and metadata stays unless new metadata is sent.
    after.blocks = said.blocks;
    after.metadata = said.metadata.or(after.metadata);
    after.edited = Some(Edited {
        user: workspace.bot_user.clone(),
        ts: edited_at,
    });
    replace(workspace, &before, after.clone());
    let shown = workspace.message_json(&after, true);
    let answer = json!({"channel": channel, "ts": ts, "text": after.text, "message": shown});
    Ok(with_warnings(answer, &said.warnings))
}

/// Puts a changed message in its place and tells of it.
pub(crate) fn replace(workspace: &mut Workspace, before: &Message, after: Message) {
    if let Some(place) = workspace
        .messages
        .get_mut(&before.channel)
        .and_then(|all| all.get_mut(&before.ts))
    {
        *place = after.clone();
    }
    workspace.changed(Change::Message(before.channel.clone(), before.ts.clone()));
    workspace.tell_change(before, Some(&after));
}

pub(super) fn delete(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let channel = writable(workspace, args.required("channel")?)?.id;
    let ts = args.required("ts")?;
    let before = own(workspace, &channel, ts, "cant_delete_message")?.clone();
    if let Some(all) = workspace.messages.get_mut(&channel) {
        all.remove(ts);
    }
    workspace.tell_change(&before, None);
    Ok(json!({"channel": channel, "ts": ts}))
}

pub(super) fn post_ephemeral(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("chat:write")?;
    let channel = writable(workspace, args.required("channel")?)?;
    let user = args.required("user")?;
    if !workspace.users.contains_key(user) || !channel.has(user) {
        return Err(Refused::new("user_not_in_channel"));
    }
    let thread = thread(workspace, &channel.id, args)?;
    let said = said(args)?;
    let ts = workspace.next_ts();
    let mut message = Message::new(&channel.id, &workspace.bot_user, ts.clone());
    message.text = said.text;
    message.blocks = said.blocks;
    message.thread_ts = thread.map(str::to_owned);
    message.only_for = Some(user.to_owned());
    workspace.keep_ephemeral(message);
    Ok(with_warnings(json!({"message_ts": ts}), &said.warnings))
}
