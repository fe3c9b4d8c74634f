//! `assistant.threads` methods.

use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{ChannelId, Ts};
use crate::slack::tokens::Installation;

impl Slack {
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
}
