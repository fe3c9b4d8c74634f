//! A reply while it comes: the sign that the question was received, what the agent is doing, and its
//! words as they grow. All of it is best effort; what must stand there in the end is seen to by `finish`.
//!
//! Everything runs beside the call to the Execution Zone. The first text is sent the moment that it is
//! there, and what Slack does not take in time is caught up with later, or at the end.

mod begun;
mod offer;
mod writer;

pub(super) use begun::Begun;
pub(super) use writer::Beat;

use super::Desk;
use super::effect::{Left, Place};
use super::features::Feature;
use super::markdown::defuse;
use super::reaction::RECEIVED;
use crate::question::{PlaceKind, Question};
use crate::signs::{is_blank, straight};
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use crate::texts::{Language, Phrase, phrase};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long the sign that a question was received may take.
const SIGN: Duration = Duration::from_secs(2);

/// How long to wait before saying that something is being done: for a fast answer it would come late.
const QUIET: Duration = Duration::from_millis(250);

/// After how long the same status is said again.
const AGAIN: Duration = Duration::from_secs(90);

/// The longest status that is shown.
const LONGEST_STATUS: usize = 100;

/// How long the end may wait for a call that is on its way.
const LAST_CALL: Duration = Duration::from_secs(15);

/// What the agent has said and done so far.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Whether there is something to see in the text.
    seen: bool,
    status: Option<String>,
    begun: bool,
    over: bool,
}

impl Said {
    fn add(&mut self, more: &str) {
        self.seen |= !is_blank(more);
        self.text.push_str(more);
    }

    /// Whether there is something to read, or nothing more to wait for.
    fn is_readable(&self) -> bool {
        self.over || self.seen
    }
}

/// A reply while it comes. Dropping it leaves in Slack what stands there.
#[derive(Debug)]
pub struct Live {
    /// The first to go, so that nothing is begun on the way out.
    _stop: DropGuard,
    said: watch::Sender<Said>,
    task: JoinHandle<Left>,
}

impl Live {
    pub(super) fn begin(
        desk: &Desk,
        question: &Question,
        at: Arc<Installation>,
        language: Language,
        attempt: u32,
    ) -> Self {
        let stop = CancellationToken::new();
        let (said, hears) = watch::channel(Said::default());
        // Outside of a conversation between two, Slack asks for whom it is.
        let recipient = (question.place != PlaceKind::Im)
            .then(|| (question.user.clone(), question.team_of_asker().clone()));
        let shown = Shown {
            desk: desk.clone(),
            at,
            place: Place::of(question),
            in_thread: question.in_thread,
            user: question.user.clone(),
            recipient,
            language,
            again: attempt > 1,
            stands: AtomicBool::new(false),
            has_button: AtomicBool::new(false),
        };
        let task = tokio::spawn(shown.run(hears, stop.clone()));
        Self {
            _stop: stop.drop_guard(),
            said,
            task,
        }
    }

    /// The agent is doing something, in its words.
    pub fn status(&self, status: &str) {
        // It is one line that nothing turns around, and the agent's words are no more than words here either.
        let line = straight(status);
        let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            let short: String = line.chars().take(LONGEST_STATUS).collect();
            let short = defuse(&short).into_owned();
            self.said.send_modify(|said| said.status = Some(short));
        }
    }

    /// The agent has said more.
    pub fn text(&self, more: &str) {
        if !more.is_empty() {
            self.said.send_modify(|said| said.add(more));
        }
    }

    /// There is a task, so there is something that can be stopped.
    pub fn begun(&self) {
        self.said.send_modify(|said| said.begun = true);
    }

    /// It is over. Gives what stands in Slack.
    pub async fn left(mut self) -> Left {
        self.said.send_modify(|said| said.over = true);
        match timeout(LAST_CALL, &mut self.task).await {
            Ok(Ok(left)) => left,
            _ => Left::unknown(),
        }
    }
}

/// What it takes to show a reply.
struct Shown {
    desk: Desk,
    at: Arc<Installation>,
    place: Place,
    in_thread: bool,
    user: UserId,
    recipient: Option<(UserId, TeamId)>,
    language: Language,
    again: bool,
    /// Whether something of the reply can be seen.
    stands: AtomicBool,
    /// Whether it has a button to stop it.
    has_button: AtomicBool,
}

impl Shown {
    async fn run(self, said: watch::Receiver<Said>, stop: CancellationToken) -> Left {
        tokio::select! {
            biased;
            () = stop.cancelled() => Left::unknown(),
            left = self.show(said) => left,
        }
    }

    async fn show(&self, mut said: watch::Receiver<Said>) -> Left {
        let (shelf, question) = (&*self.desk.shelf, &self.place.question);
        if self.again && !matches!(Begun::read(shelf, question).await, Ok(None)) {
            // What an earlier attempt has left may be finished already: it is not touched before the end.
            over(&mut said).await;
            return Left::unknown();
        }
        let write = self.write(said.clone());
        let beside = async {
            tokio::join!(
                self.sign(),
                self.tell_status(said.clone()),
                self.offer_stop(said.clone()),
            );
        };
        tokio::pin!(write, beside);
        let mut done = false;
        let left = loop {
            tokio::select! {
                left = &mut write => break left,
                () = &mut beside, if !done => done = true,
            }
        };
        if !done {
            // A sign that is on its way must not come after the one that it is over.
            let _ = timeout(SIGN, beside).await;
        }
        left
    }

    /// Puts the sign that the question was received.
    async fn sign(&self) {
        let place = &self.place;
        let slack = self.desk.slack.hasty();
        let add = slack.reactions_add(&self.at, &place.channel, &place.asked, RECEIVED);
        if let Ok(Err(error)) = timeout(SIGN, add).await {
            tracing::debug!(%error, "no sign that a question was received");
        }
    }

    /// Says what the agent is doing, until there is something to read.
    async fn tell_status(&self, mut said: watch::Receiver<Said>) {
        let features = &self.desk.features;
        if !self.desk.options.live || !features.has(&self.place.team, Feature::Status) {
            return;
        }
        tokio::select! {
            () = sleep(QUIET) => {}
            () = readable(&mut said) => return,
        }
        loop {
            let status = said.borrow_and_update().status.clone();
            let status =
                status.unwrap_or_else(|| phrase(self.language, Phrase::Thinking).to_owned());
            let slack = self.desk.slack.hasty();
            let (channel, thread) = (&self.place.channel, &self.place.thread);
            let set = slack.assistant_set_status(&self.at, channel, thread, &status);
            if let Err(error) = set.await {
                features.refused(&self.place.team, Feature::Status, &error);
                if error.retry_after().is_none() {
                    return;
                }
            }
            tokio::select! {
                () = readable(&mut said) => return,
                () = sleep(self.desk.beat.little) => {}
            }
            let other = said.wait_for(|said| {
                let other = said.status.as_ref().is_some_and(|other| *other != status);
                said.is_readable() || other
            });
            // Slack takes it away by itself after two minutes.
            if let Ok(heard) = timeout(AGAIN, other).await
                && heard.map_or(true, |said| said.is_readable())
            {
                return;
            }
        }
    }
}

/// Waits until there is something to read, or nothing more to wait for.
async fn readable(said: &mut watch::Receiver<Said>) {
    let _ = said.wait_for(Said::is_readable).await;
}

/// Waits until it is over.
async fn over(said: &mut watch::Receiver<Said>) {
    let _ = said.wait_for(|said| said.over).await;
}

#[cfg(test)]
mod tests;
