//! Small things to do for Slack: stop what goes on, keep and pass on what somebody thinks of an answer, forget
//! a token, and see whether a thread is one that we follow.

mod stop;

use crate::ask::Notes;
use crate::intake::{Left, Stop};
use crate::question::Question;
use crate::reply::{Carried, FeedbackGiven};
use crate::workers::Carrier;
use crate::zone::{self, Zone};
use async_trait::async_trait;
use interzone_hub::{HubError, OutboxEntry};
use interzone_protocol::zone::{ErrorWord, FeedbackParams, Verdict};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a question that follows an answer is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// Something small to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", content = "with", rename_all = "snake_case")]
pub(crate) enum Errand {
    Stop(Stop),
    Feedback(FeedbackGiven),
    Forget(Left),
    Followed(Box<Question>),
}

/// Runs errands.
pub(crate) struct Runner(pub(crate) Zone);

#[async_trait]
impl Carrier for Runner {
    async fn carry(&self, entry: &OutboxEntry) -> Carried {
        let Ok(errand) = entry.payload.decode::<Errand>() else {
            return Carried::Never {
                why: "the errand cannot be read: another version wrote it".to_owned(),
            };
        };
        let done = match errand {
            Errand::Stop(stop) => self.stop(&stop).await,
            Errand::Feedback(given) => self.feedback(&given).await,
            Errand::Forget(left) => return self.forget(&left).await,
            Errand::Followed(question) => self.followed(&question).await,
        };
        done.unwrap_or_else(|error| Carried::Later {
            why: error.to_string(),
            after: None,
        })
    }
}

impl Runner {
    /// Keeps it here, and tells the Execution Zone, which keeps it with the task.
    async fn feedback(&self, given: &FeedbackGiven) -> Result<Carried, HubError> {
        let zone = &self.0.0;
        let notes = Notes(zone.hub.clone());
        if !notes.was_answered(&given.channel, &given.question).await? {
            tracing::info!(channel = %given.channel, "a thumb for no answer of ours is not kept");
            return Ok(Carried::Arrived);
        }
        zone.desk.feedbacks().keep(given).await?;
        let Some(running) = notes.running(&given.question).await? else {
            // It never became a task, or was one too long ago.
            return Ok(Carried::Arrived);
        };
        let params = FeedbackParams {
            task_id: running.task,
            user_id: given.user.to_string(),
            verdict: if given.good {
                Verdict::Up
            } else {
                Verdict::Down
            },
            comment: None,
            given_at: Some(given.at),
        };
        let client = zone.client.with_correlation(&given.question);
        Ok(match client.give_feedback(&params).await {
            Ok(_) => Carried::Arrived,
            Err(error) if error.is_retryable() => Carried::Later {
                why: error.to_string(),
                after: error.retry_after(),
            },
            Err(error) => match error.error_word() {
                // The task is gone, or that zone does not keep such things. We do.
                ErrorWord::TaskNotFound | ErrorWord::MethodNotFound => Carried::Arrived,
                _ => Carried::Never {
                    why: error.to_string(),
                },
            },
        })
    }

    async fn forget(&self, left: &Left) -> Carried {
        let tokens = &self.0.0.tokens;
        for team in [Some(&left.team), left.enterprise.as_ref()]
            .into_iter()
            .flatten()
        {
            match tokens.forget(team, Some(left.said)).await {
                Ok(forgotten) => {
                    tracing::info!(%team, forgotten, "a workspace took its token back")
                }
                Err(error) => {
                    return Carried::Later {
                        why: error.to_string(),
                        after: None,
                    };
                }
            }
        }
        Carried::Arrived
    }

    async fn followed(&self, question: &Question) -> Result<Carried, HubError> {
        let zone = &self.0.0;
        if Notes(zone.hub.clone()).is_followed(question).await? {
            let keys = [zone::asked(question)];
            let work = vec![zone::ask(question)?];
            zone.hub.receive(&keys, REMEMBERED, work).await?;
        }
        Ok(Carried::Arrived)
    }
}
