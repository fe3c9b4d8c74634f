//! Messages, and how Slack tells about them.

use super::Workspace;
use serde_json::{Map, Value, json};

/// An emoji on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Without colons.
    pub name: String,
    /// Who put it there.
    pub users: Vec<String>,
}

/// That a message was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// By whom.
    pub user: String,
    /// When.
    pub ts: String,
}

/// How far a streamed message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Text may be added.
    Open,
    /// The app ended it.
    Ended,
    /// The person ended it.
    StoppedByUser,
    /// It lasted too long, and Slack ended it.
    Expired,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its name in the channel.
    pub ts: String,
    /// Where it is.
    pub channel: String,
    /// Whose it is.
    pub user: String,
    /// The text, as Slack has it: entities, and mentions as ids.
    pub text: String,
    /// The blocks, if it has any.
    pub blocks: Vec<Value>,
    /// The message that it answers.
    pub thread_ts: Option<String>,
    /// `file_share`, `thread_broadcast` or nothing.
    pub subtype: Option<&'static str>,
    /// Ids of its files.
    pub files: Vec<String>,
    /// Emoji.
    pub reactions: Vec<Reaction>,
    /// What an app attached for itself.
    pub metadata: Option<Value>,
    /// That it was changed.
    pub edited: Option<Edited>,
    /// What a person's client calls it.
    pub client_msg_id: Option<String>,
    /// If it was streamed, how far that is.
    pub stream: Option<Stream>,
    /// When the stream was begun, by the steady clock.
    pub(crate) stream_began: std::time::Duration,
    /// If it is ephemeral, who sees it.
    pub only_for: Option<String>,
}

impl Message {
    pub(crate) fn new(channel: &str, user: &str, ts: String) -> Self {
        Self {
            ts,
            channel: channel.to_owned(),
            user: user.to_owned(),
            text: String::new(),
            blocks: Vec::new(),
            thread_ts: None,
            subtype: None,
            files: Vec::new(),
            reactions: Vec::new(),
            metadata: None,
            edited: None,
            client_msg_id: None,
            stream: None,
            stream_began: std::time::Duration::ZERO,
            only_for: None,
        }
    }

    /// Whether it answers another.
    pub fn is_reply(&self) -> bool {
        self.thread_ts.as_ref().is_some_and(|ts| *ts != self.ts)
    }

    /// What a person reads: the blocks' text if there are blocks with text, else the text.
    pub fn shown(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| {
            let text = block.get("text")?;
            text.as_str().or_else(|| text.get("text")?.as_str())
        });
        let texts: Vec<&str> = texts.collect();
        if texts.is_empty() {
            self.text.clone()
        } else {
            texts.join("\n")
        }
    }
}

impl Workspace {
    /// A message as the API and events tell it; metadata only for those who ask.
    pub(crate) fn message_json(&self, message: &Message, with_metadata: bool) -> Value {
        let mut told = Map::new();
        let mut put = |name: &str, value: Value| {
            told.insert(name.to_owned(), value);
        };
        put("type", "message".into());
        put("user", message.user.clone().into());
        put("text", message.text.clone().into());
        put("ts", message.ts.clone().into());
        put("team", self.team.clone().into());
        if let Some(subtype) = message.subtype {
            put("subtype", subtype.into());
        }
        if let Some(id) = &message.client_msg_id {
            put("client_msg_id", id.clone().into());
        }
        if message.user == self.bot_user {
            put("bot_id", self.bot.clone().into());
            put("app_id", self.app.clone().into());
            let profile = json!({"id": self.bot, "app_id": self.app, "name": "Interzone",
                "deleted": false, "team_id": self.team, "updated": 1_700_000_000});
            put("bot_profile", profile);
        }
        if !message.blocks.is_empty() {
            put("blocks", Value::Array(message.blocks.clone()));
        } else if message.client_msg_id.is_some() {
            put("blocks", rich_text(&message.text));
        }
        if !message.files.is_empty() {
            let files = message.files.iter().filter_map(|id| self.files.get(id));
            let files: Vec<Value> = files
                .map(|file| file.in_event(&self.base, &self.team))
                .collect();
            put("files", files.into());
            put("upload", false.into());
        }
        if let Some(edited) = &message.edited {
            put("edited", json!({"user": edited.user, "ts": edited.ts}));
        }
        if !message.reactions.is_empty() {
            let all = message.reactions.iter().map(|reaction| {
                json!({"name": reaction.name, "users": reaction.users, "count": reaction.users.len()})
            });
            put("reactions", all.collect());
        }
        if let Some(metadata) = message.metadata.as_ref().filter(|_| with_metadata) {
            put("metadata", metadata.clone());
        }
        if let Some(thread) = &message.thread_ts {
            put("thread_ts", thread.clone().into());
            if message.is_reply() {
                let parent = self.message(&message.channel, thread);
                put(
                    "parent_user_id",
                    parent.map(|parent| parent.user.clone()).into(),
                );
            } else {
                let replies = self.replies(&message.channel, thread);
                let mut users: Vec<&String> = replies.iter().map(|reply| &reply.user).collect();
                users.sort();
                users.dedup();
                put("reply_count", replies.len().into());
                put("reply_users_count", users.len().into());
                put("reply_users", json!(users));
                put(
                    "latest_reply",
                    replies.last().map(|reply| reply.ts.clone()).into(),
                );
                put("is_locked", false.into());
                put("subscribed", true.into());
            }
        }
        Value::Object(told)
    }
}

/// What Slack's own client makes of typed text.
fn rich_text(text: &str) -> Value {
    json!([{"type": "rich_text", "block_id": "b1", "elements": [
        {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}]}])
}
