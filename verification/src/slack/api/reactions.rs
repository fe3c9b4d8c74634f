//! Reactions to messages. Which of them mean what is not known here.

use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{ChannelId, Ts};
use crate::slack::tokens::Installation;

impl Slack {
    /// Adds a reaction.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `already_reacted` if it is there.
    pub async fn reactions_add(
        &self,
        at: &Installation,
        channel: &ChannelId,
        ts: &Ts,
        name: &str,
    ) -> Result<(), SlackError> {
        self.react(at, Method::ReactionsAdd, channel, ts, name)
            .await
    }

    /// Takes a reaction of ours away.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `no_reaction` if it is not there.
    pub async fn reactions_remove(
        &self,
        at: &Installation,
        channel: &ChannelId,
        ts: &Ts,
        name: &str,
    ) -> Result<(), SlackError> {
        self.react(at, Method::ReactionsRemove, channel, ts, name)
            .await
    }

    async fn react(
        &self,
        at: &Installation,
        method: Method,
        channel: &ChannelId,
        ts: &Ts,
        name: &str,
    ) -> Result<(), SlackError> {
        let args = Args::new()
            .with("channel", channel.as_str())
            .with("timestamp", ts.as_str())
            .with("name", name);
        self.answer(at, method, &args).await.map(drop)
    }
}
