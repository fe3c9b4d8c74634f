//! `reactions` methods.

use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{ChannelId, Ts};
use crate::slack::tokens::Installation;

impl Slack {
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
