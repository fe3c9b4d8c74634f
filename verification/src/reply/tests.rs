//! What the tests of the reply share: a desk before a Slack that they can look into.

mod world;

pub(super) use world::{Fault, World};

use super::live::Beat;
use super::poster::Carried;
use super::shelf::{Shelf, Ways};
use super::{Desk, ReplyOptions};
use crate::question::{PlaceKind, Question};
use crate::slack::api::Slack;
use crate::slack::fake::FakeSlack;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use crate::slack::tokens::{BotToken, Installation, Tokens, TokensOptions};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use interzone_client::{Client, InProcess};
use interzone_edge::tls::Trust;
use interzone_hub::{HubError, NewEntry, OutboxEntry};
use interzone_protocol::vocab::{DeliveryId, Timestamp};
use interzone_protocol::zone::{ArtifactPart, ExecuteResult, ExecuteStatus, ZoneArtifact};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A shelf in memory.
#[derive(Default)]
pub(super) struct MemoryShelf {
    notes: Mutex<BTreeMap<(String, String), String>>,
    pub(super) entries: Mutex<Vec<NewEntry>>,
}

impl MemoryShelf {
    pub(super) async fn know(&self, kind: &str, key: &str, value: &str) {
        self.keep(kind, key, value, Duration::MAX).await.unwrap();
    }

    /// As if the notes of a kind had never been stored.
    pub(super) fn forget(&self, kind: &str) {
        let mut notes = self.notes.lock().unwrap();
        notes.retain(|(other, _), _| other != kind);
    }
}

#[async_trait]
impl Shelf for MemoryShelf {
    async fn note(&self, kind: &str, key: &str) -> Result<Option<String>, HubError> {
        let notes = self.notes.lock().unwrap();
        Ok(notes.get(&(kind.to_owned(), key.to_owned())).cloned())
    }

    async fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, HubError> {
        let notes = self.notes.lock().unwrap();
        let of_kind = notes.iter().filter(|((other, _), _)| other == kind);
        Ok(of_kind
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    async fn keep(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        _keep: Duration,
    ) -> Result<(), HubError> {
        let mut notes = self.notes.lock().unwrap();
        notes.insert((kind.to_owned(), key.to_owned()), value.to_owned());
        Ok(())
    }

    async fn enqueue(&self, entries: Vec<NewEntry>) -> Result<(), HubError> {
        let mut all = self.entries.lock().unwrap();
        for entry in entries {
            if !all.iter().any(|other| other.key == entry.key) {
                all.push(entry);
            }
        }
        Ok(())
    }
}

/// The tokens, as replies know them.
struct Known(Tokens);

#[async_trait]
impl Ways for Known {
    async fn way(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String> {
        let way = self.0.installation(team, enterprise).await;
        way.map_err(|error| error.to_string())
    }
}

/// The same way, whoever asks.
struct Always(Arc<Installation>);

#[async_trait]
impl Ways for Always {
    async fn way(
        &self,
        _team: &TeamId,
        _enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// A desk before that world.
pub(super) struct Stage {
    pub(super) desk: Desk,
    pub(super) shelf: Arc<MemoryShelf>,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) at: Arc<Installation>,
    hung: Arc<Notify>,
    _slack: FakeSlack,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let hung = Arc::clone(&world.lock().unwrap().hung);
        let origin = Arc::new(OnceLock::<String>::new());
        let (inner, knows) = (Arc::clone(&world), Arc::clone(&origin));
        let slack = FakeSlack::start(move |seen| {
            let origin = knows.get().map_or("", String::as_str);
            let mut world = inner.lock().unwrap();
            let reply = world.answer(seen, origin);
            world.heard.send_modify(|calls| *calls += 1);
            reply
        })
        .await;
        origin.set(slack.origin.clone()).unwrap();
        let api = Slack::new(&slack.api(), &Trust::system()).unwrap();
        let shelf = Arc::new(MemoryShelf::default());
        let options = TokensOptions {
            file: Some(BotToken::new("xoxb-1").unwrap()),
            installs: None,
            clock: Arc::new(interzone_hub::SystemClock),
        };
        let tokens = Tokens::new(api.clone(), options);
        let team = TeamId::new("T1").unwrap();
        let at = tokens.installation(&team, None).await.unwrap().unwrap();
        world.lock().unwrap().calls.clear();
        let desk = Desk {
            slack: api,
            ways: Arc::new(Known(tokens)),
            shelf: Arc::clone(&shelf) as Arc<dyn Shelf>,
            client: zone(),
            features: Arc::default(),
            options: ReplyOptions {
                offer_stop_after: Duration::ZERO,
                ..ReplyOptions::default()
            },
            beat: Beat {
                plenty: Duration::ZERO,
                little: Duration::ZERO,
            },
        };
        Self {
            desk,
            shelf,
            world,
            at,
            hung,
            _slack: slack,
        }
    }

    pub(super) fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Changes with every call.
    pub(super) fn calls(&self) -> watch::Receiver<usize> {
        self.world().heard.subscribe()
    }

    pub(super) fn fault(&self, method: &'static str, fault: Fault) {
        self.world().faults.push((method, fault));
    }

    /// Runs something until it is done, or until Slack hangs: then it is dropped, as a crash would.
    pub(super) async fn or_crash<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.hung.notified() => None,
        }
    }

    /// A desk that does not know who we are.
    pub(super) fn stranger(&self) -> Desk {
        let at = Installation::unknown(self.at.token.clone());
        Desk {
            ways: Arc::new(Always(Arc::new(at))),
            ..self.desk.clone()
        }
    }

    /// Carries one entry, again and again until it has arrived or never will.
    pub(super) async fn carry(&self, entry: &NewEntry) -> Carried {
        let mut attempt = 1;
        loop {
            let entry = claimed(entry, attempt);
            let poster = self.desk.poster();
            match self.or_crash(poster.carry(&entry)).await {
                None | Some(Carried::Later { .. }) => attempt += 1,
                Some(done) => return done,
            }
            assert!(attempt < 10, "it never ends");
        }
    }

    /// Carries entries in their order.
    pub(super) async fn carry_all(&self, entries: Vec<NewEntry>) {
        for entry in entries {
            assert_eq!(self.carry(&entry).await, Carried::Arrived, "{}", entry.key);
        }
    }
}

pub(super) fn claimed(entry: &NewEntry, attempt: u32) -> OutboxEntry {
    OutboxEntry {
        id: DeliveryId::new("d1").unwrap(),
        channel: entry.channel.clone(),
        key: entry.key.clone(),
        group: entry.group.clone(),
        owner: entry.owner.clone(),
        subject: None,
        payload: entry.payload.clone(),
        created_at: Timestamp::from_millis(0),
        due_at: Timestamp::from_millis(0),
        attempt,
        error: None,
    }
}

/// An Execution Zone that has one result, with a file.
fn zone() -> Client {
    let handler = InProcess::new(Arc::new(|request: http::Request<Bytes>| {
        let asked: Value = serde_json::from_slice(request.body()).unwrap();
        let known = asked["params"]["task_id"] == "task-1";
        let answer = if known {
            let result = json!(with_file("Here it is."));
            let result = json!({"status": "completed", "task_id": "task-1", "result": result});
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        } else {
            let data = json!({"error_code": "task_not_found"});
            let error = json!({"code": -32000, "message": "no such task", "data": data});
            json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        };
        let body = Bytes::from(answer.to_string());
        let body = stream::once(async move { Ok(body) }).boxed();
        async move {
            http::Response::builder()
                .header("content-type", "application/json")
                .body(body)
                .unwrap()
        }
        .boxed()
    }));
    let transport = Arc::new(handler);
    Client::builder("https://zone.internal")
        .transport(transport)
        .build()
        .unwrap()
}

pub(super) fn answer(text: &str) -> ExecuteResult {
    ExecuteResult {
        response_text: Some(text.to_owned()),
        task_id: Some("task-1".to_owned()),
        ..ExecuteResult::new(ExecuteStatus::Success)
    }
}

pub(super) fn with_file(text: &str) -> ExecuteResult {
    ExecuteResult {
        artifacts: Some(vec![ZoneArtifact {
            artifact_id: "a-1".to_owned(),
            name: ZoneArtifact::FILE.to_owned(),
            parts: vec![ArtifactPart::File {
                content_base64: "YSxi".into(),
                file_name: "sales.csv".to_owned(),
                mime_type: "text/csv".to_owned(),
            }],
        }]),
        ..answer(text)
    }
}

pub(crate) fn question() -> Question {
    let (team, channel) = (TeamId::new("T1").unwrap(), ChannelId::new("C1").unwrap());
    let ts = Ts::new("1000.000001").unwrap();
    Question {
        id: Question::id_of(&team, &channel, &ts),
        event_id: "Ev1".to_owned(),
        team: team.clone(),
        enterprise: None,
        user_team: Some(team),
        channel,
        place: PlaceKind::Channel,
        user: UserId::new("U1").unwrap(),
        thread: ts.clone(),
        ts,
        in_thread: false,
        text: "how much?".to_owned(),
        too_long: None,
        forwarded: Vec::new(),
        files: Vec::new(),
        asked_at: Timestamp::from_millis(0),
    }
}
