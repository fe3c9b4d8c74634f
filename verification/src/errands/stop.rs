//! Stopping what goes on, and what whoever pressed the button sees of it: the offer goes, and if nothing was
//! stopped, they alone are told why.

use super::Runner;
use crate::ask::Notes;
use crate::intake::Stop;
use crate::reply::{self, Carried};
use crate::texts::Phrase;
use interzone_hub::HubError;
use interzone_protocol::zone::{ErrorWord, TaskIdParams};

/// What came of it.
enum Came {
    /// It is stopped, or will be when it begins.
    Stopped,
    /// It is not, and this is why.
    Not(Phrase),
    /// It cannot be said yet, or never.
    Else(Carried),
}

impl Runner {
    pub(super) async fn stop(&self, stop: &Stop) -> Result<Carried, HubError> {
        let why = match self.call_off(stop).await? {
            Came::Stopped => None,
            Came::Not(why) => Some(why),
            Came::Else(carried) => return Ok(carried),
        };
        if let Some(offer) = &stop.offer
            && let Err(error) = self.0.0.slack.take_back(offer).await
        {
            // It goes by itself when the page is loaded again.
            tracing::debug!(%error, "an offer to stop could not be taken back");
        }
        match why {
            Some(why) => self.tell(stop, why).await,
            None => Ok(Carried::Arrived),
        }
    }

    /// Marks what is to be stopped, then stops it if it goes on: whoever begins it writes first that it
    /// goes on and looks for the mark then, so one of the two sees the other.
    async fn call_off(&self, stop: &Stop) -> Result<Came, HubError> {
        let zone = &self.0.0;
        let notes = Notes(zone.hub.clone());
        notes.mark(stop).await?;
        // What is over is told of one question alone: in a thread, the next one may be meant.
        let named = stop.question.is_some();
        let over = if named {
            Came::Not(Phrase::NothingToStop)
        } else {
            Came::Stopped
        };
        let running = notes.running(&stop.target()).await?;
        let question = stop.question.as_deref();
        let question = question.or_else(|| running.as_ref().map(|running| &*running.question));
        if let Some(question) = question
            && notes.has_ended(question).await?
        {
            return Ok(over);
        }
        let Some(running) = running else {
            return Ok(Came::Stopped);
        };
        let elsewhere = running.channel.is_some_and(|asked| asked != stop.channel);
        if elsewhere || stop.user.as_ref().is_some_and(|user| *user != running.user) {
            return Ok(Came::Not(Phrase::NotYours));
        }
        let client = zone.client.with_correlation(&stop.event_id);
        let task_id = running.task;
        let called_off = client.cancel_task(&TaskIdParams { task_id }).await;
        Ok(match called_off {
            Ok(_) => Came::Stopped,
            Err(error) if error.is_retryable() => Came::Else(Carried::Later {
                why: error.to_string(),
                after: error.retry_after(),
            }),
            Err(error) => match error.error_word() {
                ErrorWord::TaskFinished | ErrorWord::TaskNotFound => over,
                _ => Came::Else(Carried::Never {
                    why: error.to_string(),
                }),
            },
        })
    }

    /// Tells whoever pressed the button why nothing was stopped.
    async fn tell(&self, stop: &Stop, why: Phrase) -> Result<Carried, HubError> {
        let zone = &self.0.0;
        let Some(user) = &stop.user else {
            return Ok(Carried::Arrived);
        };
        let at = zone
            .tokens
            .installation(&stop.team, stop.enterprise.as_ref());
        let at = match at.await {
            Ok(Some(at)) => at,
            // There is nobody who could tell them.
            Ok(None) => return Ok(Carried::Arrived),
            Err(error) => {
                return Ok(Carried::Later {
                    why: error.to_string(),
                    after: None,
                });
            }
        };
        let known = zone.gates.people.user(&at, &stop.team, user).await.ok();
        let locale = known.as_ref().and_then(|known| known.locale.as_deref());
        let language = zone.gates.language(locale, "");
        match reply::not_stopped(stop, user, language, why) {
            Ok(entry) => {
                zone.hub.enqueue(vec![entry]).await?;
                Ok(Carried::Arrived)
            }
            Err(error) => Ok(Carried::Never {
                why: error.to_string(),
            }),
        }
    }
}
