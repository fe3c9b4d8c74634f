//! The live reply: the "received" reaction, the agent's status, and the text while it is produced. All of it is
//! best effort; `finalize_live` guarantees the final message.
//!
//! It runs concurrently with the call to the Execution Zone. The first text is sent as soon as it is available;
//! updates that Slack rejects are included in a later one, or in the final message.

mod record;
mod streamer;

pub(super) use record::LiveReplyRecord;
pub(super) use streamer::UpdateInterval;

use super::actions::RECEIVED_REACTION;
use super::features::SlackFeature;
use super::markdown::escape_mentions;
use super::outbox_payload::{LiveReplyState, ReplyLocation};
use super::{ReplyService, blocks};
use crate::question::{ConversationKind, Question};
use crate::slack::api::chat::PostEphemeral;
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use crate::texts::{Language, UserPhrase, phrase_text};
use crate::unicode_hygiene::{is_invisible, strip_bidi_and_control};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Timeout of the "received" reaction.
const REACTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Delay before the first status, which would be pointless for a fast answer.
const STATUS_DELAY: Duration = Duration::from_millis(250);

/// Interval after which an unchanged status is sent again.
const STATUS_REFRESH_INTERVAL: Duration = Duration::from_secs(90);

/// Maximum length of a status, in characters.
const MAX_STATUS_CHARS: usize = 100;

/// Maximum time to wait for a call in flight when the reply finishes.
const FINISH_TIMEOUT: Duration = Duration::from_secs(15);

/// Progress of the agent so far.
#[derive(Debug, Default)]
struct LiveProgress {
    text: String,
    /// True if the text contains a visible character.
    has_visible_text: bool,
    status: Option<String>,
    task_started: bool,
    is_finished: bool,
}

impl LiveProgress {
    fn add(&mut self, more: &str) {
        self.has_visible_text |= !is_invisible(more);
        self.text.push_str(more);
    }

    /// Returns true if there is visible text or the reply is finished.
    fn has_text_or_is_finished(&self) -> bool {
        self.is_finished || self.has_visible_text
    }
}

/// Handle of a live reply. Dropping it leaves the posted message as it is.
#[derive(Debug)]
pub struct LiveReply {
    /// Declared first so that it is dropped first and no further call starts.
    _stop: DropGuard,
    progress: watch::Sender<LiveProgress>,
    worker: JoinHandle<LiveReplyState>,
}

impl LiveReply {
    pub(super) fn start(
        service: &ReplyService,
        question: &Question,
        installation: Arc<Installation>,
        language: Language,
        attempt: u32,
    ) -> Self {
        let stop = CancellationToken::new();
        let (progress, progress_rx) = watch::channel(LiveProgress::default());
        // Outside direct messages, Slack requires the recipient of a stream.
        let recipient = (question.conversation_kind != ConversationKind::Im)
            .then(|| (question.user.clone(), question.asker_team().clone()));
        let task = LiveReplyTask {
            service: service.clone(),
            installation,
            location: ReplyLocation::from_question(question),
            in_thread: question.in_thread,
            user: question.user.clone(),
            recipient,
            language,
            is_retry: attempt > 1,
            is_visible: AtomicBool::new(false),
            has_button: AtomicBool::new(false),
        };
        let task = tokio::spawn(task.run(progress_rx, stop.clone()));
        Self {
            _stop: stop.drop_guard(),
            progress,
            worker: task,
        }
    }

    /// Sets the agent's status.
    pub fn set_status(&self, status: &str) {
        // One line without bidirectional controls, and with mentions escaped.
        let line = strip_bidi_and_control(status);
        let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            let status: String = line.chars().take(MAX_STATUS_CHARS).collect();
            let short = escape_mentions(&status).into_owned();
            self.progress
                .send_modify(|progress| progress.status = Some(short));
        }
    }

    /// Appends text produced by the agent.
    pub fn push_text(&self, more: &str) {
        if !more.is_empty() {
            self.progress.send_modify(|progress| progress.add(more));
        }
    }

    /// Records that the task exists, so that it can be stopped.
    pub fn task_started(&self) {
        self.progress
            .send_modify(|progress| progress.task_started = true);
    }

    /// Finishes the live reply and returns its state in Slack.
    pub async fn finish(mut self) -> LiveReplyState {
        self.progress
            .send_modify(|progress| progress.is_finished = true);
        match timeout(FINISH_TIMEOUT, &mut self.worker).await {
            Ok(Ok(left)) => left,
            _ => LiveReplyState::unknown(),
        }
    }
}

/// Dependencies and state of the task that updates Slack.
struct LiveReplyTask {
    service: ReplyService,
    installation: Arc<Installation>,
    location: ReplyLocation,
    in_thread: bool,
    user: UserId,
    recipient: Option<(UserId, TeamId)>,
    language: Language,
    is_retry: bool,
    /// True once a part of the reply is visible in Slack.
    is_visible: AtomicBool,
    /// True if the message has a stop button.
    has_button: AtomicBool,
}

impl LiveReplyTask {
    async fn run(
        self,
        progress: watch::Receiver<LiveProgress>,
        stop: CancellationToken,
    ) -> LiveReplyState {
        tokio::select! {
            biased;
            () = stop.cancelled() => LiveReplyState::unknown(),
            left = self.show_progress(progress) => left,
        }
    }

    async fn show_progress(&self, mut progress: watch::Receiver<LiveProgress>) -> LiveReplyState {
        let (store, question) = (&*self.service.store, &self.location.question);
        if self.is_retry && !matches!(LiveReplyRecord::load(store, question).await, Ok(None)) {
            // The message of an earlier attempt may be final already, so it is left alone until the reply finishes.
            wait_for_finish(&mut progress).await;
            return LiveReplyState::unknown();
        }
        let write_text = self.write_text(progress.clone());
        let side_updates = async {
            tokio::join!(
                self.add_received_reaction(),
                self.update_status(progress.clone()),
                self.offer_stop_button(progress.clone()),
            );
        };
        tokio::pin!(write_text, side_updates);
        let mut side_updates_done = false;
        let state = loop {
            tokio::select! {
                state = &mut write_text => break state,
                () = &mut side_updates, if !side_updates_done => side_updates_done = true,
            }
        };
        if !side_updates_done {
            // A pending "received" reaction must not arrive after the final one.
            let _ = timeout(REACTION_TIMEOUT, side_updates).await;
        }
        state
    }

    /// Adds the "received" reaction.
    async fn add_received_reaction(&self) {
        let location = &self.location;
        let slack = self.service.slack.fail_fast();
        let add = slack.reactions_add(
            &self.installation,
            &location.channel,
            &location.question_ts,
            RECEIVED_REACTION,
        );
        if let Ok(Err(error)) = timeout(REACTION_TIMEOUT, add).await {
            tracing::debug!(%error, "could not add received reaction");
        }
    }

    /// Shows the agent's status until there is text.
    async fn update_status(&self, mut progress: watch::Receiver<LiveProgress>) {
        let features = &self.service.features;
        if !self.service.options.live
            || !features.is_available(&self.location.team, SlackFeature::Status)
        {
            return;
        }
        tokio::select! {
            () = sleep(STATUS_DELAY) => {}
            () = wait_for_text(&mut progress) => return,
        }
        loop {
            let status = progress.borrow_and_update().status.clone();
            let status = status
                .unwrap_or_else(|| phrase_text(self.language, UserPhrase::Thinking).to_owned());
            let slack = self.service.slack.fail_fast();
            let (channel, thread) = (&self.location.channel, &self.location.thread);
            let set = slack.assistant_set_status(&self.installation, channel, thread, &status);
            if let Err(error) = set.await {
                features.record_refusal(&self.location.team, SlackFeature::Status, &error);
                if error.retry_after().is_none() {
                    return;
                }
            }
            tokio::select! {
                () = wait_for_text(&mut progress) => return,
                () = sleep(self.service.update_interval.small) => {}
            }
            let status_changed = progress.wait_for(|progress| {
                let other = progress
                    .status
                    .as_ref()
                    .is_some_and(|other| *other != status);
                progress.has_text_or_is_finished() || other
            });
            // Slack clears the status by itself after two minutes.
            if let Ok(changed) = timeout(STATUS_REFRESH_INTERVAL, status_changed).await
                && changed.map_or(true, |progress| progress.has_text_or_is_finished())
            {
                return;
            }
        }
    }

    /// Offers a stop button for a slow answer. An edited message carries the button itself. Blocks cannot be removed from
    /// a streaming message, so there the button is sent once, as an ephemeral message to the asker. It disappears when it
    /// is pressed or the page is reloaded: Slack has no API to delete ephemeral messages.
    async fn offer_stop_button(&self, mut progress: watch::Receiver<LiveProgress>) {
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

/// Waits until there is visible text or the reply is finished.
async fn wait_for_text(progress: &mut watch::Receiver<LiveProgress>) {
    let _ = progress
        .wait_for(LiveProgress::has_text_or_is_finished)
        .await;
}

/// Waits until the reply is finished.
async fn wait_for_finish(progress: &mut watch::Receiver<LiveProgress>) {
    let _ = progress.wait_for(|progress| progress.is_finished).await;
}

#[cfg(test)]
mod tests;
