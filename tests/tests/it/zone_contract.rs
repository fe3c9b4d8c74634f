//! The contract between the zones, as somebody sees it who calls the Execution Zone: on a real store, with
//! real tokens and workers, and agents that do what a test tells them.

mod bad_input;
mod feedback;
mod files;
mod live;
mod once;
mod requirements;
mod settled;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, Keys};
use interzone_edge::clock::Clock as EdgeClock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::issuer::{
    Clients, Grant, Issuer, IssuerOptions, MemoryKeep, NewClient, Scope as IssuerScope,
};
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{Trust, install_provider};
use interzone_execution::agents::DemoAgent;
use interzone_execution::files::{FileReader, FileRules, InputRules};
use interzone_execution::intake::Intake;
use interzone_execution::workers::{Carried, Carrier, WorkerOptions, Workers};
use interzone_execution::{Operator, Zone, ZoneOptions, router};
use interzone_hub::{
    Agent, AgentError, AgentInfo, Hub, HubError, Limits, OutboxEntry, Outcome, Output, RandomIds,
    Registry, SystemClock, Turn,
};
use interzone_protocol::acp::Scope;
use interzone_protocol::vocab::{AgentId, Message};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const URL: &str = "https://zone.test";
const BOT_TOKEN: &str = "xoxb-very-secret-capability";
const PATIENCE: Duration = Duration::from_secs(40);

type Script =
    dyn Fn(Turn, Arc<dyn Output>) -> BoxFuture<'static, Result<Outcome, AgentError>> + Send + Sync;

/// An agent that does what a test says.
struct Actor {
    info: AgentInfo,
    script: Box<Script>,
}

#[async_trait::async_trait]
impl Agent for Actor {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(&self, turn: Turn, output: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        (self.script)(turn, output).await
    }
}

/// An agent with this name and script.
fn actor<F>(
    id: &str,
    script: impl Fn(Turn, Arc<dyn Output>) -> F + Send + Sync + 'static,
) -> Arc<dyn Agent>
where
    F: Future<Output = Result<Outcome, AgentError>> + Send + 'static,
{
    Arc::new(Actor {
        info: AgentInfo {
            id: AgentId::new(id).unwrap(),
            name: id.to_owned(),
            description: format!("the agent {id}"),
            skills: Vec::new(),
            concurrency: 64,
        },
        script: Box::new(move |turn, output| Box::pin(script(turn, output))),
    })
}

fn demo() -> Arc<dyn Agent> {
    Arc::new(DemoAgent::new(AgentId::new("demo").unwrap(), 64))
}

fn said(words: &str) -> Outcome {
    Outcome::Completed {
        message: Some(Message::agent_text(words)),
        direct: true,
    }
}

/// What differs from one test to the next.
struct Setup {
    agents: Vec<Arc<dyn Agent>>,
    channels: Vec<(&'static str, &'static str)>,
    budget: Duration,
    files: FileRules,
    per_minute: u32,
    limits: HttpLimits,
    /// Where the store is, if it is there already.
    folder: Option<Arc<TempDir>>,
    /// The store, if it is shared with another node.
    store: Option<Arc<SqliteStore>>,
    node: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            agents: vec![demo()],
            channels: Vec::new(),
            budget: PATIENCE,
            files: FileRules::default(),
            per_minute: 0,
            limits: HttpLimits::default(),
            folder: None,
            store: None,
            node: "node",
        }
    }
}

struct NoWebhooks;

#[async_trait::async_trait]
impl Carrier for NoWebhooks {
    async fn carry(&self, _: &Hub, _: &OutboxEntry) -> Result<Carried, HubError> {
        panic!("nothing should leave here");
    }
}

/// A zone that works.
struct World {
    hub: Hub,
    store: Arc<SqliteStore>,
    folder: Arc<TempDir>,
    clients: Clients,
    /// Decides how old tokens are.
    clock: EdgeClock,
    stop: CancellationToken,
    workers: Option<Workers>,
    router: Router,
    /// A connection to the zone, without TLS and without a network.
    connect: Box<dyn Fn() -> tokio::io::DuplexStream + Send + Sync>,
}

type Router = Box<dyn Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync>;
type Call = Request<http_body_util::Full<Bytes>>;
type Reply = http::Response<futures_util::stream::BoxStream<'static, Bytes>>;

impl World {
    async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    async fn with(setup: Setup) -> Self {
        install_provider();
        let folder = setup
            .folder
            .unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let store = match setup.store {
            Some(store) => store,
            None => {
                let path = folder.path().join("zone.db");
                let store = SqliteStore::open(&path, SqliteOptions::default()).await;
                Arc::new(store.unwrap())
            }
        };
        let mut agents = Registry::default();
        setup.agents.into_iter().for_each(|agent| agents.add(agent));
        for (channel, agent) in setup.channels {
            let agent = AgentId::new(agent).unwrap();
            agents.route_channel(channel, &agent).unwrap();
        }
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let stop = CancellationToken::new();
        let workers = Workers::start(
            hub.clone(),
            Arc::new(NoWebhooks),
            WorkerOptions {
                intake: Some(Arc::new(Intake::new(
                    Egress::new(&EgressOptions::default()).unwrap(),
                    FileReader::new(crate::file_reader::program(), 4),
                    InputRules::default(),
                ))),
                ..WorkerOptions::new(setup.node)
            },
            Arc::new(()),
            stop.clone(),
        );
        let clock = EdgeClock::set(EdgeClock::machine().unix());
        let keep = Arc::new(MemoryKeep::new(clock.clone()));
        let scopes = Scope::ALL.map(|scope| IssuerScope::new(scope.name(), ""));
        let options = IssuerOptions {
            clock: clock.clone(),
            ..IssuerOptions::new(URL, vec![URL.to_owned()], scopes.into())
        };
        let issuer = Issuer::open(keep.clone(), options).await.unwrap();
        let auth = Authenticator::new(AuthOptions {
            issuer: URL.to_owned(),
            audience: vec![URL.to_owned()],
            keys: Keys::Local(Arc::new(issuer.clone())),
            introspection: None,
            leeway: AuthOptions::LEEWAY,
            trust: Trust::system(),
            clock: clock.clone(),
        });
        let metrics = Arc::new(Metrics::new());
        let audit = folder.path().join("audit.log");
        let zone = Zone::new(ZoneOptions {
            hub: hub.clone(),
            auth: Arc::new(auth.unwrap()),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: setup.limits,
            rate: RateLimiter::new(setup.per_minute, setup.per_minute),
            audit: Audit::to_file(&audit, metrics.clone()).unwrap(),
            pairs: None,
            metrics,
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: false,
            batch: 1000,
            sync_budget: setup.budget,
            files: Arc::new(setup.files),
            operator: Operator::default(),
            checks: Vec::new(),
            stop: stop.clone(),
        });
        let routes = router(zone);
        let served = routes.clone();
        let connect = Box::new(move || {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let served = hyper_util::service::TowerToHyperService::new(served.clone());
            tokio::spawn(async move {
                let executor = hyper_util::rt::TokioExecutor::new();
                let server = hyper_util::server::conn::auto::Builder::new(executor);
                let io = hyper_util::rt::TokioIo::new(ours);
                // However the other side ends it is fine.
                let _ = server.serve_connection_with_upgrades(io, served).await;
            });
            theirs
        });
        let router: Router = Box::new(move |request| {
            let routes = routes.clone();
            Box::pin(async move {
                let Ok(reply) = tower::ServiceExt::oneshot(routes, request).await;
                reply.map(|body| {
                    let pieces = body.into_data_stream();
                    pieces.map(|piece| piece.unwrap()).boxed()
                })
            })
        });
        Self {
            hub,
            store,
            folder,
            clients: Clients::new(keep, clock.clone()),
            clock,
            stop,
            workers: Some(workers),
            router,
            connect,
        }
    }

    /// Ends the zone as a node that leaves does, and gives its folder for the next.
    async fn end(mut self) -> Arc<TempDir> {
        self.stop.cancel();
        if let Some(workers) = self.workers.take() {
            workers.join(PATIENCE).await;
        }
        self.folder.clone()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A token for a client of this name with all scopes.
    async fn token(&self, name: &str) -> String {
        let all: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
        self.token_with(name, &all).await
    }

    async fn token_with(&self, name: &str, scopes: &[&str]) -> String {
        let new = NewClient {
            id: Some(name.to_owned()),
            name: name.to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            grants: vec![Grant::ClientCredentials],
            ..NewClient::default()
        };
        let client = self.clients.add(new).await.unwrap();
        let form = format!(
            "grant_type=client_credentials&client_id={name}&client_secret={}",
            client.secret.unwrap().expose()
        );
        let request = Request::post("/oauth2/token")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form.into())
            .unwrap();
        let (status, _, body) = self.send(request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["access_token"].as_str().unwrap().to_owned()
    }

    async fn send(&self, request: Call) -> (StatusCode, HeaderMap, String) {
        let reply = tokio::time::timeout(PATIENCE, async {
            let (parts, body) = (self.router)(request).await.into_parts();
            let body: Vec<Bytes> = body.collect().await;
            (parts, body)
        });
        let (parts, body) = reply.await.expect("an answer");
        let body = String::from_utf8(body.concat()).unwrap();
        (parts.status, parts.headers, body)
    }

    fn request(token: &str, body: impl Into<Bytes>) -> Call {
        Request::post("/jsonrpc")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .body(http_body_util::Full::new(body.into()))
            .unwrap()
    }

    async fn post(&self, token: &str, body: impl Into<Bytes>) -> (StatusCode, HeaderMap, String) {
        self.send(Self::request(token, body)).await
    }

    /// Calls a method under an id, and gives the whole answer. It has exactly one of result and error,
    /// the id that was sent, and an error has its word.
    async fn call_as(&self, token: &str, id: Value, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (_, _, body) = self.post(token, call.to_string()).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["id"], id);
        checked(answer)
    }

    async fn call(&self, token: &str, method: &str, params: Value) -> Value {
        self.call_as(token, json!(1), method, params).await
    }

    /// Has something done, and gives the result.
    async fn ask(&self, token: &str, text: &str) -> Value {
        let answer = self.call(token, "execute_task", params(text)).await;
        assert!(answer["error"].is_null(), "{text}: {answer}");
        answer["result"].clone()
    }

    /// Has something done that fails, and gives the code and the data of the error.
    async fn fault(&self, token: &str, method: &str, params: Value) -> (i64, Value) {
        let answer = self.call(token, method, params).await;
        let code = answer["error"]["code"].as_i64();
        let code = code.unwrap_or_else(|| panic!("an error was expected: {answer}"));
        (code, answer["error"]["data"].clone())
    }

    /// Asks until the task has come to an end.
    async fn outcome(&self, token: &str, task: &Value) -> Value {
        let id = interzone_protocol::vocab::TaskId::new(task.as_str().unwrap()).unwrap();
        let caller = interzone_hub::Caller::operator("tests".parse().unwrap());
        let subject = interzone_hub::Subject::Task(id);
        let mut watch = self.hub.watch(&caller, subject, 0).await.unwrap();
        let all = async { while watch.next().await.unwrap().is_some() {} };
        tokio::time::timeout(PATIENCE, all).await.expect("an end");
        let params = json!({"task_id": task});
        self.call(token, "get_task_result", params).await["result"].clone()
    }
}

/// An answer that keeps the rules of every answer.
fn checked(answer: Value) -> Value {
    assert_eq!(answer["jsonrpc"], "2.0");
    let has = |name: &str| answer.get(name).is_some();
    assert!(has("result") != has("error") && has("id"), "{answer}");
    if has("error") {
        let error = &answer["error"];
        assert!(error["code"].is_i64() && error["message"].is_string());
        assert!(error["data"]["error_code"].is_string(), "{answer}");
    }
    assert!(!answer.to_string().contains(BOT_TOKEN), "{answer}");
    answer
}

fn params(text: &str) -> Value {
    json!({"channel": "C1", "text": text, "bot_token": BOT_TOKEN})
}

/// The same with more members, or others.
fn params_with(text: &str, more: &Value) -> Value {
    let mut params = params(text);
    let members = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(members);
    params
}

fn call(id: &Value, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": params})
}
