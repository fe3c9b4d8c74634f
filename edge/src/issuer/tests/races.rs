//! Two requests about one consent at the same time: every order in which their steps at the records can
//! happen is tried, one after another.

use super::browser::{Ask, Form, VERIFIER, sent_to};
use super::{Grant, House, Keep, NewSecret, REDIRECT, Reply, form_request, node, show};
use crate::auth::{Refusal, reason};
use crate::clock::Clock;
use crate::issuer::{Clients, KeepError, Kept, MemoryKeep, People};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

tokio::task_local! {
    /// Which of the two requests this task is.
    static LANE: usize;
}

/// What a request does next, as the schedule sees it.
enum Step {
    /// It waits for its next step at the records.
    Waits,
    /// It was answered.
    Answered,
}

/// Records in memory, at which each request takes a step only when it is told to.
struct SteppedKeep {
    records: MemoryKeep,
    gates: Mutex<Option<Arc<Gates>>>,
}

struct Gates {
    lanes: [Semaphore; 2],
    steps: [mpsc::UnboundedSender<Step>; 2],
}

impl SteppedKeep {
    async fn turn(&self) {
        let gates = self.gates.lock().unwrap().clone();
        if let (Some(gates), Ok(lane)) = (gates, LANE.try_with(|lane| *lane)) {
            gates.steps[lane].send(Step::Waits).unwrap();
            gates.lanes[lane].acquire().await.unwrap().forget();
        }
    }
}

#[async_trait]
impl Keep for SteppedKeep {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        self.turn().await;
        self.records.get(kind, key).await
    }

    async fn list(&self, kind: &str) -> Result<Vec<Kept>, KeepError> {
        self.turn().await;
        self.records.list(kind).await
    }

    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, KeepError> {
        self.turn().await;
        let put = self.records.put(kind, key, value, expected, expires_at);
        put.await
    }

    async fn take(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        self.turn().await;
        self.records.take(kind, key).await
    }
}

/// One installation, its person, and a client that has no secret.
struct Stage {
    house: House,
    keep: Arc<SteppedKeep>,
    client: NewSecret,
    passphrase: String,
}

/// What the client holds before the two requests.
struct Session {
    code: String,
    /// In the order in which they were made.
    access: Vec<String>,
    refresh: Vec<String>,
}

/// A step that was taken.
#[derive(Debug)]
struct Taken {
    lane: usize,
    /// Whether the other request waited too.
    had_choice: bool,
}

/// One of the two requests, as a form.
type TokenForm = Vec<(&'static str, String)>;

impl Stage {
    async fn build() -> Self {
        let clock = Clock::set(super::NOW);
        let keep = Arc::new(SteppedKeep {
            records: MemoryKeep::new(clock.clone()),
            gates: Mutex::new(None),
        });
        let shared: Arc<dyn Keep> = keep.clone();
        let issuer = node(&shared, &clock).await;
        let house = House {
            clients: Clients::new(shared.clone(), clock.clone()),
            people: People::new(shared.clone(), clock.clone()),
            keep: shared,
            clock,
            issuer,
        };
        let client = house.client(&[Grant::AuthorizationCode], true).await;
        let passphrase = house.people.add("ada").await.unwrap();
        Self {
            passphrase: passphrase.expose().to_owned(),
            house,
            keep,
            client,
        }
    }

    async fn code(&self) -> String {
        // As often as a person may sign in.
        self.house.clock.advance(Duration::from_secs(6));
        let page = Ask::new(&self.client, REDIRECT).path();
        let form = Form::read(&self.house.get(&page).await);
        let sent = form.allow(&self.house, "ada", &self.passphrase).await;
        sent_to(&sent).1["code"].clone()
    }

    /// A session whose refresh token was rotated so many times.
    async fn session(&self, rotations: usize) -> Session {
        let mut session = Session {
            code: self.code().await,
            access: Vec::new(),
            refresh: Vec::new(),
        };
        let first = self.post(&self.redeem(&session)).await;
        session.add(&first);
        for _ in 0..rotations {
            let next = self
                .post(&self.renew(session.refresh.last().unwrap()))
                .await;
            session.add(&next);
        }
        session
    }

    fn redeem(&self, session: &Session) -> TokenForm {
        vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", session.code.clone()),
            ("redirect_uri", REDIRECT.to_owned()),
            ("code_verifier", VERIFIER.to_owned()),
            ("client_id", self.client.client_id.clone()),
        ]
    }

    fn renew(&self, refresh: &str) -> TokenForm {
        vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.to_owned()),
            ("client_id", self.client.client_id.clone()),
        ]
    }

    async fn post(&self, form: &TokenForm) -> Reply {
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, &**value)).collect();
        self.house.post("/oauth2/token", &form).await
    }

    /// Sends two requests and lets them take their steps in this order; what the order leaves open is
    /// the first lane's. Answers what they got, and how it went.
    async fn race(&self, forms: [TokenForm; 2], order: &[usize]) -> ([Reply; 2], Vec<Taken>) {
        let (first, first_steps) = mpsc::unbounded_channel();
        let (second, second_steps) = mpsc::unbounded_channel();
        let gates = Arc::new(Gates {
            lanes: [Semaphore::new(0), Semaphore::new(0)],
            steps: [first, second],
        });
        *self.keep.gates.lock().unwrap() = Some(gates.clone());
        let mut replies = Vec::new();
        for (lane, form) in forms.into_iter().enumerate() {
            let router = self.house.issuer.router();
            let gates = gates.clone();
            replies.push(tokio::spawn(LANE.scope(lane, async move {
                let form: Vec<(&str, &str)> =
                    form.iter().map(|(name, value)| (*name, &**value)).collect();
                let answer = router.oneshot(form_request("/oauth2/token", &form));
                let (parts, body) = answer.await.unwrap().into_parts();
                let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                gates.steps[lane].send(Step::Answered).unwrap();
                Reply {
                    status: parts.status,
                    headers: parts.headers,
                    text: String::from_utf8(bytes.to_vec()).unwrap(),
                }
            })));
        }
        let mut steps = [first_steps, second_steps];
        let mut open = [true, true];
        for lane in 0..2 {
            open[lane] = matches!(steps[lane].recv().await.unwrap(), Step::Waits);
        }
        let mut taken = Vec::new();
        while open[0] || open[1] {
            let wanted = order.get(taken.len()).copied().unwrap_or(0);
            let lane = if open[wanted] { wanted } else { 1 - wanted };
            let had_choice = open[0] && open[1];
            gates.lanes[lane].add_permits(1);
            open[lane] = matches!(steps[lane].recv().await.unwrap(), Step::Waits);
            taken.push(Taken { lane, had_choice });
        }
        *self.keep.gates.lock().unwrap() = None;
        let second = replies.pop().unwrap().await.unwrap();
        let first = replies.pop().unwrap().await.unwrap();
        ([first, second], taken)
    }

    /// Tries every order, and asserts that none leaves a token of the session in force.
    async fn no_order_leaves_a_token(
        &self,
        rotations: Option<usize>,
        forms: impl Fn(&Session) -> [TokenForm; 2],
    ) {
        let auth = self.house.authenticator();
        let mut order = Vec::new();
        let mut orders = 0;
        loop {
            let mut session = match rotations {
                Some(rotations) => self.session(rotations).await,
                None => Session {
                    code: self.code().await,
                    access: Vec::new(),
                    refresh: Vec::new(),
                },
            };
            let (replies, taken) = self.race(forms(&session), &order).await;
            for reply in &replies {
                match reply.status.as_u16() {
                    200 => session.add(reply),
                    _ => assert_eq!(reply.error(), (400, "invalid_grant".into())),
                }
            }
            for token in &session.access {
                let shown = show(&auth, token).await;
                let refusal = shown.expect_err(&format!("a token is accepted after {taken:?}"));
                assert_eq!(refusal, Refusal::Invalid(reason::REVOKED), "{taken:?}");
            }
            for refresh in &session.refresh {
                let reply = self.post(&self.renew(refresh)).await;
                assert_eq!(reply.error(), (400, "invalid_grant".into()), "{taken:?}");
            }
            orders += 1;
            // Depth first: the last step that the other request could have taken is given to it.
            let next = |step: &Taken| step.lane == 0 && step.had_choice;
            let Some(last) = taken.iter().rposition(next) else {
                break;
            };
            order = taken[..last].iter().map(|step| step.lane).collect();
            order.push(1);
        }
        assert!(orders > 20, "only {orders} orders were tried");
    }
}

impl Session {
    fn add(&mut self, reply: &Reply) {
        let body = reply.json();
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        self.access.push(text("access_token"));
        self.refresh.push(text("refresh_token"));
    }
}

#[tokio::test]
async fn a_code_that_is_shown_twice_at_once_leaves_no_token() {
    let stage = Stage::build().await;
    let both = |session: &Session| [stage.redeem(session), stage.redeem(session)];
    stage.no_order_leaves_a_token(None, both).await;
}

#[tokio::test]
async fn a_code_that_is_shown_again_during_a_renewal_leaves_no_token() {
    let stage = Stage::build().await;
    let both = |session: &Session| [stage.redeem(session), stage.renew(&session.refresh[0])];
    stage.no_order_leaves_a_token(Some(0), both).await;
}

#[tokio::test]
async fn a_rotated_refresh_token_that_is_used_during_a_renewal_leaves_no_token() {
    let stage = Stage::build().await;
    let both = |session: &Session| {
        let [rotated, current] = [0, 1].map(|place| stage.renew(&session.refresh[place]));
        [rotated, current]
    };
    stage.no_order_leaves_a_token(Some(1), both).await;
}

#[tokio::test]
async fn a_refresh_token_that_is_used_twice_at_once_leaves_no_token() {
    let stage = Stage::build().await;
    let both = |session: &Session| [0, 0].map(|place| stage.renew(&session.refresh[place]));
    stage.no_order_leaves_a_token(Some(0), both).await;
}
