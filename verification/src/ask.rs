//! Asking: a question goes through its gates, gets its context and its files, is asked in the Execution
//! Zone, and its answer is handed to the outbox. Every step may be the last one of this process: another
//! attempt asks the agent nothing twice and posts nothing twice.
//!
//! What makes it so: the call's id is the question's, and what is sent with it is fixed before the first
//! call ([`Notes`]), so a second call finds the first one's task; and the end of a question, whichever it
//! is, is one commit that is made once.

mod notes;
mod patience;
mod prepare;
mod run;

pub(crate) use notes::{Notes, who};

use crate::attachments::NotNow;
use crate::gates::{Known, Passed};
use crate::question::Question;
use crate::reply::{self, Carried, Left, LeftOutFile, Live};
use crate::slack::tokens::Installation;
use crate::texts::{Language, Refusal};
use crate::workers::Carrier;
use crate::zone::{Parts, Zone};
use async_trait::async_trait;
use interzone_edge::audit::Entry;
use interzone_hub::{HubError, NewEntry, OutboxEntry};
use interzone_protocol::zone::{ErrorWord, ExecuteResult};
use notes::Fixed;
use prepare::{Prepared, Ready, nothing_left};
use run::Outcome;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long it is remembered that a question has ended: longer than it is tried.
const ENDED: Duration = Duration::from_secs(7 * 24 * 3_600);
/// And that it was answered: as long as what people think of the answer is kept.
const ANSWERED: Duration = Duration::from_secs(90 * 24 * 3_600);

/// Asks questions.
pub(crate) struct Asker(pub(crate) Zone);

#[async_trait]
impl Carrier for Asker {
    async fn carry(&self, entry: &OutboxEntry) -> Carried {
        let Ok(question) = entry.payload.decode::<Question>() else {
            return Carried::Never {
                why: "the question cannot be read: another version wrote it".to_owned(),
            };
        };
        let asking = Asking {
            zone: &self.0.0,
            notes: Notes(self.0.0.hub.clone()),
            question: &question,
            attempt: entry.attempt,
        };
        match asking.whole().await {
            Ok(()) => Carried::Arrived,
            Err(NotYet {
                why,
                after,
                put_off,
            }) => {
                if put_off {
                    asking.was_put_off().await;
                }
                Carried::Later { why, after }
            }
        }
    }

    async fn given_up(&self, entry: &OutboxEntry, _why: &str) {
        let Ok(question) = entry.payload.decode::<Question>() else {
            return;
        };
        let zone = &self.0.0;
        let asking = Asking {
            zone,
            notes: Notes(zone.hub.clone()),
            question: &question,
            attempt: entry.attempt,
        };
        if let Err(NotYet { why, .. }) = asking.give_up().await {
            tracing::error!(
                event = question.event_id,
                why,
                "a question ended without a word"
            );
        }
    }
}

/// It is to be tried again.
struct NotYet {
    why: String,
    after: Option<Duration>,
    /// Whether it is Slack that says so: then it was no try.
    put_off: bool,
}

impl NotYet {
    fn failed(why: impl ToString) -> Self {
        Self {
            why: why.to_string(),
            after: None,
            put_off: false,
        }
    }
}

impl From<HubError> for NotYet {
    fn from(error: HubError) -> Self {
        Self::failed(error)
    }
}

impl From<NotNow> for NotYet {
    fn from(not_now: NotNow) -> Self {
        Self {
            why: not_now.why,
            after: not_now.after,
            put_off: not_now.after.is_some(),
        }
    }
}

/// One attempt to ask a question.
struct Asking<'a> {
    zone: &'a Parts,
    notes: Notes,
    question: &'a Question,
    attempt: u32,
}

impl Asking<'_> {
    async fn whole(&self) -> Result<(), NotYet> {
        let question = self.question;
        if self.attempt > 1 && self.has_ended().await? {
            return Ok(());
        }
        let tokens = &self.zone.tokens;
        let at = tokens.installation(&question.team, question.enterprise.as_ref());
        let at = match at.await {
            Ok(Some(at)) => at,
            Ok(None) => {
                tracing::warn!(team = %question.team, "a workspace without a token asks");
                return self.end(Vec::new(), "no_token").await;
            }
            Err(error) => return Err(NotYet::failed(error)),
        };
        // Where Slack does not say who we are, our own words come as anybody's.
        if at.bot_user.as_ref() == Some(&question.user) {
            return self.end(Vec::new(), "own").await;
        }
        let fixed = match self.attempt {
            0 | 1 => None,
            _ => self.notes.fixed(question).await?,
        };
        match fixed {
            Some(fixed) => {
                let live = self.live(&at, fixed.language);
                let prepared = self.again(&at, fixed).await?;
                self.go_on(&at, prepared, live).await
            }
            None => {
                let Some(known) = self.pass(&at).await? else {
                    return Ok(());
                };
                let live = self.live(&at, known.language);
                let prepared = self.first(&at, &known).await?;
                self.go_on(&at, prepared, live).await
            }
        }
    }

    /// Ends it after its last try.
    async fn give_up(&self) -> Result<(), NotYet> {
        let language = self.zone.gates.language_for(self.question);
        let word = ErrorWord::InternalError;
        if self.notes.fixed(self.question).await?.is_some() {
            return self.fail(&Left::unknown(), language, word).await;
        }
        // Whether they may ask was never known, so others do not read of it.
        self.refuse(language, &Refusal::Fault, word.name()).await
    }

    fn live(&self, at: &Arc<Installation>, language: Language) -> Live {
        let desk = &self.zone.desk;
        desk.live(self.question, at, language, self.attempt)
    }

    /// Through the gates; nothing if it was refused.
    async fn pass(&self, at: &Installation) -> Result<Option<Known>, NotYet> {
        match self.zone.gates.pass(self.question, at).await {
            Passed::Through(known) => Ok(Some(known)),
            Passed::Refused {
                refusal,
                language,
                word,
            } => {
                self.refuse(language, &refusal, word).await?;
                Ok(None)
            }
            Passed::Mute { word } => {
                self.end(Vec::new(), word).await?;
                Ok(None)
            }
            Passed::Later {
                why,
                after: Some(after),
                language,
            } if after > self.left() => {
                let event = &self.question.event_id;
                tracing::warn!(event, why, "slack puts a question off for too long");
                self.refuse(language, &Refusal::Busy, "slack_busy").await?;
                Ok(None)
            }
            Passed::Later { why, after, .. } => Err(NotYet {
                why,
                after,
                put_off: after.is_some(),
            }),
        }
    }

    /// Asks, and sees to the end.
    async fn go_on(
        &self,
        at: &Arc<Installation>,
        prepared: Prepared<'_>,
        live: Live,
    ) -> Result<(), NotYet> {
        let (mut ready, outcome) = match prepared {
            Prepared::Ended => return Ok(()),
            Prepared::Ready(ready) => {
                if let Some(word) = nothing_left(self.question, &ready) {
                    let left = live.left().await;
                    return self.fail(&left, ready.fixed.language, word).await;
                }
                let outcome = self
                    .run(at, &ready.fixed, &ready.attachments, &live)
                    .await?;
                (ready, outcome)
            }
            Prepared::Changed(fixed) => {
                let outcome = self.find(&live).await?;
                let ready = Ready {
                    fixed,
                    attachments: Vec::new(),
                    _room: None,
                };
                (ready, outcome)
            }
        };
        let outcome = match outcome {
            // What it was to answer is over, so it is a question of its own.
            Outcome::NotWaiting => {
                ready.fixed.answers = None;
                self.notes.fix_anew(self.question, &ready.fixed).await?;
                self.notes.set_waiting(self.question, None).await?;
                self.run(at, &ready.fixed, &ready.attachments, &live)
                    .await?
            }
            outcome => outcome,
        };
        let left = live.left().await;
        let language = ready.fixed.language;
        match outcome {
            Outcome::Answered(result) => self.answer(&left, &ready.fixed, &result).await,
            Outcome::Stopped => {
                let plan = reply::stopped(self.question, &left, language);
                self.end(planned(plan)?, "stopped").await
            }
            Outcome::NotWaiting => self.fail(&left, language, ErrorWord::TaskNotWaiting).await,
            Outcome::Failed(word) => self.fail(&left, language, word).await,
        }
    }

    async fn answer(
        &self,
        left: &Left,
        fixed: &Fixed,
        result: &ExecuteResult,
    ) -> Result<(), NotYet> {
        let notes: Vec<LeftOutFile> = fixed
            .left_out
            .iter()
            .map(|(name, why)| LeftOutFile {
                name: name.clone(),
                why: *why,
            })
            .collect();
        let language = fixed.language;
        let plan = reply::answered(self.question, left, language, result, &notes);
        let entries = planned(plan)?;
        let asks = result.state.is_some();
        let waits = result.task_id.as_deref().filter(|_| asks);
        if waits.is_some() || fixed.answers.is_some() {
            self.notes.set_waiting(self.question, waits).await?;
        }
        if self.zone.rules.follow_threads {
            self.notes.follow(self.question).await?;
        }
        let question = self.question;
        let keys = [
            notes::ended(&question.id),
            notes::answered(&question.channel, &question.id),
        ];
        self.end_with(&keys, ANSWERED, entries, "answered").await
    }

    async fn fail(&self, left: &Left, language: Language, word: ErrorWord) -> Result<(), NotYet> {
        let plan = reply::failed(self.question, left, language, word);
        self.end(planned(plan)?, word.name()).await
    }

    async fn refuse(
        &self,
        language: Language,
        refusal: &Refusal,
        word: &'static str,
    ) -> Result<(), NotYet> {
        let plan = planned(reply::refused(self.question, language, refusal))?;
        // Whoever goes on in spite of it has heard it, and Slack's patience is for those who have not.
        let heard = self.zone.gates.may_tell(self.question).await?;
        let plan = if heard { plan } else { Vec::new() };
        self.end(plan, word).await
    }

    async fn has_ended(&self) -> Result<bool, HubError> {
        self.notes.has_ended(&self.question.id).await
    }

    /// Ends the question: all that is to be said is handed over in one commit, once, however many
    /// attempts come here.
    async fn end(&self, entries: Vec<NewEntry>, word: &'static str) -> Result<(), NotYet> {
        let key = [notes::ended(&self.question.id)];
        self.end_with(&key, ENDED, entries, word).await
    }

    async fn end_with(
        &self,
        keys: &[String],
        keep: Duration,
        entries: Vec<NewEntry>,
        word: &'static str,
    ) -> Result<(), NotYet> {
        if self.zone.hub.receive(keys, keep, entries).await? {
            self.audit(word);
        }
        Ok(())
    }

    fn audit(&self, outcome: &'static str) {
        let (zone, question) = (self.zone, self.question);
        let now = zone.hub.now();
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let took = now.since(question.asked_at);
        zone.audit.record(&Entry {
            at: at(millis),
            who: &who(question.team_of_asker(), &question.user),
            client: question.team.as_str(),
            method: "slack.ask",
            id: Some(&question.id),
            subject: Some(question.channel.as_str()),
            outcome,
            code: None,
            latency: took,
            correlation: &question.event_id,
            address: None,
        });
        zone.metrics
            .request("slack.question", outcome, took.as_secs_f64());
    }
}

fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn planned(plan: Result<Vec<NewEntry>, reply::PlanError>) -> Result<Vec<NewEntry>, NotYet> {
    plan.map_err(NotYet::failed)
}
