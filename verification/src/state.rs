//! Shared application state, and ingestion of Slack events: an event from HTTP or Socket Mode is parsed, accepted once
//! and acknowledged when it is durable. Workers process it later.

use crate::gates::{DirectoryCache, Gates};
use crate::http::SignatureRejectionLog;
use crate::intake::{self, QuestionRules, SlackEvent};
use crate::interactions::{self, Interaction};
use crate::jobs::BackgroundJob;
use crate::options::{AskOptions, DependencyCheck, VerificationOptions};
use crate::question::Question;
use crate::reply::{ReplyService, TokenProvider};
use crate::slack::api::Slack;
use crate::slack::ids::TeamId;
use crate::slack::socket::{EnvelopeAck, EnvelopeHandler};
use crate::slack::tokens::{Installation, SlackTokens};
use async_trait::async_trait;
use bytes::Bytes;
use interzone_client::Client;
use interzone_edge::Secret;
use interzone_edge::audit::Audit;
use interzone_edge::limits::HttpLimits;
use interzone_edge::readiness::{self, SharedCheck};
use interzone_edge::telemetry::Metrics;
use interzone_hub::{Hub, HubError, NewOutboxEntry};
use interzone_protocol::vocab::{PrincipalId, VerbatimJson};
use serde::Serialize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Outbox channel of questions.
pub const ASK_CHANNEL: &str = "slack.ask";
/// Outbox channel of background jobs such as stops.
pub const JOB_CHANNEL: &str = "slack.errand";

/// Retention of event ids for deduplication. Slack repeats an event for some minutes; delayed events arrive within
/// about an hour.
const EVENT_DEDUP_TTL: Duration = Duration::from_secs(24 * 3_600);

/// Maximum size of a Slack request body.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// State of the Verification Zone. Cheap to clone: clones share the state.
#[derive(Clone)]
pub struct VerificationState(pub(crate) Arc<StateInner>);

pub(crate) struct StateInner {
    pub(crate) hub: Hub,
    pub(crate) slack: Slack,
    pub(crate) tokens: SlackTokens,
    pub(crate) client: Client,
    pub(crate) signing_secret: Option<Secret>,
    pub(crate) install: Option<axum::Router>,
    pub(crate) rules: QuestionRules,
    pub(crate) gates: Gates,
    pub(crate) ask: AskOptions,
    /// Memory for attachments of questions, in KiB.
    pub(crate) file_memory: Semaphore,
    pub(crate) replies: ReplyService,
    pub(crate) limits: HttpLimits,
    pub(crate) audit: Audit,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) metrics_public: bool,
    pub(crate) signature_rejections: SignatureRejectionLog,
    pub(crate) checks: Vec<DependencyCheck>,
    /// Checks that the store is readable and writable.
    pub(crate) store_check: SharedCheck<bool>,
    /// Dependencies reported by `/readyz` that do not affect readiness.
    pub(crate) dependency_checks: OnceLock<Vec<DependencyCheck>>,
    pub(crate) stop: CancellationToken,
}

/// [`TokenProvider`] backed by the Slack token store.
struct InstallationTokens(SlackTokens);

#[async_trait]
impl TokenProvider for InstallationTokens {
    async fn installation(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String> {
        let installation = self.0.installation(team, enterprise).await;
        installation.map_err(|error| error.to_string())
    }
}

/// Result of ingesting a Slack event or interaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngestResult {
    /// URL verification challenge to echo.
    Challenge(String),
    /// Accepted or ignored, with the metrics label.
    Done(&'static str),
}

impl VerificationState {
    /// Creates the state. Nothing happens until its [`router`](crate::router) is served and its
    /// workers ([`crate::workers`]) are started.
    pub fn new(options: VerificationOptions) -> Self {
        let directory = DirectoryCache::new(options.slack.clone());
        let replies = ReplyService::new(
            options.slack.clone(),
            Arc::new(InstallationTokens(options.tokens.clone())),
            options.hub.clone(),
            options.client.clone(),
            options.reply,
        );
        let mut limits = options.limits;
        limits.body_bytes = limits.body_bytes.min(MAX_BODY_BYTES);
        Self(Arc::new(StateInner {
            gates: Gates::new(options.hub.clone(), directory, options.gates),
            store_check: check_store(options.hub.clone()),
            hub: options.hub,
            slack: options.slack,
            tokens: options.tokens,
            client: options.client,
            signing_secret: options.signing_secret,
            install: options.install,
            rules: options.rules,
            file_memory: Semaphore::new(
                usize::try_from(options.ask.file_memory_kib()).unwrap_or(usize::MAX),
            ),
            replies,
            ask: options.ask,
            limits,
            audit: options.audit,
            metrics: options.metrics,
            metrics_public: options.metrics_public,
            signature_rejections: SignatureRejectionLog::default(),
            checks: options.checks,
            dependency_checks: OnceLock::new(),
            stop: options.stop,
        }))
    }

    /// Sets the checks of dependencies that `/readyz` reports. They do not change readiness: a zone without its
    /// dependencies still accepts and stores questions, so it should keep receiving them. Only the first call counts.
    pub fn set_dependency_checks(&self, checks: Vec<DependencyCheck>) {
        let _ = self.0.dependency_checks.set(checks);
    }

    /// Ingests an event from a request body. It is durable when this returns `Ok`, and may be acknowledged only then.
    ///
    /// # Errors
    /// The store failed: the event must not be acknowledged, so that Slack sends it again.
    pub async fn ingest_event(&self, body: &[u8]) -> Result<IngestResult, HubError> {
        let event = intake::parse(body, &self.0.rules, self.0.hub.now());
        self.0.accept_event(event).await
    }

    /// Ingests an interaction (button press) from a request body.
    ///
    /// # Errors
    /// As [`ingest_event`](Self::ingest_event).
    pub async fn ingest_interaction(&self, body: &[u8]) -> Result<IngestResult, HubError> {
        let interaction = interactions::parse(body, self.0.hub.now());
        self.0.accept_interaction(interaction).await
    }
}

/// Ingests Socket Mode envelopes like HTTP requests.
#[async_trait]
impl EnvelopeHandler for VerificationState {
    async fn handle(&self, kind: &str, payload: Bytes) -> EnvelopeAck {
        let result = match kind {
            "events_api" => self.ingest_event(&payload).await,
            "interactive" => match serde_json::from_slice(&payload) {
                Ok(payload) => {
                    let interaction = interactions::classify(&payload, self.0.hub.now());
                    self.0.accept_interaction(interaction).await
                }
                Err(_) => Ok(IngestResult::Done("unreadable")),
            },
            _ => Ok(IngestResult::Done("ignored")),
        };
        match result {
            Ok(IngestResult::Challenge(_)) => EnvelopeAck::Done,
            Ok(IngestResult::Done(label)) => {
                self.0.metrics.record_request("slack.socket", label, 0.0);
                EnvelopeAck::Done
            }
            Err(error) => {
                tracing::error!(%error, "storing slack event failed");
                self.0
                    .metrics
                    .record_request("slack.socket", "unavailable", 0.0);
                EnvelopeAck::Retry
            }
        }
    }
}

impl StateInner {
    async fn accept_event(&self, slack_event: SlackEvent) -> Result<IngestResult, HubError> {
        let event_key = |id: &str| format!("slack/event/{id}");
        match slack_event {
            SlackEvent::Challenge(challenge) => Ok(IngestResult::Challenge(challenge)),
            SlackEvent::Question(mut question) => {
                question.truncate(self.gates.options.input_chars);
                let keys = [event_key(&question.event_id), question_key(&question)];
                let work = ask_entry(&question)?;
                self.enqueue_once(&keys, work, "question").await
            }
            SlackEvent::FollowUp(mut question) => {
                question.truncate(self.gates.options.input_chars);
                let keys = [event_key(&question.event_id)];
                let (team, id) = (question.team.clone(), question.event_id.clone());
                let work = job_entry(&team, &id, &BackgroundJob::Followed(question))?;
                self.enqueue_once(&keys, work, "followed").await
            }
            SlackEvent::Stop(stop) => {
                let keys = [event_key(&stop.event_id)];
                let (team, id) = (stop.team.clone(), stop.event_id.clone());
                let work = job_entry(&team, &id, &BackgroundJob::Stop(stop))?;
                self.enqueue_once(&keys, work, "stop").await
            }
            SlackEvent::Revoked(left) | SlackEvent::Uninstalled(left) => {
                let keys = [event_key(&left.event_id)];
                let (team, id) = (left.team.clone(), left.event_id.clone());
                let work = job_entry(&team, &id, &BackgroundJob::RemoveToken(left))?;
                self.enqueue_once(&keys, work, "installation").await
            }
            SlackEvent::UserChanged(team, user) => {
                self.gates.invalidate_user(&team, &user);
                Ok(IngestResult::Done("user_changed"))
            }
            SlackEvent::RateLimited => {
                tracing::warn!("slack rate limited event delivery for an hour");
                Ok(IngestResult::Done("rate_limited"))
            }
            SlackEvent::Ignored(reason) => {
                tracing::debug!(reason, "event ignored");
                Ok(IngestResult::Done("ignored"))
            }
        }
    }

    async fn accept_interaction(&self, interaction: Interaction) -> Result<IngestResult, HubError> {
        match interaction {
            Interaction::Stop(stop) => {
                let user = stop.user.as_ref().map_or("", |user| user.as_str());
                let key = format!("slack/{}/{user}/{}", stop.event_id, stop.channel);
                let team = stop.team.clone();
                let work = job_entry(&team, &key, &BackgroundJob::Stop(stop))?;
                self.enqueue_once(&[key], work, "stop").await
            }
            Interaction::Feedback {
                feedback: given,
                pressed_at: pressed,
            } => {
                let (team, user) = (given.team.clone(), &given.user);
                let vote_key = format!("{team}/{}/{user}", given.question);
                let key = format!("slack/feedback/{vote_key}/{pressed}");
                let mut work = job_entry(&team, &key, &BackgroundJob::Feedback(given))?;
                // The last press counts, so presses are processed in order.
                work.group = Some(format!("feedback/{vote_key}"));
                self.enqueue_once(&[key], work, "feedback").await
            }
            Interaction::Ignored(reason) => {
                tracing::debug!(reason, "interaction ignored");
                Ok(IngestResult::Done("ignored"))
            }
        }
    }

    async fn enqueue_once(
        &self,
        keys: &[String],
        work: NewOutboxEntry,
        label: &'static str,
    ) -> Result<IngestResult, HubError> {
        let is_new = self
            .hub
            .accept_once(keys, EVENT_DEDUP_TTL, vec![work])
            .await?;
        Ok(IngestResult::Done(if is_new { label } else { "duplicate" }))
    }
}

/// Returns the deduplication key of a question, shared by an app mention and the message that contains it.
pub(crate) fn question_key(question: &Question) -> String {
    let Question {
        team, channel, ts, ..
    } = question;
    format!("slack/question/{team}/{channel}/{ts}")
}

/// Returns the outbox entry of a question. Questions of one thread are processed in order.
pub(crate) fn ask_entry(question: &Question) -> Result<NewOutboxEntry, HubError> {
    let group = Some(format!("ask/{}", question.thread_key()));
    outbox_entry(ASK_CHANNEL, &question.id, group, &question.team, question)
}

fn job_entry(team: &TeamId, key: &str, job: &BackgroundJob) -> Result<NewOutboxEntry, HubError> {
    outbox_entry(JOB_CHANNEL, key, None, team, job)
}

/// Returns the principal that owns outbox entries of a workspace.
pub(crate) fn owner(team: &TeamId) -> Result<PrincipalId, HubError> {
    let invalid_team = |_| HubError::Invalid {
        field: "team",
        reason: "cannot be used as a principal",
    };
    PrincipalId::new(format!("slack:{team}")).map_err(invalid_team)
}

fn outbox_entry<T: Serialize>(
    channel: &str,
    key: &str,
    group: Option<String>,
    team: &TeamId,
    payload: &T,
) -> Result<NewOutboxEntry, HubError> {
    let unserializable = |_| HubError::Invalid {
        field: "event",
        reason: "cannot be serialized as JSON",
    };
    Ok(NewOutboxEntry {
        channel: channel.to_owned(),
        key: key.to_owned(),
        group,
        owner: owner(team)?,
        subject: None,
        payload: VerbatimJson::from_value(payload).map_err(unserializable)?,
    })
}

/// Returns a check that writes to the store and reads it back, at most once a second because `/readyz` is open to
/// every caller.
fn check_store(hub: Hub) -> SharedCheck<bool> {
    SharedCheck::new(readiness::CHECK_INTERVAL, move || {
        let hub = hub.clone();
        async move {
            let result = hub.store().check().await;
            if let Err(error) = &result {
                tracing::warn!(%error, "store check failed");
            }
            result.is_ok()
        }
    })
}
