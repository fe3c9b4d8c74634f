//! Stop button for slow answers. An edited message carries the button itself. Blocks cannot be removed from a
//! streaming message, so there the button is sent once, as an ephemeral message to the asker. It disappears when
//! it is pressed or the page is reloaded: Slack has no API to delete ephemeral messages.

use super::{LiveProgress, LiveReplyTask, wait_for_finish};
use crate::reply::blocks;
use crate::slack::api::chat::PostEphemeral;
use crate::texts::{UserPhrase, phrase_text};
use std::sync::atomic::Ordering;
use tokio::sync::watch;
use tokio::time::sleep;

impl LiveReplyTask {
    pub(super) async fn offer_stop_button(&self, mut progress: watch::Receiver<LiveProgress>) {
        if !self.service.options.live {
            return;
        }
        let started = progress
            .wait_for(|progress| progress.task_started || progress.is_finished)
            .await;
        if started.map_or(true, |progress| progress.is_finished) {
            return;
        }
        tokio::select! {
            () = wait_for_finish(&mut progress) => return,
            () = sleep(self.service.options.stop_button_delay) => {}
        }
        if self.has_button.load(Ordering::Relaxed) {
            return;
        }
        let blocks = blocks::stop_offer_blocks(&self.location.question, self.language);
        // A thread without replies is not open in the client.
        let use_thread = self.in_thread || self.is_visible.load(Ordering::Relaxed);
        let offer = PostEphemeral {
            channel: &self.location.channel,
            user: &self.user,
            thread: use_thread.then_some(&self.location.thread),
            text: phrase_text(self.language, UserPhrase::StopHint),
            blocks: Some(&blocks),
        };
        let slack = self.service.slack.fail_fast();
        if let Err(error) = slack.chat_post_ephemeral(&self.installation, &offer).await {
            tracing::debug!(%error, "could not offer stop button");
        }
    }
}
