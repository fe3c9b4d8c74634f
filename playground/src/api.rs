//! Slack's Web API: the method table and shared checks. A method is a synchronous function over the workspace.

pub(crate) mod args;
mod auth;
mod blocks;
pub(crate) mod chat;
mod conversations;
pub(crate) mod files;
pub(crate) mod multipart;
mod rate_limits;
pub(crate) mod reactions;
pub(crate) mod respond;
mod stream;
mod users;

use crate::tokens::{TokenHolder, TokenKind};
use crate::workspace::Workspace;
use crate::workspace::channels::{ChannelKind, PlaygroundChannel};
use args::Args;
use serde_json::{Value, json};
use std::borrow::Cow;

/// An API error in Slack's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlackApiError {
    pub(crate) code: Cow<'static, str>,
    /// Details for the developer.
    pub(crate) details: Vec<String>,
    /// The missing scope.
    pub(crate) needed_scope: Option<String>,
}

impl SlackApiError {
    pub(crate) fn new(code: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: code.into(),
            details: Vec::new(),
            needed_scope: None,
        }
    }

    pub(crate) fn with_detail(code: &'static str, detail: &str) -> Self {
        Self {
            details: vec![format!("[ERROR] {detail}")],
            ..Self::new(code)
        }
    }

    /// Returns the response body.
    pub(crate) fn to_json(&self, provided_scopes: Option<&str>) -> Value {
        let mut body = json!({"ok": false, "error": self.code});
        if let Some(fields) = body.as_object_mut() {
            if let Some(needed) = &self.needed_scope {
                fields.insert("needed".to_owned(), needed.clone().into());
                fields.insert("provided".to_owned(), provided_scopes.into());
            }
            if !self.details.is_empty() {
                let messages = json!({"messages": self.details});
                fields.insert("response_metadata".to_owned(), messages);
            }
        }
        body
    }
}

/// Result of a method: response fields besides `ok`.
pub(crate) type ApiResult = Result<Value, SlackApiError>;
type MethodHandler = fn(&mut Workspace, &TokenHolder, &Args) -> ApiResult;

/// Token and argument requirements of a method.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenRequirement {
    /// Bot token; arguments in a form or in JSON.
    Bot,
    /// Bot token; arguments in a query or a form. JSON is ignored.
    BotForm,
    /// App-level token.
    App,
    /// No token.
    Open,
}

struct ApiMethod {
    name: &'static str,
    requirement: TokenRequirement,
    handler: MethodHandler,
}

const fn method(
    name: &'static str,
    requirement: TokenRequirement,
    handler: MethodHandler,
) -> ApiMethod {
    ApiMethod {
        name,
        requirement,
        handler,
    }
}

const METHODS: &[ApiMethod] = &[
    method("api.test", TokenRequirement::Open, auth::api_test),
    method(
        "apps.connections.open",
        TokenRequirement::App,
        auth::connections_open,
    ),
    method(
        "assistant.threads.setStatus",
        TokenRequirement::Bot,
        users::set_status,
    ),
    method("auth.revoke", TokenRequirement::BotForm, auth::revoke),
    method("auth.test", TokenRequirement::Bot, auth::test),
    method("chat.appendStream", TokenRequirement::Bot, stream::append),
    method("chat.delete", TokenRequirement::Bot, chat::delete),
    method(
        "chat.postEphemeral",
        TokenRequirement::Bot,
        chat::post_ephemeral,
    ),
    method(
        "chat.postMessage",
        TokenRequirement::Bot,
        chat::post_message,
    ),
    method("chat.startStream", TokenRequirement::Bot, stream::start),
    method("chat.stopStream", TokenRequirement::Bot, stream::stop),
    method("chat.update", TokenRequirement::Bot, chat::update),
    method(
        "conversations.history",
        TokenRequirement::BotForm,
        conversations::history,
    ),
    method(
        "conversations.info",
        TokenRequirement::BotForm,
        conversations::info,
    ),
    method(
        "conversations.list",
        TokenRequirement::BotForm,
        conversations::list,
    ),
    method(
        "conversations.members",
        TokenRequirement::BotForm,
        conversations::members,
    ),
    method(
        "conversations.open",
        TokenRequirement::Bot,
        conversations::open,
    ),
    method(
        "conversations.replies",
        TokenRequirement::BotForm,
        conversations::replies,
    ),
    method(
        "files.completeUploadExternal",
        TokenRequirement::Bot,
        files::complete,
    ),
    method(
        "files.getUploadURLExternal",
        TokenRequirement::BotForm,
        files::upload_url,
    ),
    method("files.info", TokenRequirement::BotForm, files::info),
    method("oauth.v2.access", TokenRequirement::Open, auth::access),
    method("reactions.add", TokenRequirement::Bot, reactions::add),
    method("reactions.get", TokenRequirement::BotForm, reactions::get),
    method("reactions.remove", TokenRequirement::Bot, reactions::remove),
    method("team.info", TokenRequirement::BotForm, users::team_info),
    method("users.info", TokenRequirement::BotForm, users::info),
    method("users.list", TokenRequirement::BotForm, users::list),
];

/// Returns true if a method accepts JSON.
pub(crate) fn accepts_json(name: &str) -> bool {
    let found = METHODS.iter().find(|method| method.name == name);
    found.is_none_or(|method| {
        matches!(
            method.requirement,
            TokenRequirement::Bot | TokenRequirement::App
        )
    })
}

/// Calls a method; also returns the scopes of the token, if there is one.
pub(crate) fn call(
    workspace: &mut Workspace,
    name: &str,
    args: &Args,
) -> (ApiResult, Option<String>) {
    let Some(method) = METHODS.iter().find(|method| method.name == name) else {
        return (Err(SlackApiError::new("unknown_method")), None);
    };
    let now = workspace.clock.unix();
    let caller = match method.requirement {
        TokenRequirement::Open => Ok(TokenHolder {
            kind: TokenKind::Bot,
            scopes: Default::default(),
        }),
        _ => workspace.tokens.authenticate_token(args.token(), now),
    };
    let caller = match caller {
        Ok(caller) => caller,
        Err(refused) => return (Err(refused), None),
    };
    let required_kind = match method.requirement {
        TokenRequirement::App => TokenKind::App,
        _ => TokenKind::Bot,
    };
    if method.requirement != TokenRequirement::Open && caller.kind != required_kind {
        return (Err(SlackApiError::new("not_allowed_token_type")), None);
    }
    (
        (method.handler)(workspace, &caller, args),
        Some(caller.scope_list()),
    )
}

/// Returns a channel that the bot may see.
fn visible_channel<'a>(
    workspace: &'a Workspace,
    id: &str,
) -> Result<&'a PlaygroundChannel, SlackApiError> {
    let channel = workspace.channels.get(id);
    let is_visible = |channel: &&PlaygroundChannel| {
        channel.kind == ChannelKind::Public || channel.has_member(&workspace.bot_user)
    };
    channel
        .filter(is_visible)
        .ok_or(SlackApiError::new("channel_not_found"))
}

/// Returns a channel whose messages the bot may read.
fn readable_channel<'a>(
    workspace: &'a Workspace,
    caller: &TokenHolder,
    id: &str,
) -> Result<&'a PlaygroundChannel, SlackApiError> {
    let channel = visible_channel(workspace, id)?;
    caller.require_scope(channel.kind.history_scope())?;
    if !channel.has_member(&workspace.bot_user) {
        return Err(SlackApiError::new("not_in_channel"));
    }
    Ok(channel)
}

/// Returns a channel that the bot may write to. A user id selects that user's DM.
fn writable_channel(workspace: &Workspace, id: &str) -> Result<PlaygroundChannel, SlackApiError> {
    let dm = workspace.channels.values().find(|channel| {
        channel.kind == ChannelKind::Im && id != workspace.bot_user && channel.has_member(id)
    });
    let channel = match dm {
        Some(channel) => channel,
        None => visible_channel(workspace, id)?,
    };
    if channel.archived {
        return Err(SlackApiError::new("is_archived"));
    }
    if !channel.has_member(&workspace.bot_user) {
        return Err(SlackApiError::new("not_in_channel"));
    }
    Ok(channel.clone())
}

/// Returns one page of a list, and the cursor of the next.
fn paginate<T: Clone>(
    all: &[T],
    args: &Args,
    default_limit: usize,
    max_limit: usize,
) -> Result<(Vec<T>, String), SlackApiError> {
    let limit = args.number("limit").unwrap_or(default_limit);
    if limit == 0 || limit > max_limit {
        return Err(SlackApiError::new("invalid_limit"));
    }
    let start = match args.text("cursor") {
        None => 0,
        Some(cursor) => {
            let number = cursor.strip_prefix("next:").and_then(|n| n.parse().ok());
            let number: Option<usize> = number.filter(|number| *number <= all.len());
            number.ok_or(SlackApiError::new("invalid_cursor"))?
        }
    };
    let end = start.saturating_add(limit).min(all.len());
    let cursor = match end < all.len() {
        true => format!("next:{end}"),
        false => String::new(),
    };
    Ok((all.get(start..end).unwrap_or_default().to_vec(), cursor))
}
