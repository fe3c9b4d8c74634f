//! Processes a question: admission checks, context and files, `execute_task`, and the answer to the outbox. The process
//! may stop after any step: a retry neither asks the agent twice nor posts twice.
//!
//! The call id is the question's id, and the request is frozen before the first call ([`AskStateStore`]), so a second
//! call finds the task of the first. The end of a question is a single commit that is made once.

mod execute;
mod prepare;
mod state_store;

pub(crate) use state_store::{AskStateStore, user_key};

use crate::attachments::FetchRetry;
use crate::gates::{GateDecision, SlackIdentity};
use crate::question::Question;
use crate::reply::{self, LiveReply, LiveReplyState, SkippedFile};
use crate::slack::tokens::Installation;
use crate::state::{StateInner, VerificationState};
use crate::texts::{Language, Refusal};
use async_trait::async_trait;
use execute::AskOutcome;
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_edge::audit::AuditEntry;
use interzone_hub::{HubError, NewOutboxEntry, OutboxEntry};
use interzone_protocol::zone::{ErrorReason, ExecuteResult};
use prepare::{Preparation, PreparedRequest, empty_reason};
use state_store::FrozenRequest;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Retention of the record that a question has ended: longer than it is retried.
const ENDED_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Retention of the record that a question was answered: as long as feedback is stored.
const ANSWERED_TTL: Duration = Duration::from_secs(90 * 24 * 3_600);

/// Minimum time that an attempt waits for the Execution Zone.
const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Outbox handler for questions.
pub(crate) struct AskHandler(pub(crate) VerificationState);

#[async_trait]
impl DeliveryHandler for AskHandler {
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        let Ok(question) = entry.payload.decode::<Question>() else {
            let reason = "cannot decode the question: written by another version";
            return Ok(DeliveryOutcome::failed(reason));
        };
        let attempt = AskAttempt {
            zone: &self.0.0,
            state: AskStateStore(self.0.0.hub.clone()),
            question: &question,
            attempt: entry.attempt,
        };
        Ok(match attempt.process().await {
            Ok(()) => DeliveryOutcome::Delivered,
            Err(RetryLater {
                reason,
                delay,
                is_deferred,
            }) => {
                if is_deferred {
                    attempt.record_deferral().await;
                }
                DeliveryOutcome::Retry {
                    reason,
                    retry_after: delay,
                }
            }
        })
    }

    async fn on_dead_letter(&self, entry: &OutboxEntry, _why: &str) {
        let Ok(question) = entry.payload.decode::<Question>() else {
            return;
        };
        let zone = &self.0.0;
        let attempt = AskAttempt {
            zone,
            state: AskStateStore(zone.hub.clone()),
            question: &question,
            attempt: entry.attempt,
        };
        if let Err(RetryLater { reason, .. }) = attempt.abandon().await {
            tracing::error!(
                event = question.event_id,
                reason,
                "question ended without a notice"
            );
        }
    }
}

/// The attempt failed temporarily.
struct RetryLater {
    reason: String,
    delay: Option<Duration>,
    /// True if Slack requested the delay: then the attempt does not count.
    is_deferred: bool,
}

impl RetryLater {
    fn failed(reason: impl ToString) -> Self {
        Self {
            reason: reason.to_string(),
            delay: None,
            is_deferred: false,
        }
    }
}

impl From<HubError> for RetryLater {
    fn from(error: HubError) -> Self {
        Self::failed(error)
    }
}

impl From<FetchRetry> for RetryLater {
    fn from(deferral: FetchRetry) -> Self {
        Self {
            reason: deferral.reason,
            delay: deferral.delay,
            is_deferred: deferral.delay.is_some(),
        }
    }
}

/// One attempt to process a question.
struct AskAttempt<'a> {
    zone: &'a StateInner,
    state: AskStateStore,
    question: &'a Question,
    attempt: u32,
}

impl AskAttempt<'_> {
    async fn process(&self) -> Result<(), RetryLater> {
        let question = self.question;
        if self.attempt > 1 && self.has_ended().await? {
            return Ok(());
        }
        let tokens = &self.zone.tokens;
        let installation = tokens.installation(&question.team, question.enterprise.as_ref());
        let installation = match installation.await {
            Ok(Some(installation)) => installation,
            Ok(None) => {
                tracing::warn!(team = %question.team, "no token for the asking workspace");
                return self.finish(Vec::new(), "no_token").await;
            }
            Err(error) => return Err(RetryLater::failed(error)),
        };
        // If the event does not name the bot user, the bot's own messages look like a user's.
        if installation.bot_user.as_ref() == Some(&question.user) {
            return self.finish(Vec::new(), "own").await;
        }
        let request = match self.attempt {
            0 | 1 => None,
            _ => self.state.frozen_request(question).await?,
        };
        match request {
            Some(request) => {
                let live_reply = self.start_live_reply(&installation, request.language);
                let preparation = self.prepare_retry(&installation, request).await?;
                self.execute_and_finish(&installation, preparation, live_reply)
                    .await
            }
            None => {
                let Some(identity) = self.check_gates(&installation).await? else {
                    return Ok(());
                };
                let live_reply = self.start_live_reply(&installation, identity.language);
                let preparation = self.prepare_first(&installation, &identity).await?;
                self.execute_and_finish(&installation, preparation, live_reply)
                    .await
            }
        }
    }

    /// Ends the question after its last attempt.
    async fn abandon(&self) -> Result<(), RetryLater> {
        let language = self.zone.gates.language_for(self.question);
        let reason = ErrorReason::InternalError;
        if self.state.frozen_request(self.question).await?.is_some() {
            return self
                .finish_failed(&LiveReplyState::unknown(), language, reason)
                .await;
        }
        // The user may not be allowed to ask, so the notice is visible only to them.
        self.finish_refused(language, &Refusal::InternalError, reason.name())
            .await
    }

    fn start_live_reply(&self, installation: &Arc<Installation>, language: Language) -> LiveReply {
        let replies = &self.zone.replies;
        replies.start_live_reply(self.question, installation, language, self.attempt)
    }

    /// Runs the admission checks; returns `None` if the question was refused.
    async fn check_gates(
        &self,
        installation: &Installation,
    ) -> Result<Option<SlackIdentity>, RetryLater> {
        match self.zone.gates.check(self.question, installation).await {
            GateDecision::Allowed(known) => Ok(Some(known)),
            GateDecision::Refused {
                refusal,
                language,
                outcome: word,
            } => {
                self.finish_refused(language, &refusal, word).await?;
                Ok(None)
            }
            GateDecision::Silent { outcome: word } => {
                self.finish(Vec::new(), word).await?;
                Ok(None)
            }
            GateDecision::Retry {
                reason: why,
                retry_after: Some(after),
                language,
            } if after > self.remaining() => {
                let event = &self.question.event_id;
                tracing::warn!(
                    event,
                    reason = why,
                    "slack defers question beyond its budget"
                );
                self.finish_refused(language, &Refusal::Busy, "slack_busy")
                    .await?;
                Ok(None)
            }
            GateDecision::Retry {
                reason: why,
                retry_after: after,
                ..
            } => Err(RetryLater {
                reason: why,
                delay: after,
                is_deferred: after.is_some(),
            }),
        }
    }

    /// Calls the agent and finishes the question.
    async fn execute_and_finish(
        &self,
        installation: &Arc<Installation>,
        preparation: Preparation<'_>,
        live_reply: LiveReply,
    ) -> Result<(), RetryLater> {
        let (mut ready, outcome) = match preparation {
            Preparation::Ended => return Ok(()),
            Preparation::Ready(ready) => {
                if let Some(word) = empty_reason(self.question, &ready) {
                    let left = live_reply.finish().await;
                    return self
                        .finish_failed(&left, ready.request.language, word)
                        .await;
                }
                let outcome = self
                    .call_agent(
                        installation,
                        &ready.request,
                        &ready.attachments,
                        &live_reply,
                    )
                    .await?;
                (ready, outcome)
            }
            Preparation::FilesChanged(fixed) => {
                let outcome = self.poll_existing_task(&live_reply).await?;
                let ready = PreparedRequest {
                    request: fixed,
                    attachments: Vec::new(),
                    _memory: None,
                };
                (ready, outcome)
            }
        };
        let outcome = match outcome {
            // The task does not wait for input any more, so this is a new question.
            AskOutcome::NotWaiting => {
                ready.request.answers = None;
                self.state.refreeze(self.question, &ready.request).await?;
                self.state.set_pending_input(self.question, None).await?;
                self.call_agent(
                    installation,
                    &ready.request,
                    &ready.attachments,
                    &live_reply,
                )
                .await?
            }
            outcome => outcome,
        };
        let left = live_reply.finish().await;
        let language = ready.request.language;
        match outcome {
            AskOutcome::Answered(result) => {
                self.finish_answered(&left, &ready.request, &result).await
            }
            AskOutcome::Stopped => {
                let plan = reply::plan_stop(self.question, &left, language);
                self.finish(plan_or_retry(plan)?, "stopped").await
            }
            AskOutcome::NotWaiting => {
                self.finish_failed(&left, language, ErrorReason::TaskNotWaiting)
                    .await
            }
            AskOutcome::Failed(word) => self.finish_failed(&left, language, word).await,
        }
    }

    async fn finish_answered(
        &self,
        live_state: &LiveReplyState,
        request: &FrozenRequest,
        result: &ExecuteResult,
    ) -> Result<(), RetryLater> {
        let skipped_files: Vec<SkippedFile> = request
            .skipped_files
            .iter()
            .map(|(name, reason)| SkippedFile {
                name: name.clone(),
                reason: *reason,
            })
            .collect();
        let language = request.language;
        let plan = reply::plan_answer(self.question, live_state, language, result, &skipped_files);
        let entries = plan_or_retry(plan)?;
        let needs_input = result.state.is_some();
        let pending_task = result.task_id.as_deref().filter(|_| needs_input);
        if pending_task.is_some() || request.answers.is_some() {
            self.state
                .set_pending_input(self.question, pending_task)
                .await?;
        }
        if self.zone.rules.follow_threads {
            self.state.follow_thread(self.question).await?;
        }
        let question = self.question;
        let keys = [
            state_store::ended_key(&question.id),
            state_store::answered_key(&question.channel, &question.id),
        ];
        self.finish_with_keys(&keys, ANSWERED_TTL, entries, "answered")
            .await
    }

    async fn finish_failed(
        &self,
        live_state: &LiveReplyState,
        language: Language,
        reason: ErrorReason,
    ) -> Result<(), RetryLater> {
        let plan = reply::plan_failure(self.question, live_state, language, reason);
        self.finish(plan_or_retry(plan)?, reason.name()).await
    }

    async fn finish_refused(
        &self,
        language: Language,
        refusal: &Refusal,
        outcome: &'static str,
    ) -> Result<(), RetryLater> {
        let plan = plan_or_retry(reply::plan_refusal(self.question, language, refusal))?;
        // Refusal notices are rate limited per user, to save Slack's rate limit for others.
        let may_send = self.zone.gates.may_send_refusal(self.question).await?;
        let plan = if may_send { plan } else { Vec::new() };
        self.finish(plan, outcome).await
    }

    async fn has_ended(&self) -> Result<bool, HubError> {
        self.state.has_ended(&self.question.id).await
    }

    /// Ends the question: enqueues all replies in one commit, once, even if several attempts get here.
    async fn finish(
        &self,
        entries: Vec<NewOutboxEntry>,
        outcome: &'static str,
    ) -> Result<(), RetryLater> {
        let key = [state_store::ended_key(&self.question.id)];
        self.finish_with_keys(&key, ENDED_TTL, entries, outcome)
            .await
    }

    async fn finish_with_keys(
        &self,
        keys: &[String],
        ttl: Duration,
        entries: Vec<NewOutboxEntry>,
        outcome: &'static str,
    ) -> Result<(), RetryLater> {
        if self.zone.hub.accept_once(keys, ttl, entries).await? {
            self.record_audit(outcome);
        }
        Ok(())
    }

    fn record_audit(&self, outcome: &'static str) {
        let (zone, question) = (self.zone, self.question);
        let now = zone.hub.now();
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let latency = now.duration_since(question.asked_at);
        zone.audit.record(&AuditEntry {
            at: system_time(millis),
            principal: &user_key(question.asker_team(), &question.user),
            client: question.team.as_str(),
            method: "slack.ask",
            id: Some(&question.id),
            subject: Some(question.channel.as_str()),
            outcome,
            code: None,
            latency,
            correlation: &question.event_id,
            address: None,
        });
        zone.metrics
            .record_request("slack.question", outcome, latency.as_secs_f64());
    }
}

fn system_time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn plan_or_retry(
    plan: Result<Vec<NewOutboxEntry>, reply::PlanError>,
) -> Result<Vec<NewOutboxEntry>, RetryLater> {
    plan.map_err(RetryLater::failed)
}

/// Time and attempt budget. The time starts when the event was received, in whichever process; only failed attempts
/// count.
impl AskAttempt<'_> {
    /// Returns the remaining time for an answer.
    pub(super) fn remaining(&self) -> Duration {
        let (zone, question) = (self.zone, self.question);
        let elapsed = zone.hub.now().duration_since(question.asked_at);
        zone.ask.budget.saturating_sub(elapsed)
    }

    /// Returns the deadline of this attempt.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.remaining().max(MIN_ATTEMPT_TIMEOUT)
    }

    /// Returns true if another attempt may follow. Attempts deferred by Slack do not count.
    pub(super) async fn has_attempts_left(&self) -> bool {
        let max_attempts = self.zone.ask.attempts;
        if self.attempt < max_attempts {
            return true;
        }
        let deferrals = self.state.deferral_count(self.question).await;
        // If the count cannot be read, deferrals count as attempts.
        self.attempt.saturating_sub(deferrals.unwrap_or(0)) < max_attempts
    }

    /// Records that Slack deferred the question.
    pub(super) async fn record_deferral(&self) {
        if let Err(error) = self.state.count_deferral(self.question).await {
            let event = &self.question.event_id;
            tracing::debug!(event, %error, "recording deferral failed");
        }
    }
}
