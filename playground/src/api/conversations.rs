//! Channels, their members and messages.

use super::args::Args;
use super::{ApiResult, SlackApiError, paginate, readable_channel, visible_channel};
use crate::tokens::TokenHolder;
use crate::workspace::Workspace;
use crate::workspace::channels::{ChannelKind, PlaygroundChannel};
use crate::workspace::messages::PlaygroundMessage;
use serde_json::{Value, json};

pub(super) fn info(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    let channel = visible_channel(workspace, args.required("channel")?)?;
    caller.require_scope(channel.kind.read_scope())?;
    Ok(json!({"channel": channel.to_json(&workspace.team, &workspace.bot_user)}))
}

pub(super) fn list(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    let types = args.text("types").unwrap_or("public_channel");
    let types: Vec<&str> = types.split(',').map(str::trim).collect();
    let mut found = Vec::new();
    for channel in workspace.channels.values() {
        let wanted = types.contains(&channel.kind.list_type());
        let hidden = args.flag("exclude_archived") && channel.archived;
        if wanted && !hidden && visible_channel(workspace, &channel.id).is_ok() {
            caller.require_scope(channel.kind.read_scope())?;
            found.push(channel.to_json(&workspace.team, &workspace.bot_user));
        }
    }
    let (channels, cursor) = paginate(&found, args, 100, 999)?;
    Ok(json!({"channels": channels, "response_metadata": {"next_cursor": cursor}}))
}

pub(super) fn members(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    let channel = visible_channel(workspace, args.required("channel")?)?;
    caller.require_scope(channel.kind.read_scope())?;
    let (members, cursor) = paginate(&channel.members, args, 100, 999)?;
    Ok(json!({"members": members, "response_metadata": {"next_cursor": cursor}}))
}

/// Opens the DM with a user.
pub(super) fn open(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("im:write")?;
    if let Some(id) = args.text("channel") {
        let channel = visible_channel(workspace, id)?;
        return Ok(json!({"channel": {"id": channel.id}}));
    }
    let users = args
        .text("users")
        .ok_or(SlackApiError::new("users_list_not_supplied"))?;
    let user = match users.split(',').collect::<Vec<_>>().as_slice() {
        [one] => (*one).to_owned(),
        _ => return Err(SlackApiError::new("invalid_user_combination")),
    };
    let person = workspace
        .users
        .get(&user)
        .ok_or(SlackApiError::new("user_not_found"))?;
    if person.deleted || person.is_bot {
        return Err(SlackApiError::new("user_disabled"));
    }
    let mut all = workspace.channels.values();
    let existing = all.find(|channel| channel.kind == ChannelKind::Im && channel.has_member(&user));
    let (id, was_open) = match existing {
        Some(channel) => (channel.id.clone(), true),
        None => {
            let channel = PlaygroundChannel {
                id: format!("D{}", user.trim_start_matches('U')),
                name: person.name.clone(),
                kind: ChannelKind::Im,
                members: vec![user, workspace.bot_user.clone()],
                archived: false,
            };
            let id = channel.id.clone();
            workspace.channels.insert(id.clone(), channel);
            (id, false)
        }
    };
    Ok(json!({"no_op": was_open, "already_open": was_open, "channel": {"id": id}}))
}

/// Returns true if a message lies between `oldest` and `latest`.
fn is_in_range(args: &Args, ts: &str) -> bool {
    let inclusive = args.flag("inclusive");
    let after = args.text("oldest").is_none_or(|oldest| {
        ts_order(ts) > ts_order(oldest) || inclusive && ts_order(ts) == ts_order(oldest)
    });
    let before = args.text("latest").is_none_or(|latest| {
        ts_order(ts) < ts_order(latest) || inclusive && ts_order(ts) == ts_order(latest)
    });
    after && before
}

/// Converts a ts for comparison: `5` and `5.000000` are equal.
fn ts_order(ts: &str) -> (u64, u64) {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, "0"));
    let padded: String = rest.chars().chain("000000".chars()).take(6).collect();
    let number = |text: &str| text.parse().unwrap_or_default();
    (number(seconds), number(&padded))
}

fn messages_json(
    workspace: &Workspace,
    messages: &[&PlaygroundMessage],
    args: &Args,
) -> Vec<Value> {
    let metadata = args.flag("include_all_metadata");
    let tell = |message: &&PlaygroundMessage| workspace.message_json(message, metadata);
    messages.iter().map(tell).collect()
}

/// A thread, oldest first. Its first message is always included, as in Slack.
pub(super) fn replies(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    let channel = readable_channel(workspace, caller, args.required("channel")?)?;
    let ts = args.required("ts")?;
    let first = workspace.message(&channel.id, ts);
    let first = first.ok_or(SlackApiError::new("thread_not_found"))?;
    let mut all = vec![first];
    // The ts of a reply selects that reply alone.
    if !first.is_reply() {
        let replies = workspace.replies(&channel.id, ts);
        let replies = replies.into_iter();
        all.extend(replies.filter(|reply| is_in_range(args, &reply.ts)));
    }
    let (messages, cursor) = paginate(&all, args, 1000, 1000)?;
    Ok(json!({
        "messages": messages_json(workspace, &messages, args), "has_more": !cursor.is_empty(),
        "response_metadata": {"next_cursor": cursor},
    }))
}

/// Messages of a channel, newest first, without thread replies.
pub(super) fn history(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    let channel = readable_channel(workspace, caller, args.required("channel")?)?;
    let all = workspace.messages(&channel.id);
    let shown = |m: &&PlaygroundMessage| !m.is_reply() || m.subtype == Some("thread_broadcast");
    let all = all.filter(|m| shown(m) && is_in_range(args, &m.ts));
    let mut all: Vec<&PlaygroundMessage> = all.collect();
    all.reverse();
    let (messages, cursor) = paginate(&all, args, 100, 999)?;
    Ok(json!({
        "messages": messages_json(workspace, &messages, args), "has_more": !cursor.is_empty(),
        "pin_count": 0, "response_metadata": {"next_cursor": cursor},
    }))
}
