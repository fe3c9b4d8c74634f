//! Test fixtures of the reply module: a reply service with an inspectable fake Slack.

mod fake_thread;

pub(super) use fake_thread::{FakeThread, SlackFault};

use super::live::UpdateInterval;
use super::ports::{ReplyStore, TokenProvider};
use super::{ReplyOptions, ReplyService};
use crate::question::{ConversationKind, Question};
use crate::slack::api::Slack;
use crate::slack::fake::FakeSlack;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use crate::slack::tokens::{BotToken, Installation, SlackTokenOptions, SlackTokens};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use interzone_client::{Client, InProcess};
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_edge::tls::TrustRoots;
use interzone_hub::{HubError, NewOutboxEntry, OutboxEntry};
use interzone_protocol::vocab::{DeliveryId, Timestamp};
use interzone_protocol::zone::{ArtifactPart, ExecuteResult, ExecuteStatus, ZoneArtifact};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// In-memory store.
#[derive(Default)]
pub(super) struct MemoryReplyStore {
    records: Mutex<BTreeMap<(String, String), String>>,
    pub(super) entries: Mutex<Vec<NewOutboxEntry>>,
}

impl MemoryReplyStore {
    pub(super) async fn insert(&self, kind: &str, key: &str, value: &str) {
        self.put(kind, key, value, Duration::MAX).await.unwrap();
    }

    /// Removes all records of a kind.
    pub(super) fn remove_kind(&self, kind: &str) {
        let mut notes = self.records.lock().unwrap();
        notes.retain(|(other, _), _| other != kind);
    }
}

#[async_trait]
impl ReplyStore for MemoryReplyStore {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<String>, HubError> {
        let notes = self.records.lock().unwrap();
        Ok(notes.get(&(kind.to_owned(), key.to_owned())).cloned())
    }

    async fn list(&self, kind: &str) -> Result<Vec<(String, String)>, HubError> {
        let notes = self.records.lock().unwrap();
        let of_kind = notes.iter().filter(|((other, _), _)| other == kind);
        Ok(of_kind
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        _ttl: Duration,
    ) -> Result<(), HubError> {
        let mut notes = self.records.lock().unwrap();
        notes.insert((kind.to_owned(), key.to_owned()), value.to_owned());
        Ok(())
    }

    async fn enqueue(&self, entries: Vec<NewOutboxEntry>) -> Result<(), HubError> {
        let mut all = self.entries.lock().unwrap();
        for entry in entries {
            if !all.iter().any(|other| other.key == entry.key) {
                all.push(entry);
            }
        }
        Ok(())
    }
}

/// Token provider backed by the token store.
struct StoredTokens(SlackTokens);

#[async_trait]
impl TokenProvider for StoredTokens {
    async fn installation(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String> {
        let installation = self.0.installation(team, enterprise).await;
        installation.map_err(|error| error.to_string())
    }
}

/// Token provider that always returns the same installation.
struct FixedInstallation(Arc<Installation>);

#[async_trait]
impl TokenProvider for FixedInstallation {
    async fn installation(
        &self,
        _team: &TeamId,
        _enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// Reply service with a fake Slack.
pub(super) struct ReplyFixture {
    pub(super) service: ReplyService,
    pub(super) store: Arc<MemoryReplyStore>,
    pub(super) thread: Arc<Mutex<FakeThread>>,
    pub(super) installation: Arc<Installation>,
    request_hung: Arc<Notify>,
    _slack: FakeSlack,
}

impl ReplyFixture {
    pub(super) async fn new() -> Self {
        let thread = Arc::new(Mutex::new(FakeThread::default()));
        let hung = Arc::clone(&thread.lock().unwrap().request_hung);
        let origin = Arc::new(OnceLock::<String>::new());
        let (handler_thread, handler_origin) = (Arc::clone(&thread), Arc::clone(&origin));
        let slack = FakeSlack::start(move |request| {
            let origin = handler_origin.get().map_or("", String::as_str);
            let mut world = handler_thread.lock().unwrap();
            let reply = world.handle(request, origin);
            world.call_count.send_modify(|calls| *calls += 1);
            reply
        })
        .await;
        origin.set(slack.origin.clone()).unwrap();
        let api = Slack::new(&slack.api(), &TrustRoots::system()).unwrap();
        let store = Arc::new(MemoryReplyStore::default());
        let options = SlackTokenOptions {
            file: Some(BotToken::new("xoxb-1").unwrap()),
            installs: None,
            clock: Arc::new(interzone_hub::SystemClock),
        };
        let tokens = SlackTokens::new(api.clone(), options);
        let team = TeamId::new("T1").unwrap();
        let installation = tokens.installation(&team, None).await.unwrap().unwrap();
        thread.lock().unwrap().calls.clear();
        let service = ReplyService {
            slack: api,
            tokens: Arc::new(StoredTokens(tokens)),
            store: Arc::clone(&store) as Arc<dyn ReplyStore>,
            client: execution_zone_client(),
            features: Arc::default(),
            options: ReplyOptions {
                stop_button_delay: Duration::ZERO,
                ..ReplyOptions::default()
            },
            update_interval: UpdateInterval {
                large: Duration::ZERO,
                small: Duration::ZERO,
            },
        };
        Self {
            service,
            store,
            thread,
            installation,
            request_hung: hung,
            _slack: slack,
        }
    }

    pub(super) fn thread(&self) -> std::sync::MutexGuard<'_, FakeThread> {
        self.thread.lock().unwrap()
    }

    /// Receiver that changes with every call.
    pub(super) fn calls(&self) -> watch::Receiver<usize> {
        self.thread().call_count.subscribe()
    }

    pub(super) fn inject_fault(&self, method: &'static str, fault: SlackFault) {
        self.thread().faults.push((method, fault));
    }

    /// Runs a future until it completes or Slack hangs; then it is dropped, which simulates a crash.
    pub(super) async fn run_or_crash<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            output = work => Some(output),
            () = self.request_hung.notified() => None,
        }
    }

    /// A service whose installation has no bot identity.
    pub(super) fn service_without_identity(&self) -> ReplyService {
        let installation = Installation::from_token(self.installation.token.clone());
        ReplyService {
            tokens: Arc::new(FixedInstallation(Arc::new(installation))),
            ..self.service.clone()
        }
    }

    /// Delivers one entry, with retries, until it is delivered or has failed permanently.
    pub(super) async fn deliver(&self, entry: &NewOutboxEntry) -> DeliveryOutcome {
        let mut attempt = 1;
        loop {
            let entry = outbox_entry(entry, attempt);
            let handler = self.service.post_handler();
            match self
                .run_or_crash(handler.deliver(&entry))
                .await
                .map(Result::unwrap)
            {
                None | Some(DeliveryOutcome::Retry { .. }) => attempt += 1,
                Some(outcome) => return outcome,
            }
            assert!(attempt < 10, "too many attempts");
        }
    }

    /// Delivers entries in order.
    pub(super) async fn deliver_all(&self, entries: Vec<NewOutboxEntry>) {
        for entry in entries {
            assert_eq!(
                self.deliver(&entry).await,
                DeliveryOutcome::Delivered,
                "{}",
                entry.key
            );
        }
    }
}

pub(super) fn outbox_entry(entry: &NewOutboxEntry, attempt: u32) -> OutboxEntry {
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

/// An Execution Zone client with one task result, which has a file.
fn execution_zone_client() -> Client {
    let handler = InProcess::new(Arc::new(|request: http::Request<Bytes>| {
        let call: Value = serde_json::from_slice(request.body()).unwrap();
        let task_exists = call["params"]["task_id"] == "task-1";
        let response = if task_exists {
            let result = json!(file_result("Here it is."));
            let result = json!({"status": "completed", "task_id": "task-1", "result": result});
            json!({"jsonrpc": "2.0", "id": call["id"], "result": result})
        } else {
            let data = json!({"error_code": "task_not_found"});
            let error = json!({"code": -32000, "message": "no such task", "data": data});
            json!({"jsonrpc": "2.0", "id": call["id"], "error": error})
        };
        let body = Bytes::from(response.to_string());
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

pub(super) fn text_result(text: &str) -> ExecuteResult {
    ExecuteResult {
        response_text: Some(text.to_owned()),
        task_id: Some("task-1".to_owned()),
        ..ExecuteResult::new(ExecuteStatus::Success)
    }
}

pub(super) fn file_result(text: &str) -> ExecuteResult {
    ExecuteResult {
        artifacts: Some(vec![ZoneArtifact {
            artifact_id: "a-1".to_owned(),
            name: ZoneArtifact::FILE_NAME.to_owned(),
            parts: vec![ArtifactPart::File {
                content_base64: "YSxi".into(),
                file_name: "sales.csv".to_owned(),
                mime_type: "text/csv".to_owned(),
            }],
        }]),
        ..text_result(text)
    }
}

pub(crate) fn question() -> Question {
    let (team, channel) = (TeamId::new("T1").unwrap(), ChannelId::new("C1").unwrap());
    let ts = Ts::new("1000.000001").unwrap();
    Question {
        id: Question::derive_id(&team, &channel, &ts),
        event_id: "Ev1".to_owned(),
        team: team.clone(),
        enterprise: None,
        user_team: Some(team),
        channel,
        conversation_kind: ConversationKind::Channel,
        user: UserId::new("U1").unwrap(),
        thread: ts.clone(),
        ts,
        in_thread: false,
        text: "how much?".to_owned(),
        original_chars: None,
        forwarded: Vec::new(),
        files: Vec::new(),
        asked_at: Timestamp::from_millis(0),
    }
}
