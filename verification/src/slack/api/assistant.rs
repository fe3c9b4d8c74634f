//! Showing that an answer is on its way. What is shown is for the caller to say.

use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{ChannelId, Ts};
use crate::slack::tokens::Installation;

impl Slack {
    /// Shows a status under a thread; an empty one takes it away. Slack takes it away by itself when a
    /// reply comes.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn assistant_set_status(
        &self,
        at: &Installation,
        channel: &ChannelId,
        thread: &Ts,
        status: &str,
    ) -> Result<(), SlackError> {
        let args = Args::new()
            .with("channel_id", channel.as_str())
            .with("thread_ts", thread.as_str())
            .with("status", status);
        let method = Method::AssistantThreadsSetStatus;
        self.answer(at, method, &args).await.map(drop)
    }
}
