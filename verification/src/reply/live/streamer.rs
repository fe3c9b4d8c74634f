//! Posts the answer's text while it grows: as a stream, or as an edited message where streams are not available.

use super::{LiveProgress, LiveReplyRecord, LiveReplyTask, wait_for_finish, wait_for_text};
use crate::reply::features::SlackFeature;
use crate::reply::markdown::{escape_mentions, mrkdwn, safe_prefix};
use crate::reply::outbox_payload::{LiveReplyState, PostedAs};
use crate::reply::plan::MAX_MESSAGE_CHARS;
use crate::reply::split::{prefix_within, utf16_len};
use crate::reply::thread_scan::PostedMessages;
use crate::reply::{blocks, post_message};
use crate::slack::api::SlackError;
use crate::slack::api::chat::{AppendStream, PostMessage, StartStream, UpdateMessage};
use crate::slack::ids::Ts;
use crate::unicode_hygiene::is_invisible;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Number of pending characters above which the shorter update interval applies.
const LARGE_UPDATE_CHARS: usize = 256;

/// Minimum time between two updates.
#[derive(Clone, Copy, Debug)]
pub(in crate::reply) struct UpdateInterval {
    /// For large updates.
    pub(in crate::reply) large: Duration,
    /// For small updates, and for edits of a message.
    pub(in crate::reply) small: Duration,
}

/// Slack accepts about 100 appends and about 50 edits per minute.
impl Default for UpdateInterval {
    fn default() -> Self {
        Self {
            large: Duration::from_millis(500),
            small: Duration::from_secs(1),
        }
    }
}

/// Next step after the first message failed.
enum AfterStartFailure {
    /// Retry after this delay.
    RetryAfter(Duration),
    /// Post and edit a message instead of streaming.
    WithoutStream,
    /// Stop the live reply in this state.
    GiveUp(PostedAs),
}

impl LiveReplyTask {
    /// Shows the text until the reply is finished, and returns its state.
    pub(super) async fn write_text(
        &self,
        mut progress: watch::Receiver<LiveProgress>,
    ) -> LiveReplyState {
        let mut state = LiveReplyState::not_posted();
        if !self.service.options.live {
            wait_for_finish(&mut progress).await;
            return state;
        }
        // No text arrives before there is a task, so the record is written while the agent works.
        let started = progress
            .wait_for(|progress| progress.task_started || progress.has_text_or_is_finished())
            .await;
        // A reply that ends without text posts nothing.
        if started.map_or(true, |progress| progress.is_finished) {
            return state;
        }
        let put_started =
            LiveReplyRecord::put_started(&*self.service.store, &self.location.question);
        if let Err(error) = put_started.await {
            tracing::warn!(%error, "live reply disabled: store write failed");
            wait_for_finish(&mut progress).await;
            return state;
        }
        let team = &self.location.team;
        let mut use_stream = self
            .service
            .features
            .is_available(team, SlackFeature::Stream);
        loop {
            wait_for_text(&mut progress).await;
            if progress.borrow().is_finished {
                return state;
            }
            let text = presentable_text(&progress);
            if is_invisible(&text) {
                // The whole text may be an unfinished mention.
                if progress.changed().await.is_err() {
                    return state;
                }
                continue;
            }
            let started = if use_stream {
                self.start_stream(&text).await
            } else {
                self.post_first_message(&text).await
            };
            let next = match started {
                Ok(ts) => {
                    self.is_visible.store(true, Ordering::Relaxed);
                    state.accepted_text = text;
                    self.record_message(&ts, use_stream).await;
                    return if use_stream {
                        self.append_until_finished(progress, ts, state).await
                    } else {
                        self.edit_until_finished(progress, ts, state).await
                    };
                }
                Err(error) => self.after_start_failure(&error, use_stream),
            };
            match next {
                AfterStartFailure::WithoutStream => use_stream = false,
                AfterStartFailure::RetryAfter(wait) => {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = wait_for_finish(&mut progress) => return state,
                    }
                }
                AfterStartFailure::GiveUp(standing) => {
                    state.posted_as = standing;
                    wait_for_finish(&mut progress).await;
                    return state;
                }
            }
        }
    }

    async fn record_message(&self, ts: &Ts, is_stream: bool) {
        let (store, location) = (&*self.service.store, &self.location);
        let put = LiveReplyRecord::put_message(
            store,
            &location.question,
            &location.channel,
            ts,
            is_stream,
        );
        if let Err(error) = put.await {
            // The message is searched for in the thread if it is needed.
            tracing::warn!(%error, "could not record live reply message");
        }
    }

    fn after_start_failure(&self, error: &SlackError, used_stream: bool) -> AfterStartFailure {
        if let Some(wait) = error.retry_after() {
            return AfterStartFailure::RetryAfter(wait);
        }
        if error.is_ambiguous() {
            return AfterStartFailure::GiveUp(PostedAs::Unknown);
        }
        let (features, team) = (&self.service.features, &self.location.team);
        if used_stream && features.record_refusal(team, SlackFeature::Stream, error) {
            tracing::info!(%error, "streaming unavailable, editing messages instead");
            return AfterStartFailure::WithoutStream;
        }
        tracing::debug!(%error, "could not start live reply");
        AfterStartFailure::GiveUp(PostedAs::NotPosted)
    }

    async fn start_stream(&self, text: &str) -> Result<Ts, SlackError> {
        let start = StartStream {
            channel: &self.location.channel,
            thread: &self.location.thread,
            recipient: self.recipient.as_ref().map(|(user, team)| (user, team)),
            markdown: Some(text),
            chunks: None,
        };
        let slack = self.service.slack.fail_fast();
        slack.chat_start_stream(&self.installation, &start).await
    }

    async fn post_first_message(&self, text: &str) -> Result<Ts, SlackError> {
        let location = &self.location;
        let mrkdwn_text = mrkdwn(text);
        let blocks = blocks::in_progress_blocks(text, &location.question, self.language);
        let metadata = blocks::key_metadata(&location.text_key(0));
        let post = PostMessage {
            channel: &location.channel,
            thread: Some(&location.thread),
            text: &mrkdwn_text,
            blocks: Some(&blocks),
            metadata: Some(&metadata),
        };
        let slack = self.service.slack.fail_fast();
        match slack.chat_post_message(&self.installation, &post).await {
            Err(error) if post_message::is_block_error(&error) => {
                let without_blocks = PostMessage {
                    blocks: None,
                    ..post
                };
                slack
                    .chat_post_message(&self.installation, &without_blocks)
                    .await
            }
            posted => {
                let has_button = posted.is_ok();
                self.has_button.store(has_button, Ordering::Relaxed);
                posted
            }
        }
    }

    /// Appends to a stream until the reply is finished.
    async fn append_until_finished(
        &self,
        mut progress: watch::Receiver<LiveProgress>,
        ts: Ts,
        mut state: LiveReplyState,
    ) -> LiveReplyState {
        let mut is_exact = true;
        let mut last_update = Instant::now();
        while is_exact && utf16_len(&state.accepted_text) < MAX_MESSAGE_CHARS {
            if !wait_for_update(
                &mut progress,
                state.accepted_text.len(),
                last_update,
                self.service.update_interval,
            )
            .await
            {
                break;
            }
            let text = presentable_text(&progress);
            let append = AppendStream {
                channel: &self.location.channel,
                ts: &ts,
                markdown: text.get(state.accepted_text.len()..),
                chunks: None,
            };
            let slack = self.service.slack.fail_fast();
            match slack.chat_append_stream(&self.installation, &append).await {
                Ok(()) => state.accepted_text = text,
                Err(error) if error.is_code("message_not_in_streaming_state") => {
                    let posted =
                        PostedMessages::load(&self.service, &self.installation, &self.location)
                            .await;
                    match posted.map(|posted| posted.belongs_to_other(&ts, &self.location)) {
                        // Slack ends streams after a while; the message can still be edited.
                        Ok(false) => {
                            self.has_button.store(true, Ordering::Relaxed);
                            return self.edit_until_finished(progress, ts, state).await;
                        }
                        // Another answer in the thread claimed the stream; it belongs to that one now.
                        Ok(true) => {
                            wait_for_finish(&mut progress).await;
                            return state;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "live reply stopped early");
                            is_exact = false;
                            break;
                        }
                    }
                }
                Err(error) => {
                    if !wait_if_rate_limited(&error, &mut progress).await {
                        is_exact = !error.is_ambiguous();
                        break;
                    }
                }
            }
            last_update = Instant::now();
        }
        wait_for_finish(&mut progress).await;
        state.posted_as = PostedAs::Stream { ts, is_exact };
        state
    }

    /// Edits a message until the reply is finished.
    async fn edit_until_finished(
        &self,
        mut progress: watch::Receiver<LiveProgress>,
        ts: Ts,
        mut state: LiveReplyState,
    ) -> LiveReplyState {
        let mut last_update = Instant::now();
        let interval = UpdateInterval {
            large: self.service.update_interval.small,
            ..self.service.update_interval
        };
        // A message that started as a stream has no key, and without one another answer may claim it.
        let metadata = blocks::key_metadata(&self.location.text_key(0));
        while utf16_len(&state.accepted_text) < MAX_MESSAGE_CHARS {
            if !wait_for_update(
                &mut progress,
                state.accepted_text.len(),
                last_update,
                interval,
            )
            .await
            {
                break;
            }
            let text = presentable_text(&progress);
            let mrkdwn_text = mrkdwn(&text);
            let blocks = blocks::in_progress_blocks(&text, &self.location.question, self.language);
            let has_button = self.has_button.load(Ordering::Relaxed);
            let update = UpdateMessage {
                channel: &self.location.channel,
                ts: &ts,
                text: &mrkdwn_text,
                blocks: has_button.then_some(&blocks),
                metadata: Some(&metadata),
            };
            let slack = self.service.slack.fail_fast();
            match slack.chat_update(&self.installation, &update).await {
                Ok(()) => state.accepted_text = text,
                Err(error) => {
                    if !wait_if_rate_limited(&error, &mut progress).await {
                        break;
                    }
                }
            }
            last_update = Instant::now();
        }
        wait_for_finish(&mut progress).await;
        state.posted_as = PostedAs::Post { ts };
        state
    }
}

/// Returns the text that can be shown so far, limited to the size of a message.
fn presentable_text(progress: &watch::Receiver<LiveProgress>) -> String {
    let progress = progress.borrow();
    // Escaping only lengthens the text, so the remainder need not be scanned on every update.
    let text = escape_mentions(safe_prefix(prefix_within(
        &progress.text,
        MAX_MESSAGE_CHARS,
    )));
    prefix_within(&text, MAX_MESSAGE_CHARS).to_owned()
}

/// Waits until the next update is due. Returns false if the reply is finished.
async fn wait_for_update(
    progress: &mut watch::Receiver<LiveProgress>,
    sent_bytes: usize,
    last_update: Instant,
    interval: UpdateInterval,
) -> bool {
    loop {
        if progress.borrow_and_update().is_finished {
            return false;
        }
        let text = presentable_text(progress);
        let pending_chars = text.get(sent_bytes..).map_or(0, utf16_len);
        let due = match pending_chars {
            0 => None,
            1..LARGE_UPDATE_CHARS => Some(last_update + interval.small),
            _ => Some(last_update + interval.large),
        };
        match due {
            Some(due) if due <= Instant::now() => return true,
            Some(due) => tokio::select! {
                changed = progress.changed() => if changed.is_err() { return false },
                () = sleep_until(due) => {}
            },
            None => {
                if progress.changed().await.is_err() {
                    return false;
                }
            }
        }
    }
}

/// Waits for the rate limit's delay and returns true, or returns false for other errors. The next update includes
/// the text that was not sent.
async fn wait_if_rate_limited(
    error: &SlackError,
    progress: &mut watch::Receiver<LiveProgress>,
) -> bool {
    let Some(wait) = error.retry_after() else {
        tracing::debug!(%error, "live reply stopped early");
        return false;
    };
    tokio::select! {
        () = sleep(wait) => {}
        () = wait_for_finish(progress) => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: UpdateInterval = UpdateInterval {
        large: Duration::from_millis(500),
        small: Duration::from_secs(1),
    };

    async fn measure_wait(text: &str, since: Duration) -> Duration {
        let (progress_tx, mut progress_rx) = watch::channel(LiveProgress::default());
        progress_tx.send_modify(|now| now.add(text));
        let now = Instant::now();
        let last = now.checked_sub(since).unwrap();
        assert!(wait_for_update(&mut progress_rx, 0, last, INTERVAL).await);
        now.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn small_update_waits_1s_and_large_update_500ms() {
        tokio::time::advance(Duration::from_secs(60)).await;
        let large = "x".repeat(LARGE_UPDATE_CHARS);
        assert_eq!(measure_wait("little", Duration::ZERO).await, INTERVAL.small);
        assert_eq!(measure_wait(&large, Duration::ZERO).await, INTERVAL.large);
        assert_eq!(measure_wait("little", INTERVAL.small).await, Duration::ZERO);
        assert_eq!(measure_wait(&large, INTERVAL.large).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn growing_update_is_sent_early_and_finish_ends_wait() {
        let (progress_tx, mut progress_rx) = watch::channel(LiveProgress::default());
        progress_tx.send_modify(|now| now.add("x"));
        let started = Instant::now();
        let more = async {
            tokio::time::advance(Duration::from_millis(600)).await;
            progress_tx.send_modify(|now| now.add(&"x".repeat(LARGE_UPDATE_CHARS)));
        };
        let (due, ()) = tokio::join!(
            wait_for_update(&mut progress_rx, 0, started, INTERVAL),
            more
        );
        assert!(due);
        assert_eq!(started.elapsed(), Duration::from_millis(600));

        progress_tx.send_modify(|now| now.is_finished = true);
        assert!(!wait_for_update(&mut progress_rx, 0, Instant::now(), INTERVAL).await);
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_mention_is_not_sent() {
        let (progress_tx, mut progress_rx) = watch::channel(LiveProgress::default());
        progress_tx.send_modify(|now| now.add("<!"));
        let wait = wait_for_update(&mut progress_rx, 0, Instant::now(), INTERVAL);
        let wait = tokio::time::timeout(Duration::from_secs(10), wait);
        assert!(wait.await.is_err());
    }
}
