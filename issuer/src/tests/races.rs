//! Concurrent requests for one grant: every interleaving of their store operations is tried in turn.

use super::browser::{AuthorizeParams, ConsentForm, VERIFIER, redirect_of};
use super::{
    GrantType, IssuerFixture, IssuerReply, NewClientCredentials, REDIRECT, authenticate,
    form_request, open_node,
};
use crate::{OAuthClients, OAuthUsers};
use async_trait::async_trait;
use interzone_edge::auth::{AuthFailure, reason};
use interzone_edge::clock::Clock;
use interzone_hub::ports::{MemoryRecordStore, RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

tokio::task_local! {
    /// Index of the request that this task runs.
    static LANE: usize;
}

/// Progress of a request, as the scheduler sees it.
enum RaceStep {
    /// It waits for its next store operation.
    Waiting,
    /// It was answered.
    Answered,
}

/// In-memory store in which each request's operations wait for the scheduler.
struct SteppedStore {
    records: MemoryRecordStore,
    gates: Mutex<Option<Arc<StepGates>>>,
}

struct StepGates {
    lanes: [Semaphore; 2],
    steps: [mpsc::UnboundedSender<RaceStep>; 2],
}

impl SteppedStore {
    async fn wait_for_step(&self) {
        let gates = self.gates.lock().unwrap().clone();
        if let (Some(gates), Ok(lane)) = (gates, LANE.try_with(|lane| *lane)) {
            gates.steps[lane].send(RaceStep::Waiting).unwrap();
            gates.lanes[lane].acquire().await.unwrap().forget();
        }
    }
}

#[async_trait]
impl RecordStore for SteppedStore {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.wait_for_step().await;
        self.records.record(kind, key, now).await
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        self.wait_for_step().await;
        self.records.records(kind, now).await
    }

    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.wait_for_step().await;
        let store = &self.records;
        store
            .put_record(kind, key, value, expected, expires_at, now)
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.wait_for_step().await;
        self.records.take_record(kind, key, now).await
    }
}

/// One installation with a user and a public client.
struct RaceFixture {
    fixture: IssuerFixture,
    store: Arc<SteppedStore>,
    client: NewClientCredentials,
    passphrase: String,
}

/// Credentials of the client before the race.
struct RaceSession {
    code: String,
    /// Oldest first.
    access_tokens: Vec<String>,
    refresh_tokens: Vec<String>,
}

/// A step of the schedule.
#[derive(Debug)]
struct TakenStep {
    lane: usize,
    /// True if the other request was waiting, too.
    had_choice: bool,
}

/// Form of one of the two requests.
type TokenForm = Vec<(&'static str, String)>;

impl RaceFixture {
    async fn new() -> Self {
        let clock = Clock::fixed(super::NOW);
        let store = Arc::new(SteppedStore {
            records: MemoryRecordStore::default(),
            gates: Mutex::new(None),
        });
        let shared: Arc<dyn RecordStore> = store.clone();
        let issuer = open_node(&shared, &clock).await;
        let fixture = IssuerFixture {
            clients: OAuthClients::new(shared.clone(), clock.clone()),
            users: OAuthUsers::new(shared.clone(), clock.clone()),
            store: shared,
            clock,
            issuer,
        };
        let client = fixture
            .add_client(&[GrantType::AuthorizationCode], true)
            .await;
        let passphrase = fixture.users.add("ada").await.unwrap();
        Self {
            passphrase: passphrase.expose().to_owned(),
            fixture,
            store,
            client,
        }
    }

    async fn get_code(&self) -> String {
        // Stay below the sign-in rate limit.
        self.fixture.clock.advance(Duration::from_secs(6));
        let page = AuthorizeParams::new(&self.client, REDIRECT).path();
        let form = ConsentForm::read(&self.fixture.get(&page).await);
        let redirect = form.allow(&self.fixture, "ada", &self.passphrase).await;
        redirect_of(&redirect).1["code"].clone()
    }

    /// Returns a session whose refresh token was rotated `rotations` times.
    async fn session(&self, rotations: usize) -> RaceSession {
        let mut session = RaceSession {
            code: self.get_code().await,
            access_tokens: Vec::new(),
            refresh_tokens: Vec::new(),
        };
        let first = self.post(&self.exchange_form(&session)).await;
        session.add(&first);
        for _ in 0..rotations {
            let next = self
                .post(&self.refresh_form(session.refresh_tokens.last().unwrap()))
                .await;
            session.add(&next);
        }
        session
    }

    fn exchange_form(&self, session: &RaceSession) -> TokenForm {
        vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", session.code.clone()),
            ("redirect_uri", REDIRECT.to_owned()),
            ("code_verifier", VERIFIER.to_owned()),
            ("client_id", self.client.client_id.clone()),
        ]
    }

    fn refresh_form(&self, refresh: &str) -> TokenForm {
        vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.to_owned()),
            ("client_id", self.client.client_id.clone()),
        ]
    }

    async fn post(&self, form: &TokenForm) -> IssuerReply {
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, &**value)).collect();
        self.fixture.post("/oauth2/token", &form).await
    }

    /// Sends two requests and runs their steps in this order; after its end the first lane goes first.
    /// Returns the responses and the steps taken.
    async fn race(
        &self,
        forms: [TokenForm; 2],
        order: &[usize],
    ) -> ([IssuerReply; 2], Vec<TakenStep>) {
        let (first, first_steps) = mpsc::unbounded_channel();
        let (second, second_steps) = mpsc::unbounded_channel();
        let gates = Arc::new(StepGates {
            lanes: [Semaphore::new(0), Semaphore::new(0)],
            steps: [first, second],
        });
        *self.store.gates.lock().unwrap() = Some(gates.clone());
        let mut replies = Vec::new();
        for (lane, form) in forms.into_iter().enumerate() {
            let router = self.fixture.issuer.router();
            let gates = gates.clone();
            replies.push(tokio::spawn(LANE.scope(lane, async move {
                let form: Vec<(&str, &str)> =
                    form.iter().map(|(name, value)| (*name, &**value)).collect();
                let response = router.oneshot(form_request("/oauth2/token", &form));
                let (parts, body) = response.await.unwrap().into_parts();
                let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                gates.steps[lane].send(RaceStep::Answered).unwrap();
                IssuerReply {
                    status: parts.status,
                    headers: parts.headers,
                    text: String::from_utf8(bytes.to_vec()).unwrap(),
                }
            })));
        }
        let mut steps = [first_steps, second_steps];
        let mut is_waiting = [true, true];
        for lane in 0..2 {
            is_waiting[lane] = matches!(steps[lane].recv().await.unwrap(), RaceStep::Waiting);
        }
        let mut taken = Vec::new();
        while is_waiting[0] || is_waiting[1] {
            let preferred = order.get(taken.len()).copied().unwrap_or(0);
            let lane = if is_waiting[preferred] {
                preferred
            } else {
                1 - preferred
            };
            let had_choice = is_waiting[0] && is_waiting[1];
            gates.lanes[lane].add_permits(1);
            is_waiting[lane] = matches!(steps[lane].recv().await.unwrap(), RaceStep::Waiting);
            taken.push(TakenStep { lane, had_choice });
        }
        *self.store.gates.lock().unwrap() = None;
        let second = replies.pop().unwrap().await.unwrap();
        let first = replies.pop().unwrap().await.unwrap();
        ([first, second], taken)
    }

    /// Tries every interleaving, and asserts that none leaves a valid token.
    async fn assert_all_interleavings_revoke(
        &self,
        rotations: Option<usize>,
        forms: impl Fn(&RaceSession) -> [TokenForm; 2],
    ) {
        let auth = self.fixture.authenticator();
        let mut order = Vec::new();
        let mut orders = 0;
        loop {
            let mut session = match rotations {
                Some(rotations) => self.session(rotations).await,
                None => RaceSession {
                    code: self.get_code().await,
                    access_tokens: Vec::new(),
                    refresh_tokens: Vec::new(),
                },
            };
            let (replies, taken) = self.race(forms(&session), &order).await;
            for reply in &replies {
                match reply.status.as_u16() {
                    200 => session.add(reply),
                    _ => assert_eq!(reply.error(), (400, "invalid_grant".into())),
                }
            }
            for token in &session.access_tokens {
                let result = authenticate(&auth, token).await;
                let refusal = result.expect_err(&format!("a token is accepted after {taken:?}"));
                assert_eq!(refusal, AuthFailure::Invalid(reason::REVOKED), "{taken:?}");
            }
            for refresh in &session.refresh_tokens {
                let reply = self.post(&self.refresh_form(refresh)).await;
                assert_eq!(reply.error(), (400, "invalid_grant".into()), "{taken:?}");
            }
            orders += 1;
            // Depth first: the last step with a choice goes to the other request.
            let has_alternative = |step: &TakenStep| step.lane == 0 && step.had_choice;
            let Some(last) = taken.iter().rposition(has_alternative) else {
                break;
            };
            order = taken[..last].iter().map(|step| step.lane).collect();
            order.push(1);
        }
        assert!(orders > 20, "only {orders} orders were tried");
    }
}

impl RaceSession {
    fn add(&mut self, reply: &IssuerReply) {
        let body = reply.json();
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        self.access_tokens.push(text("access_token"));
        self.refresh_tokens.push(text("refresh_token"));
    }
}

#[tokio::test]
async fn concurrent_code_reuse_revokes_all_tokens() {
    let fixture = RaceFixture::new().await;
    let forms = |session: &RaceSession| {
        [
            fixture.exchange_form(session),
            fixture.exchange_form(session),
        ]
    };
    fixture.assert_all_interleavings_revoke(None, forms).await;
}

#[tokio::test]
async fn code_reuse_during_refresh_revokes_all_tokens() {
    let fixture = RaceFixture::new().await;
    let forms = |session: &RaceSession| {
        [
            fixture.exchange_form(session),
            fixture.refresh_form(&session.refresh_tokens[0]),
        ]
    };
    fixture
        .assert_all_interleavings_revoke(Some(0), forms)
        .await;
}

#[tokio::test]
async fn refresh_token_reuse_during_refresh_revokes_all_tokens() {
    let fixture = RaceFixture::new().await;
    let forms = |session: &RaceSession| {
        let [rotated, current] =
            [0, 1].map(|index| fixture.refresh_form(&session.refresh_tokens[index]));
        [rotated, current]
    };
    fixture
        .assert_all_interleavings_revoke(Some(1), forms)
        .await;
}

#[tokio::test]
async fn concurrent_refresh_token_use_revokes_all_tokens() {
    let fixture = RaceFixture::new().await;
    let forms = |session: &RaceSession| {
        [0, 0].map(|index| fixture.refresh_form(&session.refresh_tokens[index]))
    };
    fixture
        .assert_all_interleavings_revoke(Some(0), forms)
        .await;
}
