//! Methods on messages and threads: post, update and stream (`chat`), react (`reactions`), and show a status
//! (`assistant.threads`).

use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use crate::slack::tokens::Installation;
use serde::Deserialize;
use serde_json::Value;

/// Arguments of `chat.postMessage`.
#[derive(Clone, Copy, Debug)]
pub struct PostMessage<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The thread.
    pub thread: Option<&'a Ts>,
    /// Fallback text for clients that do not show blocks.
    pub text: &'a str,
    /// Blocks.
    pub blocks: Option<&'a Value>,
    /// Message metadata.
    pub metadata: Option<&'a Value>,
}

/// Arguments of `chat.update`.
#[derive(Clone, Copy, Debug)]
pub struct UpdateMessage<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The message.
    pub ts: &'a Ts,
    /// Fallback text for clients that do not show blocks.
    pub text: &'a str,
    /// Blocks; an empty list removes them.
    pub blocks: Option<&'a Value>,
    /// Message metadata.
    pub metadata: Option<&'a Value>,
}

/// Arguments of `chat.postEphemeral`: a message visible to one user until the page is reloaded.
#[derive(Clone, Copy, Debug)]
pub struct PostEphemeral<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The user who sees it.
    pub user: &'a UserId,
    /// The thread.
    pub thread: Option<&'a Ts>,
    /// Fallback text for clients that do not show blocks.
    pub text: &'a str,
    /// Blocks.
    pub blocks: Option<&'a Value>,
}

/// Arguments of `chat.startStream`.
#[derive(Clone, Copy, Debug)]
pub struct StartStream<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The thread; Slack supports streams only in threads.
    pub thread: &'a Ts,
    /// The recipient and their workspace, required outside direct messages.
    pub recipient: Option<(&'a UserId, &'a TeamId)>,
    /// First text, in Markdown.
    pub markdown: Option<&'a str>,
    /// Or the first chunks, as Slack's JSON list.
    pub chunks: Option<&'a Value>,
}

/// Arguments of `chat.appendStream`.
#[derive(Clone, Copy, Debug)]
pub struct AppendStream<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The message.
    pub ts: &'a Ts,
    /// Text to append, in Markdown.
    pub markdown: Option<&'a str>,
    /// Or the chunks to append, as Slack's JSON list.
    pub chunks: Option<&'a Value>,
}

/// Arguments of `chat.stopStream`.
#[derive(Clone, Copy, Debug)]
pub struct StopStream<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// The message.
    pub ts: &'a Ts,
    /// Last text, in Markdown.
    pub markdown: Option<&'a str>,
    /// Or the last chunks, as Slack's JSON list.
    pub chunks: Option<&'a Value>,
    /// Blocks below the text.
    pub blocks: Option<&'a Value>,
    /// Message metadata.
    pub metadata: Option<&'a Value>,
}

#[derive(Deserialize)]
struct PostResponse {
    ts: Ts,
}

impl Slack {
    /// Posts a message and returns its timestamp. Links are not unfurled, so that Slack does not fetch URLs named by
    /// an agent.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_post_message(
        &self,
        installation: &Installation,
        post: &PostMessage<'_>,
    ) -> Result<Ts, SlackError> {
        let args = SlackArgs::new()
            .arg("channel", post.channel.as_str())
            .optional_arg("thread_ts", post.thread.map(Ts::as_str))
            .arg("text", post.text)
            .json_arg("blocks", post.blocks)
            .json_arg("metadata", post.metadata)
            .arg("unfurl_links", "false")
            .arg("unfurl_media", "false");
        let posted: PostResponse = self
            .call(installation, SlackMethod::ChatPostMessage, &args)
            .await?;
        Ok(posted.ts)
    }

    /// Updates a message of this app.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_update(
        &self,
        installation: &Installation,
        update: &UpdateMessage<'_>,
    ) -> Result<(), SlackError> {
        let args = SlackArgs::new()
            .arg("channel", update.channel.as_str())
            .arg("ts", update.ts.as_str())
            .arg("text", update.text)
            .json_arg("blocks", update.blocks)
            .json_arg("metadata", update.metadata);
        self.call_raw(installation, SlackMethod::ChatUpdate, &args)
            .await
            .map(drop)
    }

    /// Posts an ephemeral message.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_post_ephemeral(
        &self,
        installation: &Installation,
        post: &PostEphemeral<'_>,
    ) -> Result<(), SlackError> {
        let args = SlackArgs::new()
            .arg("channel", post.channel.as_str())
            .arg("user", post.user.as_str())
            .optional_arg("thread_ts", post.thread.map(Ts::as_str))
            .arg("text", post.text)
            .json_arg("blocks", post.blocks);
        self.call_raw(installation, SlackMethod::ChatPostEphemeral, &args)
            .await
            .map(drop)
    }

    /// Starts a streaming message and returns its timestamp.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn chat_start_stream(
        &self,
        installation: &Installation,
        start: &StartStream<'_>,
    ) -> Result<Ts, SlackError> {
        let args = SlackArgs::new()
            .arg("channel", start.channel.as_str())
            .arg("thread_ts", start.thread.as_str())
            .optional_arg(
                "recipient_user_id",
                start.recipient.map(|(user, _)| user.as_str()),
            )
            .optional_arg(
                "recipient_team_id",
                start.recipient.map(|(_, team)| team.as_str()),
            )
            .optional_arg("markdown_text", start.markdown)
            .json_arg("chunks", start.chunks);
        let posted: PostResponse = self
            .call(installation, SlackMethod::ChatStartStream, &args)
            .await?;
        Ok(posted.ts)
    }

    /// Appends to a streaming message.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `message_not_in_streaming_state` if the stream has ended.
    pub async fn chat_append_stream(
        &self,
        installation: &Installation,
        append: &AppendStream<'_>,
    ) -> Result<(), SlackError> {
        let args = SlackArgs::new()
            .arg("channel", append.channel.as_str())
            .arg("ts", append.ts.as_str())
            .optional_arg("markdown_text", append.markdown)
            .json_arg("chunks", append.chunks);
        self.call_raw(installation, SlackMethod::ChatAppendStream, &args)
            .await
            .map(drop)
    }

    /// Ends a streaming message.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `message_not_in_streaming_state` if the stream has ended.
    pub async fn chat_stop_stream(
        &self,
        installation: &Installation,
        stop: &StopStream<'_>,
    ) -> Result<(), SlackError> {
        let args = SlackArgs::new()
            .arg("channel", stop.channel.as_str())
            .arg("ts", stop.ts.as_str())
            .optional_arg("markdown_text", stop.markdown)
            .json_arg("chunks", stop.chunks)
            .json_arg("blocks", stop.blocks)
            .json_arg("metadata", stop.metadata);
        self.call_raw(installation, SlackMethod::ChatStopStream, &args)
            .await
            .map(drop)
    }

    /// Sets the status of a thread; an empty one clears it. Slack clears it when a reply is posted.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn assistant_set_status(
        &self,
        installation: &Installation,
        channel: &ChannelId,
        thread: &Ts,
        status: &str,
    ) -> Result<(), SlackError> {
        let args = SlackArgs::new()
            .arg("channel_id", channel.as_str())
            .arg("thread_ts", thread.as_str())
            .arg("status", status);
        let method = SlackMethod::AssistantThreadsSetStatus;
        self.call_raw(installation, method, &args).await.map(drop)
    }

    /// Adds a reaction.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `already_reacted` if it exists.
    pub async fn reactions_add(
        &self,
        installation: &Installation,
        channel: &ChannelId,
        ts: &Ts,
        name: &str,
    ) -> Result<(), SlackError> {
        self.react(installation, SlackMethod::ReactionsAdd, channel, ts, name)
            .await
    }

    /// Removes a reaction of the bot.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `no_reaction` if it does not exist.
    pub async fn reactions_remove(
        &self,
        installation: &Installation,
        channel: &ChannelId,
        ts: &Ts,
        name: &str,
    ) -> Result<(), SlackError> {
        self.react(
            installation,
            SlackMethod::ReactionsRemove,
            channel,
            ts,
            name,
        )
        .await
    }

    async fn react(
        &self,
        installation: &Installation,
        method: SlackMethod,
        channel: &ChannelId,
        ts: &Ts,
        name: &str,
    ) -> Result<(), SlackError> {
        let args = SlackArgs::new()
            .arg("channel", channel.as_str())
            .arg("timestamp", ts.as_str())
            .arg("name", name);
        self.call_raw(installation, method, &args).await.map(drop)
    }
}
