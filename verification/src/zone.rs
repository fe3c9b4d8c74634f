//! What all parts of the zone share, and the one way in for what Slack tells: by a request or by a
//! socket, it is read, taken in once, and acknowledged when it is durable. What is done about it is
//! done later, by the workers.

use crate::errands::Errand;
use crate::gates::{Gates, People};
use crate::intake::{self, Incoming, Rules};
use crate::interactions::{self, Pressed};
use crate::options::{AskOptions, Check, ZoneOptions};
use crate::question::Question;
use crate::reply::{Desk, Ways};
use crate::slack::api::Slack;
use crate::slack::ids::TeamId;
use crate::slack::socket::{Ack, Envelopes};
use crate::slack::tokens::{Installation, Tokens};
use async_trait::async_trait;
use bytes::Bytes;
use interzone_client::Client;
use interzone_edge::Secret;
use interzone_edge::audit::Audit;
use interzone_edge::limits::HttpLimits;
use interzone_edge::readiness::{self, SharedCheck};
use interzone_edge::telemetry::Metrics;
use interzone_hub::{Hub, HubError, NewEntry};
use interzone_protocol::vocab::{Json, PrincipalId};
use serde::Serialize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The channel of the outbox in which questions wait.
pub const ASK_CHANNEL: &str = "slack.ask";
/// The channel in which stops and other small things wait.
pub const ERRAND_CHANNEL: &str = "slack.errand";

/// How long it is remembered that an event came. Slack repeats one for some minutes, and whoever has it
/// delivered later does so within an hour or so.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// The longest body that Slack sends.
const BODY: usize = 1024 * 1024;

/// The Verification Zone. Cheap to clone: clones are the same zone.
#[derive(Clone)]
pub struct Zone(pub(crate) Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) hub: Hub,
    pub(crate) slack: Slack,
    pub(crate) tokens: Tokens,
    pub(crate) client: Client,
    pub(crate) signing_secret: Option<Secret>,
    pub(crate) install: Option<axum::Router>,
    pub(crate) rules: Rules,
    pub(crate) gates: Gates,
    pub(crate) ask: AskOptions,
    /// Memory for the files of questions, in kibibytes.
    pub(crate) file_room: Semaphore,
    pub(crate) desk: Desk,
    pub(crate) limits: HttpLimits,
    pub(crate) audit: Audit,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) metrics_public: bool,
    pub(crate) checks: Vec<Check>,
    /// Whether the store can be read and written.
    pub(crate) store_check: SharedCheck<bool>,
    /// What is told beside, and keeps nobody from sending us events.
    pub(crate) neighbours: OnceLock<Vec<Check>>,
    pub(crate) stop: CancellationToken,
}

/// The tokens, as replies know them.
struct TokenWays(Tokens);

#[async_trait]
impl Ways for TokenWays {
    async fn way(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String> {
        let way = self.0.installation(team, enterprise).await;
        way.map_err(|error| error.to_string())
    }
}

/// What became of something that Slack told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Slack wants this echoed.
    Challenge(String),
    /// It is taken in, or needs nothing: a word for the metrics.
    Done(&'static str),
}

impl Zone {
    /// A zone. It does nothing until its [`router`](crate::router) is served and its
    /// [`Workers`](crate::workers::Workers) are started.
    pub fn new(options: ZoneOptions) -> Self {
        let people = People::new(options.slack.clone());
        let desk = Desk::new(
            options.slack.clone(),
            Arc::new(TokenWays(options.tokens.clone())),
            options.hub.clone(),
            options.client.clone(),
            options.reply,
        );
        let mut limits = options.limits;
        limits.body = limits.body.min(BODY);
        Self(Arc::new(Parts {
            gates: Gates::new(options.hub.clone(), people, options.gates),
            store_check: check_store(options.hub.clone()),
            hub: options.hub,
            slack: options.slack,
            tokens: options.tokens,
            client: options.client,
            signing_secret: options.signing_secret,
            install: options.install,
            rules: options.rules,
            file_room: Semaphore::new(usize::try_from(options.ask.pages()).unwrap_or(usize::MAX)),
            desk,
            ask: options.ask,
            limits,
            audit: options.audit,
            metrics: options.metrics,
            metrics_public: options.metrics_public,
            checks: options.checks,
            neighbours: OnceLock::new(),
            stop: options.stop,
        }))
    }

    /// Says how to find out which of those whom the zone needs is away. It is told with whether the zone is
    /// ready and does not change that: a zone that is alone still takes questions in and keeps them, and
    /// should go on to be sent some. Only the first call counts.
    pub fn look_after(&self, neighbours: Vec<Check>) {
        let _ = self.0.neighbours.set(neighbours);
    }

    /// Takes in an event, as the body of a request. It is durable when this answers, and may be
    /// acknowledged then and not before.
    ///
    /// # Errors
    /// The store did not take it: it must not be acknowledged, so that it comes again.
    pub async fn take_event(&self, body: &[u8]) -> Result<Taken, HubError> {
        let read = intake::read(body, &self.0.rules, self.0.hub.now());
        self.0.take(read).await
    }

    /// Takes in what somebody pressed, as the body of a request.
    ///
    /// # Errors
    /// As [`take_event`](Self::take_event).
    pub async fn take_action(&self, body: &[u8]) -> Result<Taken, HubError> {
        let read = interactions::read(body, self.0.hub.now());
        self.0.take_pressed(read).await
    }
}

/// What a socket brings is taken in like what comes to the door.
#[async_trait]
impl Envelopes for Zone {
    async fn envelope(&self, kind: &str, payload: Bytes) -> Ack {
        let taken = match kind {
            "events_api" => self.take_event(&payload).await,
            "interactive" => match serde_json::from_slice(&payload) {
                Ok(payload) => {
                    let read = interactions::classify(&payload, self.0.hub.now());
                    self.0.take_pressed(read).await
                }
                Err(_) => Ok(Taken::Done("unreadable")),
            },
            _ => Ok(Taken::Done("ignored")),
        };
        match taken {
            Ok(Taken::Challenge(_)) => Ack::Done,
            Ok(Taken::Done(word)) => {
                self.0.metrics.request("slack.socket", word, 0.0);
                Ack::Done
            }
            Err(error) => {
                tracing::error!(%error, "what slack told could not be kept");
                self.0.metrics.request("slack.socket", "unavailable", 0.0);
                Ack::Later
            }
        }
    }
}

impl Parts {
    async fn take(&self, incoming: Incoming) -> Result<Taken, HubError> {
        let event = |id: &str| format!("slack/event/{id}");
        match incoming {
            Incoming::Challenge(challenge) => Ok(Taken::Challenge(challenge)),
            Incoming::Question(mut question) => {
                question.shorten(self.gates.options.input_chars);
                let keys = [event(&question.event_id), asked(&question)];
                let work = ask(&question)?;
                self.receive(&keys, work, "question").await
            }
            Incoming::Followed(mut question) => {
                question.shorten(self.gates.options.input_chars);
                let keys = [event(&question.event_id)];
                let (team, id) = (question.team.clone(), question.event_id.clone());
                let work = errand(&team, &id, &Errand::Followed(question))?;
                self.receive(&keys, work, "followed").await
            }
            Incoming::Stop(stop) => {
                let keys = [event(&stop.event_id)];
                let (team, id) = (stop.team.clone(), stop.event_id.clone());
                let work = errand(&team, &id, &Errand::Stop(stop))?;
                self.receive(&keys, work, "stop").await
            }
            Incoming::Revoked(left) | Incoming::Uninstalled(left) => {
                let keys = [event(&left.event_id)];
                let (team, id) = (left.team.clone(), left.event_id.clone());
                let work = errand(&team, &id, &Errand::Forget(left))?;
                self.receive(&keys, work, "installation").await
            }
            Incoming::UserChanged(team, user) => {
                self.gates.forget(&team, &user);
                Ok(Taken::Done("user_changed"))
            }
            Incoming::RateLimited => {
                tracing::warn!("slack holds events back: there were too many in an hour");
                Ok(Taken::Done("rate_limited"))
            }
            Incoming::Ignored(reason) => {
                tracing::debug!(reason, "an event was ignored");
                Ok(Taken::Done("ignored"))
            }
        }
    }

    async fn take_pressed(&self, pressed: Pressed) -> Result<Taken, HubError> {
        match pressed {
            Pressed::Stop(stop) => {
                let user = stop.user.as_ref().map_or("", |user| user.as_str());
                let key = format!("slack/{}/{user}/{}", stop.event_id, stop.channel);
                let team = stop.team.clone();
                let work = errand(&team, &key, &Errand::Stop(stop))?;
                self.receive(&[key], work, "stop").await
            }
            Pressed::Feedback { given, pressed } => {
                let (team, user) = (given.team.clone(), &given.user);
                let voice = format!("{team}/{}/{user}", given.question);
                let key = format!("slack/feedback/{voice}/{pressed}");
                let mut work = errand(&team, &key, &Errand::Feedback(given))?;
                // The last press counts, so they stay in order.
                work.group = Some(format!("feedback/{voice}"));
                self.receive(&[key], work, "feedback").await
            }
            Pressed::Ignored(reason) => {
                tracing::debug!(reason, "something pressed was ignored");
                Ok(Taken::Done("ignored"))
            }
        }
    }

    async fn receive(
        &self,
        keys: &[String],
        work: NewEntry,
        word: &'static str,
    ) -> Result<Taken, HubError> {
        let new = self.hub.receive(keys, REMEMBERED, vec![work]).await?;
        Ok(Taken::Done(if new { word } else { "duplicate" }))
    }
}

/// The key of a question, which a mention and the message that it is in have in common.
pub(crate) fn asked(question: &Question) -> String {
    let Question {
        team, channel, ts, ..
    } = question;
    format!("slack/question/{team}/{channel}/{ts}")
}

/// A question as work to do. Those of one thread are asked one after another.
pub(crate) fn ask(question: &Question) -> Result<NewEntry, HubError> {
    let group = Some(format!("ask/{}", question.thread_key()));
    entry(ASK_CHANNEL, &question.id, group, &question.team, question)
}

fn errand(team: &TeamId, key: &str, errand: &Errand) -> Result<NewEntry, HubError> {
    entry(ERRAND_CHANNEL, key, None, team, errand)
}

/// Who is answerable for what leaves for a workspace.
pub(crate) fn owner(team: &TeamId) -> Result<PrincipalId, HubError> {
    let unusable = |_| HubError::Invalid {
        field: "team",
        reason: "its name is no principal",
    };
    PrincipalId::new(format!("slack:{team}")).map_err(unusable)
}

fn entry<T: Serialize>(
    channel: &str,
    key: &str,
    group: Option<String>,
    team: &TeamId,
    payload: &T,
) -> Result<NewEntry, HubError> {
    let unusable = |_| HubError::Invalid {
        field: "event",
        reason: "it has no JSON form",
    };
    Ok(NewEntry {
        channel: channel.to_owned(),
        key: key.to_owned(),
        group,
        owner: owner(team)?,
        subject: None,
        payload: Json::of(payload).map_err(unusable)?,
    })
}

/// Writes to the store and reads it back, at most once a second: `/readyz` asks for it, which every
/// caller may.
fn check_store(hub: Hub) -> SharedCheck<bool> {
    SharedCheck::new(readiness::INTERVAL, move || {
        let hub = hub.clone();
        async move {
            let checked = hub.store().check().await;
            if let Err(error) = &checked {
                tracing::warn!(%error, "the store cannot be used");
            }
            checked.is_ok()
        }
    })
}
