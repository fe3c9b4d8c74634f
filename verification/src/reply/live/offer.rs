//! The offer to stop an answer that takes long. A message that is changed has the button on itself; one
//! that grows cannot have it taken away again, so there the offer is made to who asked alone, once. It goes
//! when they press it, or load the page: Slack gives nobody another way to take it back.

use super::{Said, Shown, over};
use crate::reply::blocks;
use crate::slack::api::chat::Ephemeral;
use crate::texts::{Phrase, phrase};
use std::sync::atomic::Ordering;
use tokio::sync::watch;
use tokio::time::sleep;

impl Shown {
    pub(super) async fn offer_stop(&self, mut said: watch::Receiver<Said>) {
        if !self.desk.options.live {
            return;
        }
        let begun = said.wait_for(|said| said.begun || said.over).await;
        if begun.map_or(true, |said| said.over) {
            return;
        }
        tokio::select! {
            () = over(&mut said) => return,
            () = sleep(self.desk.options.offer_stop_after) => {}
        }
        if self.has_button.load(Ordering::Relaxed) {
            return;
        }
        let blocks = blocks::stop_offer(&self.place.question, self.language);
        // A thread that nobody has begun is not open on anybody's page.
        let open = self.in_thread || self.stands.load(Ordering::Relaxed);
        let offer = Ephemeral {
            channel: &self.place.channel,
            user: &self.user,
            thread: open.then_some(&self.place.thread),
            text: phrase(self.language, Phrase::StopHint),
            blocks: Some(&blocks),
        };
        let slack = self.desk.slack.hasty();
        if let Err(error) = slack.chat_post_ephemeral(&self.at, &offer).await {
            tracing::debug!(%error, "an answer could not be offered to be stopped");
        }
    }
}
