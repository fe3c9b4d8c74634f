//! Carrying entries to Slack, one after another. An entry may come again after a crash or a lost answer,
//! so each kind looks first, from its second attempt on, whether it is there already.

use super::Desk;
use super::effect::{Act, Effect};
use super::plan::Plan;
use super::{ephemeral, file, finish, post, reaction};
use crate::slack::api::SlackError;
use crate::texts;
use interzone_hub::OutboxEntry;
use std::time::Duration;

/// What became of an attempt to carry an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It stands in Slack.
    Arrived,
    /// Not now.
    Later {
        /// Why, in words for the operator; nothing of its content.
        why: String,
        /// How long to wait at least.
        after: Option<Duration>,
    },
    /// Never: trying again cannot help.
    Never {
        /// Why, in words for the operator; nothing of its content.
        why: String,
    },
}

impl Carried {
    pub(super) fn later(why: impl ToString) -> Self {
        Self::Later {
            why: why.to_string(),
            after: None,
        }
    }

    pub(super) fn never(why: impl ToString) -> Self {
        Self::Never {
            why: why.to_string(),
        }
    }

    /// What follows from a call that came to nothing.
    pub(super) fn of(error: &SlackError) -> Self {
        if error.may_pass_next_time() {
            Self::Later {
                why: error.to_string(),
                after: error.retry_after(),
            }
        } else {
            Self::never(error)
        }
    }
}

/// So many attempts may wait for something that helps, and is not needed.
const EARLY: u32 = 8;

/// Notes about answers that could not be posted, by the question.
pub(super) const UNSAID: &str = "slack.unsaid";
const UNSAID_FOR: Duration = Duration::from_secs(3 * 24 * 3600);

/// Carries the entries of [`POSTS`](super::POSTS). Cheap to clone.
#[derive(Clone)]
pub struct Poster {
    desk: Desk,
}

impl Poster {
    pub(super) fn new(desk: Desk) -> Self {
        Self { desk }
    }

    /// Carries one entry. It may be broken off at any moment, and the same entry may come again, with
    /// the number of its attempt one higher.
    pub async fn carry(&self, entry: &OutboxEntry) -> Carried {
        let effect: Effect = match entry.payload.decode() {
            Ok(effect) => effect,
            Err(_) => return Carried::never("the entry cannot be read: another version wrote it"),
        };
        let place = &effect.place;
        let way = self.desk.ways.way(&place.team, place.enterprise.as_ref());
        let at = match way.await {
            Ok(Some(at)) => at,
            Ok(None) => return Carried::never("there is no token for the workspace any more"),
            Err(why) => return Carried::later(why),
        };
        let job = Job {
            desk: &self.desk,
            at: &at,
            effect: &effect,
            key: &entry.key,
            again: entry.attempt > 1,
            early: entry.attempt < EARLY,
        };
        let carried = match &effect.act {
            Act::Post { text, feedback } => post::post(&job, text, *feedback).await,
            Act::Finish {
                text,
                feedback,
                left,
            } => finish::finish(&job, text, *feedback, left).await,
            Act::File {
                task,
                artifact,
                name,
            } => file::file(&job, task, artifact, name).await,
            Act::React { ending } => reaction::react(&job, *ending).await,
            Act::Tell {
                user,
                text,
                in_thread,
                alone,
            } => ephemeral::tell(&job, user, text, *in_thread, *alone).await,
        };
        match &carried {
            Carried::Never { why } => self
                .say_so(&effect, &entry.key, why)
                .await
                .unwrap_or(carried),
            _ => carried,
        }
    }

    /// The entry has been tried for the last time. A file that does not come is said in the thread.
    pub async fn given_up(&self, entry: &OutboxEntry, why: &str) {
        self.unsaid(entry).await;
        if let Ok(effect) = entry.payload.decode::<Effect>()
            && let Some(Carried::Later { why, .. }) = self.say_so(&effect, &entry.key, why).await
        {
            tracing::warn!(id = %entry.id, why, "that a file could not be posted could not be said");
        }
    }

    /// Notes that an answer does not come, so that its question gets no sign of success.
    async fn unsaid(&self, entry: &OutboxEntry) {
        let Ok(effect) = entry.payload.decode::<Effect>() else {
            return;
        };
        if matches!(effect.act, Act::Post { .. } | Act::Finish { .. }) {
            let shelf = &self.desk.shelf;
            let kept = shelf
                .keep(UNSAID, &effect.place.question, "", UNSAID_FOR)
                .await;
            if let Err(error) = kept {
                tracing::warn!(id = %entry.id, %error, "that an answer was not said could not be noted");
            }
        }
    }

    /// Has it said in the thread that a file does not come. Gives something if that did not work.
    async fn say_so(&self, effect: &Effect, key: &str, why: &str) -> Option<Carried> {
        let Act::File { name, .. } = &effect.act else {
            return None;
        };
        let language = effect.language;
        let text = if file::is_size(why) {
            texts::file_too_large(language, name)
        } else {
            texts::file_not_posted(language, name)
        };
        let text = super::markdown::defuse(&text).into_owned();
        let feedback = false;
        let key = key.rsplit_once('/').map_or(key, |(_, number)| number);
        let plan = Plan::at(effect.place.clone(), language);
        let entry =
            plan.and_then(|plan| plan.entry(&format!("sorry/{key}"), Act::Post { text, feedback }));
        match entry {
            Ok(entry) => match self.desk.shelf.enqueue(vec![entry]).await {
                Ok(()) => None,
                Err(error) => Some(Carried::later(error)),
            },
            Err(error) => Some(Carried::later(error)),
        }
    }
}

/// What is carried at the moment.
pub(super) struct Job<'a> {
    pub(super) desk: &'a Desk,
    pub(super) at: &'a crate::slack::tokens::Installation,
    pub(super) effect: &'a Effect,
    /// The entry's key.
    pub(super) key: &'a str,
    /// Whether it has been tried before, so that it may be there.
    pub(super) again: bool,
    /// Whether there are many attempts left.
    pub(super) early: bool,
}

impl Job<'_> {
    /// What follows from a call that came to nothing. A word that we have never heard of may be for good,
    /// and then those behind it in the thread would wait for an hour; so it is believed after a few tries.
    pub(super) fn came(&self, error: &SlackError) -> Carried {
        if error.is_puzzling() && self.early {
            Carried::later(error)
        } else {
            Carried::of(error)
        }
    }
}

#[cfg(test)]
mod tests;
