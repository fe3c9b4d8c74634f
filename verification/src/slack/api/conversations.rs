//! Places and what was written there. What of it is a question, or a part of one, is not known here.

use super::answer::{PageMark, lenient, lenient_list, text};
use super::files::File;
use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{AppId, BotId, ChannelId, Ts, UserId};
use crate::slack::tokens::Installation;
use serde::Deserialize;

/// A place in which one writes.
#[derive(Clone, Debug, Deserialize)]
pub struct Conversation {
    /// Which.
    pub id: ChannelId,
    /// What it is called; a direct message has no name.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// Between us and one person.
    #[serde(default)]
    pub is_im: bool,
    /// Between several people, without a name.
    #[serde(default)]
    pub is_mpim: bool,
    /// Only for those who were invited.
    #[serde(default)]
    pub is_private: bool,
    /// Nobody writes there any more.
    #[serde(default)]
    pub is_archived: bool,
    /// Whether we are in it.
    #[serde(default)]
    pub is_member: bool,
    /// Whether people of other workspaces are in it.
    #[serde(default)]
    pub is_ext_shared: bool,
    /// With whom, in a direct message.
    #[serde(default, deserialize_with = "lenient")]
    pub user: Option<UserId>,
}

impl Conversation {
    /// Whether everybody of the workspace may read it.
    pub fn is_public(&self) -> bool {
        !(self.is_im || self.is_mpim || self.is_private)
    }
}

/// What an app wrote behind a message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Metadata {
    /// Of what kind it is.
    pub event_type: String,
    /// What it says.
    #[serde(default)]
    pub event_payload: serde_json::Value,
}

/// A message, as it stands in a thread.
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    /// Its name within its channel.
    pub ts: Ts,
    /// The thread that it is in.
    #[serde(default, deserialize_with = "lenient")]
    pub thread_ts: Option<Ts>,
    /// Who wrote it.
    #[serde(default, deserialize_with = "lenient")]
    pub user: Option<UserId>,
    /// Which bot posted it.
    #[serde(default, deserialize_with = "lenient")]
    pub bot_id: Option<BotId>,
    /// Which app posted it.
    #[serde(default, deserialize_with = "lenient")]
    pub app_id: Option<AppId>,
    /// What its bot called itself.
    #[serde(default, deserialize_with = "lenient")]
    pub username: Option<String>,
    /// What kind of message it is, if not a plain one.
    #[serde(default, deserialize_with = "lenient")]
    pub subtype: Option<String>,
    /// What it says, in Slack's notation.
    #[serde(default, deserialize_with = "text")]
    pub text: String,
    /// The files that hang on it.
    #[serde(default, deserialize_with = "lenient_list")]
    pub files: Vec<File>,
    /// What its app wrote behind it.
    #[serde(default, deserialize_with = "lenient")]
    pub metadata: Option<Metadata>,
}

/// A page of a thread.
#[derive(Clone, Debug)]
pub struct Replies {
    /// Its messages, oldest first.
    pub messages: Vec<Message>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Which messages of a thread are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'a> {
    /// Where it is.
    pub channel: &'a ChannelId,
    /// Its first message.
    pub ts: &'a Ts,
    /// Only what is not older.
    pub oldest: Option<&'a Ts>,
    /// Only what is not newer.
    pub latest: Option<&'a Ts>,
    /// At most so many on a page.
    pub limit: u16,
    /// Where the page begins.
    pub cursor: Option<&'a str>,
}

impl Slack {
    /// What a place is.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `channel_not_found` if we do not see it.
    pub async fn conversations_info(
        &self,
        at: &Installation,
        channel: &ChannelId,
    ) -> Result<Conversation, SlackError> {
        #[derive(Deserialize)]
        struct Found {
            channel: Conversation,
        }
        let args = Args::new().with("channel", channel.as_str());
        let found: Found = self.call(at, Method::ConversationsInfo, &args).await?;
        Ok(found.channel)
    }

    /// Some of those who are in a place, and where the next of them begin.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn conversations_members(
        &self,
        at: &Installation,
        channel: &ChannelId,
        cursor: Option<&str>,
        limit: u16,
    ) -> Result<(Vec<UserId>, Option<String>), SlackError> {
        #[derive(Deserialize)]
        struct Found {
            #[serde(default, deserialize_with = "lenient_list")]
            members: Vec<UserId>,
            #[serde(default)]
            response_metadata: Option<PageMark>,
        }
        let args = Args::new()
            .with("channel", channel.as_str())
            .with("limit", limit.to_string())
            .maybe("cursor", cursor);
        let found: Found = self.call(at, Method::ConversationsMembers, &args).await?;
        let next = found.response_metadata.unwrap_or_default().next();
        Ok((found.members, next))
    }

    /// A page of a thread, with all metadata.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `thread_not_found` if there is none.
    pub async fn conversations_replies(
        &self,
        at: &Installation,
        thread: Thread<'_>,
    ) -> Result<Replies, SlackError> {
        #[derive(Deserialize)]
        struct Found {
            #[serde(default, deserialize_with = "lenient_list")]
            messages: Vec<Message>,
            #[serde(default)]
            response_metadata: Option<PageMark>,
        }
        let args = Args::new()
            .with("channel", thread.channel.as_str())
            .with("ts", thread.ts.as_str())
            .with("limit", thread.limit.to_string())
            .with("include_all_metadata", "true")
            .with("inclusive", "true")
            .maybe("oldest", thread.oldest.map(Ts::as_str))
            .maybe("latest", thread.latest.map(Ts::as_str))
            .maybe("cursor", thread.cursor);
        let found: Found = self.call(at, Method::ConversationsReplies, &args).await?;
        Ok(Replies {
            messages: found.messages,
            next: found.response_metadata.unwrap_or_default().next(),
        })
    }
}
