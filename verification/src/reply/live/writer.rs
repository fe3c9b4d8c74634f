//! The words of an answer as they grow: as a stream, or where there is none as a message that is changed.

use super::{Begun, Said, Shown, over, readable};
use crate::reply::effect::{Left, Standing};
use crate::reply::features::Feature;
use crate::reply::markdown::{defuse, mrkdwn, settled};
use crate::reply::plan::LONGEST;
use crate::reply::split::{head, length};
use crate::reply::thread::Stands;
use crate::reply::{blocks, post};
use crate::signs::is_blank;
use crate::slack::api::SlackError;
use crate::slack::api::chat::{AppendStream, Post, StartStream, Update};
use crate::slack::ids::Ts;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// So many characters are sent at once, or as many as came within a second.
const PLENTY: usize = 256;

/// How often something may be added.
#[derive(Clone, Copy, Debug)]
pub(in crate::reply) struct Beat {
    /// When there is plenty.
    pub(in crate::reply) plenty: Duration,
    /// When there is little, and when a message is changed.
    pub(in crate::reply) little: Duration,
}

/// Slack takes about a hundred additions a minute, and about fifty changes.
impl Default for Beat {
    fn default() -> Self {
        Self {
            plenty: Duration::from_millis(500),
            little: Duration::from_secs(1),
        }
    }
}

/// What to do after a beginning that did not work.
enum Next {
    /// Try again then.
    After(Duration),
    /// Without streams.
    Plain,
    /// Leave it.
    Leave(Standing),
}

impl Shown {
    /// Shows the words until it is over, and tells what stands there.
    pub(super) async fn write(&self, mut said: watch::Receiver<Said>) -> Left {
        let mut left = Left::nothing();
        if !self.desk.options.live {
            over(&mut said).await;
            return left;
        }
        // Nothing is said before there is a task, so this is written while the agent thinks.
        let begun = said.wait_for(|said| said.begun || said.is_readable()).await;
        // Whoever has gone without a word begins nothing.
        if begun.map_or(true, |said| said.over) {
            return left;
        }
        let begin = Begun::begin(&*self.desk.shelf, &self.place.question);
        if let Err(error) = begin.await {
            tracing::warn!(%error, "a reply is not shown while it comes");
            over(&mut said).await;
            return left;
        }
        let team = &self.place.team;
        let mut streams = self.desk.features.has(team, Feature::Stream);
        loop {
            readable(&mut said).await;
            if said.borrow().over {
                return left;
            }
            let text = ready(&said);
            if is_blank(&text) {
                // All of it may become a call of somebody.
                if said.changed().await.is_err() {
                    return left;
                }
                continue;
            }
            let begun = if streams {
                self.start_stream(&text).await
            } else {
                self.first_post(&text).await
            };
            let next = match begun {
                Ok(ts) => {
                    self.stands.store(true, Ordering::Relaxed);
                    left.said = text;
                    self.know(&ts, streams).await;
                    return if streams {
                        self.grow(said, ts, left).await
                    } else {
                        self.change(said, ts, left).await
                    };
                }
                Err(error) => self.after(&error, streams),
            };
            match next {
                Next::Plain => streams = false,
                Next::After(wait) => {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = over(&mut said) => return left,
                    }
                }
                Next::Leave(standing) => {
                    left.standing = standing;
                    over(&mut said).await;
                    return left;
                }
            }
        }
    }

    async fn know(&self, ts: &Ts, streams: bool) {
        let (shelf, place) = (&*self.desk.shelf, &self.place);
        let known = Begun::know(shelf, &place.question, &place.channel, ts, streams);
        if let Err(error) = known.await {
            // It is looked for if it must be known.
            tracing::warn!(%error, "which message a reply is could not be kept");
        }
    }

    fn after(&self, error: &SlackError, streams: bool) -> Next {
        if let Some(wait) = error.retry_after() {
            return Next::After(wait);
        }
        if error.may_have_happened() {
            return Next::Leave(Standing::Unknown);
        }
        let (features, team) = (&self.desk.features, &self.place.team);
        if streams && features.refused(team, Feature::Stream, error) {
            tracing::info!(%error, "no streams for a workspace: answers are posted and changed");
            return Next::Plain;
        }
        tracing::debug!(%error, "a reply is not shown while it comes");
        Next::Leave(Standing::Nothing)
    }

    async fn start_stream(&self, text: &str) -> Result<Ts, SlackError> {
        let start = StartStream {
            channel: &self.place.channel,
            thread: &self.place.thread,
            recipient: self.recipient.as_ref().map(|(user, team)| (user, team)),
            markdown: Some(text),
            chunks: None,
        };
        let slack = self.desk.slack.hasty();
        slack.chat_start_stream(&self.at, &start).await
    }

    async fn first_post(&self, text: &str) -> Result<Ts, SlackError> {
        let place = &self.place;
        let own = mrkdwn(text);
        let blocks = blocks::growing(text, &place.question, self.language);
        let metadata = blocks::metadata(&place.text_key(0));
        let post = Post {
            channel: &place.channel,
            thread: Some(&place.thread),
            text: &own,
            blocks: Some(&blocks),
            metadata: Some(&metadata),
        };
        let slack = self.desk.slack.hasty();
        match slack.chat_post_message(&self.at, &post).await {
            Err(error) if post::is_about_blocks(&error) => {
                let bare = Post {
                    blocks: None,
                    ..post
                };
                slack.chat_post_message(&self.at, &bare).await
            }
            posted => {
                let has_button = posted.is_ok();
                self.has_button.store(has_button, Ordering::Relaxed);
                posted
            }
        }
    }

    /// Adds to a stream.
    async fn grow(&self, mut said: watch::Receiver<Said>, ts: Ts, mut left: Left) -> Left {
        let mut sure = true;
        let mut last = Instant::now();
        while sure && length(&left.said) < LONGEST {
            if !enough(&mut said, left.said.len(), last, self.desk.beat).await {
                break;
            }
            let text = ready(&said);
            let more = AppendStream {
                channel: &self.place.channel,
                ts: &ts,
                markdown: text.get(left.said.len()..),
                chunks: None,
            };
            let slack = self.desk.slack.hasty();
            match slack.chat_append_stream(&self.at, &more).await {
                Ok(()) => left.said = text,
                Err(error) if error.is("message_not_in_streaming_state") => {
                    let stands = Stands::read(&self.desk, &self.at, &self.place).await;
                    match stands.map(|stands| stands.is_anothers(&ts, &self.place)) {
                        // Slack ends streams by itself after a while; the message can still be changed.
                        Ok(false) => {
                            self.has_button.store(true, Ordering::Relaxed);
                            return self.change(said, ts, left).await;
                        }
                        // Another answer of the thread took it for its own, and it is that one's now.
                        Ok(true) => {
                            over(&mut said).await;
                            return left;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "a reply stops growing before its end");
                            sure = false;
                            break;
                        }
                    }
                }
                Err(error) => {
                    if !skip(&error, &mut said).await {
                        sure = !error.may_have_happened();
                        break;
                    }
                }
            }
            last = Instant::now();
        }
        over(&mut said).await;
        left.standing = Standing::Stream { ts, sure };
        left
    }

    /// Changes a message.
    async fn change(&self, mut said: watch::Receiver<Said>, ts: Ts, mut left: Left) -> Left {
        let mut last = Instant::now();
        let beat = Beat {
            plenty: self.desk.beat.little,
            ..self.desk.beat
        };
        // What began as a stream has no key, and without one another answer may take it for its own.
        let metadata = blocks::metadata(&self.place.text_key(0));
        while length(&left.said) < LONGEST {
            if !enough(&mut said, left.said.len(), last, beat).await {
                break;
            }
            let text = ready(&said);
            let own = mrkdwn(&text);
            let blocks = blocks::growing(&text, &self.place.question, self.language);
            let has_button = self.has_button.load(Ordering::Relaxed);
            let update = Update {
                channel: &self.place.channel,
                ts: &ts,
                text: &own,
                blocks: has_button.then_some(&blocks),
                metadata: Some(&metadata),
            };
            let slack = self.desk.slack.hasty();
            match slack.chat_update(&self.at, &update).await {
                Ok(()) => left.said = text,
                Err(error) => {
                    if !skip(&error, &mut said).await {
                        break;
                    }
                }
            }
            last = Instant::now();
        }
        over(&mut said).await;
        left.standing = Standing::Post { ts };
        left
    }
}

/// As much of what was said as may be shown, and not more than a message holds.
fn ready(said: &watch::Receiver<Said>) -> String {
    let said = said.borrow();
    // It only gets longer by being defused, so the rest need not be looked at with every word that comes.
    let text = defuse(settled(head(&said.text, LONGEST)));
    head(&text, LONGEST).to_owned()
}

/// Waits until there is enough to send on since `last`; no longer than until it is over, and then says
/// no.
async fn enough(said: &mut watch::Receiver<Said>, sent: usize, last: Instant, beat: Beat) -> bool {
    loop {
        if said.borrow_and_update().over {
            return false;
        }
        let text = ready(said);
        let more = text.get(sent..).map_or(0, length);
        let due = match more {
            0 => None,
            1..PLENTY => Some(last + beat.little),
            _ => Some(last + beat.plenty),
        };
        match due {
            Some(due) if due <= Instant::now() => return true,
            Some(due) => tokio::select! {
                changed = said.changed() => if changed.is_err() { return false },
                () = sleep_until(due) => {}
            },
            None => {
                if said.changed().await.is_err() {
                    return false;
                }
            }
        }
    }
}

/// Waits as long as Slack asks for, and says whether to go on: what was not sent is caught up with.
async fn skip(error: &SlackError, said: &mut watch::Receiver<Said>) -> bool {
    let Some(wait) = error.retry_after() else {
        tracing::debug!(%error, "a reply stops growing before its end");
        return false;
    };
    tokio::select! {
        () = sleep(wait) => {}
        () = over(said) => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Beat = Beat {
        plenty: Duration::from_millis(500),
        little: Duration::from_secs(1),
    };

    async fn waited(said: &str, since: Duration) -> Duration {
        let (tell, mut hears) = watch::channel(Said::default());
        tell.send_modify(|now| now.add(said));
        let now = Instant::now();
        let last = now.checked_sub(since).unwrap();
        assert!(enough(&mut hears, 0, last, BEAT).await);
        now.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn little_waits_for_a_second_and_plenty_for_half() {
        tokio::time::advance(Duration::from_secs(60)).await;
        let plenty = "x".repeat(PLENTY);
        assert_eq!(waited("little", Duration::ZERO).await, BEAT.little);
        assert_eq!(waited(&plenty, Duration::ZERO).await, BEAT.plenty);
        assert_eq!(waited("little", BEAT.little).await, Duration::ZERO);
        assert_eq!(waited(&plenty, BEAT.plenty).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_becomes_plenty_meanwhile_goes_at_once_and_the_end_ends_the_wait() {
        let (tell, mut hears) = watch::channel(Said::default());
        tell.send_modify(|now| now.add("x"));
        let began = Instant::now();
        let more = async {
            tokio::time::advance(Duration::from_millis(600)).await;
            tell.send_modify(|now| now.add(&"x".repeat(PLENTY)));
        };
        let (went, ()) = tokio::join!(enough(&mut hears, 0, began, BEAT), more);
        assert!(went);
        assert_eq!(began.elapsed(), Duration::from_millis(600));

        tell.send_modify(|now| now.over = true);
        assert!(!enough(&mut hears, 0, Instant::now(), BEAT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_may_be_shown_is_not_sent() {
        let (tell, mut hears) = watch::channel(Said::default());
        tell.send_modify(|now| now.add("<!"));
        let wait = enough(&mut hears, 0, Instant::now(), BEAT);
        let wait = tokio::time::timeout(Duration::from_secs(10), wait);
        assert!(wait.await.is_err());
    }
}
