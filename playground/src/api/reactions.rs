//! Emoji on messages.

use super::args::Args;
use super::{Answer, Refused, readable, visible};
use crate::access::Caller;
use crate::workspace::messages::{Message, Reaction};
use crate::workspace::{Change, Workspace};
use serde_json::json;

fn message<'a>(workspace: &'a mut Workspace, args: &Args) -> Result<&'a mut Message, Refused> {
    let id = args
        .text("channel")
        .ok_or(Refused::new("no_item_specified"))?;
    let ts = args
        .text("timestamp")
        .ok_or(Refused::new("no_item_specified"))?;
    let channel = visible(workspace, id)?;
    if channel.archived {
        return Err(Refused::new("is_archived"));
    }
    if !channel.has(&workspace.bot_user) {
        return Err(Refused::new("not_in_channel"));
    }
    let all = workspace.messages.get_mut(id);
    let found = all.and_then(|all| all.get_mut(ts));
    found.ok_or(Refused::new("message_not_found"))
}

/// How many different emoji a message may have.
pub(crate) const MOST: usize = 50;

fn name(args: &Args) -> Result<&str, Refused> {
    let name = args.text("name").filter(|name| is_name(name));
    name.ok_or(Refused::new("invalid_name"))
}

/// Whether an emoji may be called so.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-'".contains(c);
    (1..=100).contains(&name.len()) && name.chars().all(fits)
}

/// Whether a message has no room for this emoji.
pub(crate) fn is_full(message: &Message, name: &str) -> bool {
    message.reactions.len() >= MOST && message.reactions.iter().all(|one| one.name != name)
}

/// Puts somebody's emoji on a message; says whether it was not there yet.
pub(crate) fn react(message: &mut Message, name: &str, user: &str) -> bool {
    let place = message.reactions.iter_mut().find(|r| r.name == name);
    match place {
        Some(reaction) if reaction.users.iter().any(|one| one == user) => false,
        Some(reaction) => {
            reaction.users.push(user.to_owned());
            true
        }
        None => {
            message.reactions.push(Reaction {
                name: name.to_owned(),
                users: vec![user.to_owned()],
            });
            true
        }
    }
}

/// Takes somebody's emoji away; says whether it was there.
pub(crate) fn unreact(message: &mut Message, name: &str, user: &str) -> bool {
    let mut found = false;
    for reaction in message.reactions.iter_mut().filter(|r| r.name == name) {
        let before = reaction.users.len();
        reaction.users.retain(|one| one != user);
        found |= reaction.users.len() < before;
    }
    message
        .reactions
        .retain(|reaction| !reaction.users.is_empty());
    found
}

pub(super) fn add(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("reactions:write")?;
    let (name, user) = (name(args)?, workspace.bot_user.clone());
    let message = message(workspace, args)?;
    if is_full(message, name) {
        return Err(Refused::new("too_many_emoji"));
    }
    if !react(message, name, &user) {
        return Err(Refused::new("already_reacted"));
    }
    let change = Change::Message(message.channel.clone(), message.ts.clone());
    workspace.changed(change);
    Ok(json!({}))
}

pub(super) fn remove(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("reactions:write")?;
    let (name, user) = (name(args)?, workspace.bot_user.clone());
    let message = message(workspace, args)?;
    if !unreact(message, name, &user) {
        return Err(Refused::new("no_reaction"));
    }
    let change = Change::Message(message.channel.clone(), message.ts.clone());
    workspace.changed(change);
    Ok(json!({}))
}

pub(super) fn get(workspace: &mut Workspace, caller: &Caller, args: &Args) -> Answer {
    caller.need("reactions:read")?;
    let found = message(workspace, args)?.clone();
    readable(workspace, caller, &found.channel)?;
    let shown = workspace.message_json(&found, false);
    Ok(json!({"type": "message", "channel": found.channel, "message": shown}))
}
