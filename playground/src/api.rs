//! Slack's Web API: the list of methods, and what all of them share. A method is a function over the
//! workspace; it neither waits nor knows how it was called.

pub(crate) mod args;
mod auth;
mod blocks;
pub(crate) mod chat;
mod conversations;
pub(crate) mod files;
pub(crate) mod multipart;
mod pace;
pub(crate) mod reactions;
pub(crate) mod respond;
mod stream;
mod users;

use crate::access::{Caller, TokenKind};
use crate::workspace::Workspace;
use crate::workspace::channels::{Channel, Kind};
use args::Args;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A refusal, in Slack's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) word: Cow<'static, str>,
    /// Sentences for the developer.
    pub(crate) why: Vec<String>,
    /// The scope that is missing.
    pub(crate) needed: Option<String>,
}

impl Refused {
    pub(crate) fn new(word: impl Into<Cow<'static, str>>) -> Self {
        Self {
            word: word.into(),
            why: Vec::new(),
            needed: None,
        }
    }

    pub(crate) fn because(word: &'static str, why: &str) -> Self {
        Self {
            why: vec![format!("[ERROR] {why}")],
            ..Self::new(word)
        }
    }

    /// The body of the answer.
    pub(crate) fn json(&self, provided: Option<&str>) -> Value {
        let mut told = json!({"ok": false, "error": self.word});
        if let Some(fields) = told.as_object_mut() {
            if let Some(needed) = &self.needed {
                fields.insert("needed".to_owned(), needed.clone().into());
                fields.insert("provided".to_owned(), provided.into());
            }
            if !self.why.is_empty() {
                let messages = json!({"messages": self.why});
                fields.insert("response_metadata".to_owned(), messages);
            }
        }
        told
    }
}

/// What a method gives: fields of the answer beside `ok`.
pub(crate) type Answer = Result<Value, Refused>;
type Handler = fn(&mut Workspace, &Caller, &Args) -> Answer;

/// What a call must bring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    /// A token of the bot; arguments in a form or in JSON.
    Bot,
    /// A token of the bot; arguments in a query or a form. JSON is not read.
    BotForm,
    /// A token that opens sockets.
    App,
    /// No token.
    Open,
}

struct Method {
    name: &'static str,
    door: Door,
    run: Handler,
}

const fn method(name: &'static str, door: Door, run: Handler) -> Method {
    Method { name, door, run }
}

const METHODS: &[Method] = &[
    method("api.test", Door::Open, auth::api_test),
    method("apps.connections.open", Door::App, auth::connections_open),
    method("assistant.threads.setStatus", Door::Bot, users::set_status),
    method("auth.revoke", Door::BotForm, auth::revoke),
    method("auth.test", Door::Bot, auth::test),
    method("chat.appendStream", Door::Bot, stream::append),
    method("chat.delete", Door::Bot, chat::delete),
    method("chat.postEphemeral", Door::Bot, chat::post_ephemeral),
    method("chat.postMessage", Door::Bot, chat::post_message),
    method("chat.startStream", Door::Bot, stream::start),
    method("chat.stopStream", Door::Bot, stream::stop),
    method("chat.update", Door::Bot, chat::update),
    method(
        "conversations.history",
        Door::BotForm,
        conversations::history,
    ),
    method("conversations.info", Door::BotForm, conversations::info),
    method("conversations.list", Door::BotForm, conversations::list),
    method(
        "conversations.members",
        Door::BotForm,
        conversations::members,
    ),
    method("conversations.open", Door::Bot, conversations::open),
    method(
        "conversations.replies",
        Door::BotForm,
        conversations::replies,
    ),
    method("files.completeUploadExternal", Door::Bot, files::complete),
    method(
        "files.getUploadURLExternal",
        Door::BotForm,
        files::upload_url,
    ),
    method("files.info", Door::BotForm, files::info),
    method("oauth.v2.access", Door::Open, auth::access),
    method("reactions.add", Door::Bot, reactions::add),
    method("reactions.get", Door::BotForm, reactions::get),
    method("reactions.remove", Door::Bot, reactions::remove),
    method("team.info", Door::BotForm, users::team_info),
    method("users.info", Door::BotForm, users::info),
    method("users.list", Door::BotForm, users::list),
];

/// Whether a method reads JSON.
pub(crate) fn takes_json(name: &str) -> bool {
    let found = METHODS.iter().find(|method| method.name == name);
    found.is_none_or(|method| matches!(method.door, Door::Bot | Door::App))
}

/// What a call gives, and the scopes of its token if it has one.
pub(crate) fn call(workspace: &mut Workspace, name: &str, args: &Args) -> (Answer, Option<String>) {
    let Some(method) = METHODS.iter().find(|method| method.name == name) else {
        return (Err(Refused::new("unknown_method")), None);
    };
    let now = workspace.clock.unix();
    let caller = match method.door {
        Door::Open => Ok(Caller {
            kind: TokenKind::Bot,
            scopes: Default::default(),
        }),
        _ => workspace.tokens.caller(args.token(), now),
    };
    let caller = match caller {
        Ok(caller) => caller,
        Err(refused) => return (Err(refused), None),
    };
    let wanted = match method.door {
        Door::App => TokenKind::App,
        _ => TokenKind::Bot,
    };
    if method.door != Door::Open && caller.kind != wanted {
        return (Err(Refused::new("not_allowed_token_type")), None);
    }
    (
        (method.run)(workspace, &caller, args),
        Some(caller.provided()),
    )
}

/// A channel that the bot may know of.
fn visible<'a>(workspace: &'a Workspace, id: &str) -> Result<&'a Channel, Refused> {
    let channel = workspace.channels.get(id);
    let seen =
        |channel: &&Channel| channel.kind == Kind::Public || channel.has(&workspace.bot_user);
    channel
        .filter(seen)
        .ok_or(Refused::new("channel_not_found"))
}

/// A channel whose messages the bot may read.
fn readable<'a>(
    workspace: &'a Workspace,
    caller: &Caller,
    id: &str,
) -> Result<&'a Channel, Refused> {
    let channel = visible(workspace, id)?;
    caller.need(channel.kind.history_scope())?;
    if !channel.has(&workspace.bot_user) {
        return Err(Refused::new("not_in_channel"));
    }
    Ok(channel)
}

/// A channel that the bot may write to. A user's id is that user's DM.
fn writable(workspace: &Workspace, id: &str) -> Result<Channel, Refused> {
    let dm = workspace
        .channels
        .values()
        .find(|channel| channel.kind == Kind::Im && id != workspace.bot_user && channel.has(id));
    let channel = match dm {
        Some(channel) => channel,
        None => visible(workspace, id)?,
    };
    if channel.archived {
        return Err(Refused::new("is_archived"));
    }
    if !channel.has(&workspace.bot_user) {
        return Err(Refused::new("not_in_channel"));
    }
    Ok(channel.clone())
}

/// One page of a list, and the cursor of the next.
fn page<T: Clone>(
    all: &[T],
    args: &Args,
    usual: usize,
    most: usize,
) -> Result<(Vec<T>, String), Refused> {
    let limit = args.number("limit").unwrap_or(usual);
    if limit == 0 || limit > most {
        return Err(Refused::new("invalid_limit"));
    }
    let start = match args.text("cursor") {
        None => 0,
        Some(cursor) => {
            let number = cursor.strip_prefix("next:").and_then(|n| n.parse().ok());
            let number: Option<usize> = number.filter(|number| *number <= all.len());
            number.ok_or(Refused::new("invalid_cursor"))?
        }
    };
    let end = start.saturating_add(limit).min(all.len());
    let cursor = match end < all.len() {
        true => format!("next:{end}"),
        false => String::new(),
    };
    Ok((all.get(start..end).unwrap_or_default().to_vec(), cursor))
}
