//! Channels, who is in them, and what was said there.

use super::args::Args;
use super::{Answer, Refused, page, readable, visible};
use crate::access::Caller;
use crate::workspace::Workspace;
use crate::workspace::channels::{Channel, Kind};
use crate::workspace::messages::Message;
use serde_json::{Value, json};

pub(super) fn info(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    let channel = visible(workspace, args.required("channel")?)?;
    caller.need(channel.kind.read_scope())?;
    Ok(json!({"channel": channel.json(&workspace.team, &workspace.bot_user)}))
}

pub(super) fn list(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    let types = args.text("types").unwrap_or("public_channel");
    let types: Vec<&str> = types.split(',').map(str::trim).collect();
    let mut found = Vec::new();
    for channel in workspace.channels.values() {
        let wanted = types.contains(&channel.kind.listed_as());
        let hidden = args.flag("exclude_archived") && channel.archived;
        if wanted && !hidden && visible(workspace, &channel.id).is_ok() {
            caller.need(channel.kind.read_scope())?;
            found.push(channel.json(&workspace.team, &workspace.bot_user));
        }
    }
    let (channels, cursor) = page(&found, args, 100, 999)?;
    Ok(json!({"channels": channels, "response_metadata": {"next_cursor": cursor}}))
}

pub(super) fn members(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    let channel = visible(workspace, args.required("channel")?)?;
    caller.need(channel.kind.read_scope())?;
    let (members, cursor) = page(&channel.members, args, 100, 999)?;
    Ok(json!({"members": members, "response_metadata": {"next_cursor": cursor}}))
}

/// Opens the DM with somebody.
pub(super) fn open(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("im:write")?;
    if let Some(id) = args.text("channel") {
        let channel = visible(workspace, id)?;
        return Ok(json!({"channel": {"id": channel.id}}));
    }
    let users = args
        .text("users")
        .ok_or(Refused::new("users_list_not_supplied"))?;
    let user = match users.split(',').collect::<Vec<_>>().as_slice() {
        [one] => (*one).to_owned(),
        _ => return Err(Refused::new("invalid_user_combination")),
    };
    let person = workspace
        .users
        .get(&user)
        .ok_or(Refused::new("user_not_found"))?;
    if person.deleted || person.is_bot {
        return Err(Refused::new("user_disabled"));
    }
    let mut all = workspace.channels.values();
    let known = all.find(|channel| channel.kind == Kind::Im && channel.has(&user));
    let (id, was_open) = match known {
        Some(channel) => (channel.id.clone(), true),
        None => {
            let channel = Channel {
                id: format!("D{}", user.trim_start_matches('U')),
                name: person.name.clone(),
                kind: Kind::Im,
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

/// Whether a message lies between `oldest` and `latest`.
fn within(args: &Args, ts: &str) -> bool {
    let inclusive = args.flag("inclusive");
    let after = args
        .text("oldest")
        .is_none_or(|oldest| order(ts) > order(oldest) || inclusive && order(ts) == order(oldest));
    let before = args
        .text("latest")
        .is_none_or(|latest| order(ts) < order(latest) || inclusive && order(ts) == order(latest));
    after && before
}

/// A ts as something that can be compared: `5` and `5.000000` are the same moment.
fn order(ts: &str) -> (u64, u64) {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, "0"));
    let padded: String = rest.chars().chain("000000".chars()).take(6).collect();
    let number = |text: &str| text.parse().unwrap_or_default();
    (number(seconds), number(&padded))
}

fn told(workspace: &Workspace, messages: &[&Message], args: &Args) -> Vec<Value> {
    let metadata = args.flag("include_all_metadata");
    let tell = |message: &&Message| workspace.message_json(message, metadata);
    messages.iter().map(tell).collect()
}

/// A thread, oldest first. Its first message comes whatever the times asked for.
pub(super) fn replies(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    let channel = readable(workspace, caller, args.required("channel")?)?;
    let ts = args.required("ts")?;
    let first = workspace.message(&channel.id, ts);
    let first = first.ok_or(Refused::new("thread_not_found"))?;
    let mut all = vec![first];
    // The ts of a reply gives that reply alone.
    if !first.is_reply() {
        let replies = workspace.replies(&channel.id, ts);
        let replies = replies.into_iter();
        all.extend(replies.filter(|reply| within(args, &reply.ts)));
    }
    let (messages, cursor) = page(&all, args, 1000, 1000)?;
    Ok(json!({
        "messages": told(workspace, &messages, args), "has_more": !cursor.is_empty(),
        "response_metadata": {"next_cursor": cursor},
    }))
}

/// A channel, newest first, without what was said in threads only.
pub(super) fn history(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    let channel = readable(workspace, caller, args.required("channel")?)?;
    let all = workspace.messages(&channel.id);
    let shown = |m: &&Message| !m.is_reply() || m.subtype == Some("thread_broadcast");
    let all = all.filter(|m| shown(m) && within(args, &m.ts));
    let mut all: Vec<&Message> = all.collect();
    all.reverse();
    let (messages, cursor) = page(&all, args, 100, 999)?;
    Ok(json!({
        "messages": told(workspace, &messages, args), "has_more": !cursor.is_empty(),
        "pin_count": 0, "response_metadata": {"next_cursor": cursor},
    }))
}
