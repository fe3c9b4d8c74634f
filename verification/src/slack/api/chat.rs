//! Posting, changing and streaming messages. What they say, and how it is cut to Slack's sizes, is not
//! decided here.

use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use crate::slack::tokens::Installation;
use serde::Deserialize;
use serde_json::Value;

/// A message to post.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// Where.
    pub channel: &'a ChannelId,
    /// In which thread.
    pub thread: Option<&'a Ts>,
    /// What it says where blocks are not shown.
    pub text: &'a str,
    /// What it shows.
    pub blocks: Option<&'a Value>,
    /// What we write behind it.
    pub metadata: Option<&'a Value>,
}

/// Another content for a message of ours.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Where it is.
    pub channel: &'a ChannelId,
    /// Which.
    pub ts: &'a Ts,
    /// What it says where blocks are not shown.
    pub text: &'a str,
    /// What it shows; an empty list takes blocks away.
    pub blocks: Option<&'a Value>,
    /// What we write behind it.
    pub metadata: Option<&'a Value>,
}

/// A message that only one person sees, until they load the page again.
#[derive(Clone, Copy, Debug)]
pub struct Ephemeral<'a> {
    /// Where.
    pub channel: &'a ChannelId,
    /// Who sees it.
    pub user: &'a UserId,
    /// In which thread.
    pub thread: Option<&'a Ts>,
    /// What it says where blocks are not shown.
    pub text: &'a str,
    /// What it shows.
    pub blocks: Option<&'a Value>,
}

/// The beginning of a message that grows.
#[derive(Clone, Copy, Debug)]
pub struct StartStream<'a> {
    /// Where.
    pub channel: &'a ChannelId,
    /// In which thread; Slack streams nowhere else.
    pub thread: &'a Ts,
    /// For whom, with their workspace: Slack asks for it outside direct messages.
    pub recipient: Option<(&'a UserId, &'a TeamId)>,
    /// Its first text, in Markdown.
    pub markdown: Option<&'a str>,
    /// Or its first pieces, as Slack's list of chunks.
    pub chunks: Option<&'a Value>,
}

/// More of a message that grows.
#[derive(Clone, Copy, Debug)]
pub struct AppendStream<'a> {
    /// Where it is.
    pub channel: &'a ChannelId,
    /// Which.
    pub ts: &'a Ts,
    /// The text to add, in Markdown.
    pub markdown: Option<&'a str>,
    /// Or the pieces to add, as Slack's list of chunks.
    pub chunks: Option<&'a Value>,
}

/// The end of a message that grows.
#[derive(Clone, Copy, Debug)]
pub struct StopStream<'a> {
    /// Where it is.
    pub channel: &'a ChannelId,
    /// Which.
    pub ts: &'a Ts,
    /// The last text, in Markdown.
    pub markdown: Option<&'a str>,
    /// Or the last pieces, as Slack's list of chunks.
    pub chunks: Option<&'a Value>,
    /// What stands under it.
    pub blocks: Option<&'a Value>,
    /// What we write behind it.
    pub metadata: Option<&'a Value>,
}

#[derive(Deserialize)]
struct Posted {
    ts: Ts,
}

impl Slack {
    /// Posts a message and gives its name. Links in it are not unfolded: nobody but the reader fetches
    /// what an agent names.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_post_message(
        &self,
        at: &Installation,
        post: &Post<'_>,
    ) -> Result<Ts, SlackError> {
        let args = Args::new()
            .with("channel", post.channel.as_str())
            .maybe("thread_ts", post.thread.map(Ts::as_str))
            .with("text", post.text)
            .json("blocks", post.blocks)
            .json("metadata", post.metadata)
            .with("unfurl_links", "false")
            .with("unfurl_media", "false");
        let posted: Posted = self.call(at, Method::ChatPostMessage, &args).await?;
        Ok(posted.ts)
    }

    /// Changes a message of ours.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_update(
        &self,
        at: &Installation,
        update: &Update<'_>,
    ) -> Result<(), SlackError> {
        let args = Args::new()
            .with("channel", update.channel.as_str())
            .with("ts", update.ts.as_str())
            .with("text", update.text)
            .json("blocks", update.blocks)
            .json("metadata", update.metadata);
        self.answer(at, Method::ChatUpdate, &args).await.map(drop)
    }

    /// Tells one person something.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_post_ephemeral(
        &self,
        at: &Installation,
        post: &Ephemeral<'_>,
    ) -> Result<(), SlackError> {
        let args = Args::new()
            .with("channel", post.channel.as_str())
            .with("user", post.user.as_str())
            .maybe("thread_ts", post.thread.map(Ts::as_str))
            .with("text", post.text)
            .json("blocks", post.blocks);
        self.answer(at, Method::ChatPostEphemeral, &args)
            .await
            .map(drop)
    }

    /// Begins a message that grows, and gives its name.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_start_stream(
        &self,
        at: &Installation,
        start: &StartStream<'_>,
    ) -> Result<Ts, SlackError> {
        let args = Args::new()
            .with("channel", start.channel.as_str())
            .with("thread_ts", start.thread.as_str())
            .maybe(
                "recipient_user_id",
                start.recipient.map(|(user, _)| user.as_str()),
            )
            .maybe(
                "recipient_team_id",
                start.recipient.map(|(_, team)| team.as_str()),
            )
            .maybe("markdown_text", start.markdown)
            .json("chunks", start.chunks);
        let posted: Posted = self.call(at, Method::ChatStartStream, &args).await?;
        Ok(posted.ts)
    }

    /// Adds to a message that grows.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `message_not_in_streaming_state` if it grows no more.
    pub async fn chat_append_stream(
        &self,
        at: &Installation,
        more: &AppendStream<'_>,
    ) -> Result<(), SlackError> {
        let args = Args::new()
            .with("channel", more.channel.as_str())
            .with("ts", more.ts.as_str())
            .maybe("markdown_text", more.markdown)
            .json("chunks", more.chunks);
        self.answer(at, Method::ChatAppendStream, &args)
            .await
            .map(drop)
    }

    /// Ends a message that grows.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `message_not_in_streaming_state` if it grows no more.
    pub async fn chat_stop_stream(
        &self,
        at: &Installation,
        stop: &StopStream<'_>,
    ) -> Result<(), SlackError> {
        let args = Args::new()
            .with("channel", stop.channel.as_str())
            .with("ts", stop.ts.as_str())
            .maybe("markdown_text", stop.markdown)
            .json("chunks", stop.chunks)
            .json("blocks", stop.blocks)
            .json("metadata", stop.metadata);
        self.answer(at, Method::ChatStopStream, &args)
            .await
            .map(drop)
    }
}
