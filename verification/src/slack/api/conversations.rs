//! `conversations` methods.

use super::files::SlackFile;
use super::response::{PageCursor, lenient, lenient_list, text};
use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{AppId, BotId, ChannelId, Ts, UserId};
use crate::slack::tokens::Installation;
use serde::Deserialize;

/// A channel, group or direct message.
#[derive(Clone, Debug, Deserialize)]
pub struct Conversation {
    /// The id.
    pub id: ChannelId,
    /// Name; empty for a direct message.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// True for a direct message with one user.
    #[serde(default)]
    pub is_im: bool,
    /// True for an unnamed conversation of several users.
    #[serde(default)]
    pub is_mpim: bool,
    /// True if only invited users see it.
    #[serde(default)]
    pub is_private: bool,
    /// True if it is archived.
    #[serde(default)]
    pub is_archived: bool,
    /// True if the bot is a member.
    #[serde(default)]
    pub is_member: bool,
    /// True if users of other workspaces are members.
    #[serde(default)]
    pub is_ext_shared: bool,
    /// The other user of a direct message.
    #[serde(default, deserialize_with = "lenient")]
    pub user: Option<UserId>,
}

impl Conversation {
    /// Returns true if every user of the workspace may read it.
    pub fn is_public(&self) -> bool {
        !(self.is_im || self.is_mpim || self.is_private)
    }
}

/// Message metadata set by an app.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MessageMetadata {
    /// The event type.
    pub event_type: String,
    /// The payload.
    #[serde(default)]
    pub event_payload: serde_json::Value,
}

/// A message of a thread.
#[derive(Clone, Debug, Deserialize)]
pub struct SlackMessage {
    /// Timestamp, which identifies the message in its channel.
    pub ts: Ts,
    /// Timestamp of its thread.
    #[serde(default, deserialize_with = "lenient")]
    pub thread_ts: Option<Ts>,
    /// The author.
    #[serde(default, deserialize_with = "lenient")]
    pub user: Option<UserId>,
    /// The bot that posted it.
    #[serde(default, deserialize_with = "lenient")]
    pub bot_id: Option<BotId>,
    /// The app that posted it.
    #[serde(default, deserialize_with = "lenient")]
    pub app_id: Option<AppId>,
    /// Display name chosen by the bot.
    #[serde(default, deserialize_with = "lenient")]
    pub username: Option<String>,
    /// Message subtype, if it is not a plain message.
    #[serde(default, deserialize_with = "lenient")]
    pub subtype: Option<String>,
    /// Text in mrkdwn.
    #[serde(default, deserialize_with = "text")]
    pub text: String,
    /// Attached files.
    #[serde(default, deserialize_with = "lenient_list")]
    pub files: Vec<SlackFile>,
    /// Metadata set by its app.
    #[serde(default, deserialize_with = "lenient")]
    pub metadata: Option<MessageMetadata>,
}

/// A page of a thread.
#[derive(Clone, Debug)]
pub struct RepliesPage {
    /// Its messages, oldest first.
    pub messages: Vec<SlackMessage>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// Arguments of `conversations.replies`.
#[derive(Clone, Copy, Debug)]
pub struct RepliesQuery<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The thread's first message.
    pub ts: &'a Ts,
    /// Oldest timestamp, inclusive.
    pub oldest: Option<&'a Ts>,
    /// Latest timestamp, inclusive.
    pub latest: Option<&'a Ts>,
    /// Page size.
    pub limit: u16,
    /// Cursor of the page.
    pub cursor: Option<&'a str>,
}

impl Slack {
    /// Returns a conversation.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `channel_not_found` if the bot does not see it.
    pub async fn conversations_info(
        &self,
        installation: &Installation,
        channel: &ChannelId,
    ) -> Result<Conversation, SlackError> {
        #[derive(Deserialize)]
        struct InfoResponse {
            channel: Conversation,
        }
        let args = SlackArgs::new().arg("channel", channel.as_str());
        let response: InfoResponse = self
            .call(installation, SlackMethod::ConversationsInfo, &args)
            .await?;
        Ok(response.channel)
    }

    /// Returns a page of the members of a conversation, and the cursor of the next page.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn conversations_members(
        &self,
        installation: &Installation,
        channel: &ChannelId,
        cursor: Option<&str>,
        limit: u16,
    ) -> Result<(Vec<UserId>, Option<String>), SlackError> {
        #[derive(Deserialize)]
        struct MembersResponse {
            #[serde(default, deserialize_with = "lenient_list")]
            members: Vec<UserId>,
            #[serde(default)]
            response_metadata: Option<PageCursor>,
        }
        let args = SlackArgs::new()
            .arg("channel", channel.as_str())
            .arg("limit", limit.to_string())
            .optional_arg("cursor", cursor);
        let response: MembersResponse = self
            .call(installation, SlackMethod::ConversationsMembers, &args)
            .await?;
        let next = response.response_metadata.unwrap_or_default().next_cursor();
        Ok((response.members, next))
    }

    /// Returns a page of a thread, with all metadata.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `thread_not_found` if it does not exist.
    pub async fn conversations_replies(
        &self,
        installation: &Installation,
        query: RepliesQuery<'_>,
    ) -> Result<RepliesPage, SlackError> {
        #[derive(Deserialize)]
        struct RepliesResponse {
            #[serde(default, deserialize_with = "lenient_list")]
            messages: Vec<SlackMessage>,
            #[serde(default)]
            response_metadata: Option<PageCursor>,
        }
        let args = SlackArgs::new()
            .arg("channel", query.channel.as_str())
            .arg("ts", query.ts.as_str())
            .arg("limit", query.limit.to_string())
            .arg("include_all_metadata", "true")
            .arg("inclusive", "true")
            .optional_arg("oldest", query.oldest.map(Ts::as_str))
            .optional_arg("latest", query.latest.map(Ts::as_str))
            .optional_arg("cursor", query.cursor);
        let response: RepliesResponse = self
            .call(installation, SlackMethod::ConversationsReplies, &args)
            .await?;
        Ok(RepliesPage {
            messages: response.messages,
            next_cursor: response.response_metadata.unwrap_or_default().next_cursor(),
        })
    }
}
