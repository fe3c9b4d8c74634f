//! Messages, and their JSON form in Slack's API and events.

use super::Workspace;
use serde_json::{Map, Value, json};

/// A reaction to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Emoji name without colons.
    pub name: String,
    /// Users who reacted.
    pub users: Vec<String>,
}

/// Edit information of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditInfo {
    /// User who edited it.
    pub user: String,
    /// Time of the edit.
    pub ts: String,
}

/// State of a streamed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStatus {
    /// Text may be appended.
    Open,
    /// Ended by the app.
    Ended,
    /// Stopped by the reader.
    StoppedByUser,
    /// Ended by Slack after the maximum duration.
    Expired,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaygroundMessage {
    /// Timestamp id in the channel.
    pub ts: String,
    /// Channel id.
    pub channel: String,
    /// Author.
    pub user: String,
    /// Text as Slack stores it: entities, and mentions as ids.
    pub text: String,
    /// Blocks, if any.
    pub blocks: Vec<Value>,
    /// Thread parent.
    pub thread_ts: Option<String>,
    /// `file_share`, `thread_broadcast` or none.
    pub subtype: Option<&'static str>,
    /// File ids.
    pub files: Vec<String>,
    /// Reactions.
    pub reactions: Vec<Reaction>,
    /// Metadata attached by the app.
    pub metadata: Option<Value>,
    /// Edit information.
    pub edited: Option<EditInfo>,
    /// Id set by the user's client.
    pub client_msg_id: Option<String>,
    /// Stream state, if streamed.
    pub stream: Option<StreamStatus>,
    /// Start of the stream on the monotonic clock.
    pub(crate) stream_started_at: std::time::Duration,
    /// User who sees it, if ephemeral.
    pub visible_to: Option<String>,
}

impl PlaygroundMessage {
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
            stream_started_at: std::time::Duration::ZERO,
            visible_to: None,
        }
    }

    /// Returns true for a reply to another message.
    pub fn is_reply(&self) -> bool {
        self.thread_ts.as_ref().is_some_and(|ts| *ts != self.ts)
    }

    /// Returns the displayed text: that of the blocks if they have text, else `text`.
    pub fn displayed_text(&self) -> String {
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
    /// Returns the JSON form for the API and events; metadata only on request.
    pub(crate) fn message_json(&self, message: &PlaygroundMessage, with_metadata: bool) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
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
                .map(|file| file.to_event_json(&self.base_url, &self.team))
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
        Value::Object(fields)
    }
}

/// Returns the rich text block that Slack's client makes of typed text.
fn rich_text(text: &str) -> Value {
    json!([{"type": "rich_text", "block_id": "b1", "elements": [
        {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}]}])
}
