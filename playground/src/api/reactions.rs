//! Reactions to messages.

use super::args::Args;
use super::{ApiResult, SlackApiError, readable_channel, visible_channel};
use crate::tokens::TokenHolder;
use crate::workspace::messages::{PlaygroundMessage, Reaction};
use crate::workspace::{UiChange, Workspace};
use serde_json::json;

fn find_message<'a>(
    workspace: &'a mut Workspace,
    args: &Args,
) -> Result<&'a mut PlaygroundMessage, SlackApiError> {
    let id = args
        .text("channel")
        .ok_or(SlackApiError::new("no_item_specified"))?;
    let ts = args
        .text("timestamp")
        .ok_or(SlackApiError::new("no_item_specified"))?;
    let channel = visible_channel(workspace, id)?;
    if channel.archived {
        return Err(SlackApiError::new("is_archived"));
    }
    if !channel.has_member(&workspace.bot_user) {
        return Err(SlackApiError::new("not_in_channel"));
    }
    let all = workspace.messages.get_mut(id);
    let found = all.and_then(|all| all.get_mut(ts));
    found.ok_or(SlackApiError::new("message_not_found"))
}

/// Maximum different emoji per message.
pub(crate) const MAX_EMOJI: usize = 50;

fn emoji_name(args: &Args) -> Result<&str, SlackApiError> {
    let name = args.text("name").filter(|name| is_emoji_name(name));
    name.ok_or(SlackApiError::new("invalid_name"))
}

/// Returns true for a valid emoji name.
pub(crate) fn is_emoji_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-'".contains(c);
    (1..=100).contains(&name.len()) && name.chars().all(fits)
}

/// Returns true if the message cannot take this emoji as a further one.
pub(crate) fn is_full(message: &PlaygroundMessage, name: &str) -> bool {
    message.reactions.len() >= MAX_EMOJI && message.reactions.iter().all(|one| one.name != name)
}

/// Adds a reaction; returns false if it was present.
pub(crate) fn add_reaction(message: &mut PlaygroundMessage, name: &str, user: &str) -> bool {
    let reaction = message.reactions.iter_mut().find(|r| r.name == name);
    match reaction {
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

/// Removes a reaction; returns false if it was absent.
pub(crate) fn remove_reaction(message: &mut PlaygroundMessage, name: &str, user: &str) -> bool {
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

pub(super) fn add(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("reactions:write")?;
    let (name, user) = (emoji_name(args)?, workspace.bot_user.clone());
    let message = find_message(workspace, args)?;
    if is_full(message, name) {
        return Err(SlackApiError::new("too_many_emoji"));
    }
    if !add_reaction(message, name, &user) {
        return Err(SlackApiError::new("already_reacted"));
    }
    let change = UiChange::Message(message.channel.clone(), message.ts.clone());
    workspace.record_change(change);
    Ok(json!({}))
}

pub(super) fn remove(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("reactions:write")?;
    let (name, user) = (emoji_name(args)?, workspace.bot_user.clone());
    let message = find_message(workspace, args)?;
    if !remove_reaction(message, name, &user) {
        return Err(SlackApiError::new("no_reaction"));
    }
    let change = UiChange::Message(message.channel.clone(), message.ts.clone());
    workspace.record_change(change);
    Ok(json!({}))
}

pub(super) fn get(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("reactions:read")?;
    let found = find_message(workspace, args)?.clone();
    readable_channel(workspace, caller, &found.channel)?;
    let shown = workspace.message_json(&found, false);
    Ok(json!({"type": "message", "channel": found.channel, "message": shown}))
}
