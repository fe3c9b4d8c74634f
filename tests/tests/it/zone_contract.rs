//! The contract between the zones, as a client of the Execution Zone sees it: on a real store, with real tokens
//! and workers, and scripted agents.

mod bad_input;
mod call_stream;
mod feedback;
mod idempotency;
mod output_files;
mod requirements;
mod unspecified;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, KeyConfig};
use interzone_edge::clock::Clock as EdgeClock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate_limiter::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{TrustRoots, install_provider};
use interzone_execution::agents::DemoAgent;
use interzone_execution::attachments::AttachmentLoader;
use interzone_execution::files::{FileReader, FileRules, InputRules};
use interzone_execution::workers::{WorkerOptions, Workers};
use interzone_execution::{ExecutionOptions, ExecutionState, OperatorInfo, router};
use interzone_hub::ports::MemoryRecordStore;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Hub, HubError, Limits, OutboxEntry, RandomIds,
    Registry, SystemClock, Turn, TurnOutcome, TurnOutput,
};
use interzone_issuer::{
    GrantType, Issuer, IssuerOptions, NewOAuthClient, OAuthClients, ScopeDefinition as IssuerScope,
};
use interzone_protocol::Scope;
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
const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

type AgentFn = dyn Fn(Turn, Arc<dyn TurnOutput>) -> BoxFuture<'static, Result<TurnOutcome, AgentError>>
    + Send
    + Sync;

/// Agent that runs a closure of the test.
struct ClosureAgent {
    info: AgentInfo,
    script: Box<AgentFn>,
}

#[async_trait::async_trait]
impl Agent for ClosureAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(
        &self,
        turn: Turn,
        output: Arc<dyn TurnOutput>,
    ) -> Result<TurnOutcome, AgentError> {
        (self.script)(turn, output).await
    }
}

/// Creates an agent with this id and script.
pub(crate) fn scripted_agent<F>(
    id: &str,
    script: impl Fn(Turn, Arc<dyn TurnOutput>) -> F + Send + Sync + 'static,
) -> Arc<dyn Agent>
where
    F: Future<Output = Result<TurnOutcome, AgentError>> + Send + 'static,
{
    Arc::new(ClosureAgent {
        info: AgentInfo {
            id: AgentId::new(id).unwrap(),
            name: id.to_owned(),
            description: format!("the agent {id}"),
            skills: Vec::new(),
            concurrency: 64,
            profile: AgentProfile::default(),
        },
        script: Box::new(move |turn, output| Box::pin(script(turn, output))),
    })
}

pub(crate) fn demo_agent() -> Arc<dyn Agent> {
    Arc::new(DemoAgent::new(AgentId::new("demo").unwrap(), 64))
}

pub(crate) fn completed_with(text: &str) -> TurnOutcome {
    TurnOutcome::Completed {
        message: Some(Message::agent_text(text)),
        direct: true,
    }
}

/// Parameters of the zone under test.
pub(crate) struct ZoneSetup {
    pub(crate) agents: Vec<Arc<dyn Agent>>,
    pub(crate) channels: Vec<(&'static str, &'static str)>,
    pub(crate) sync_budget: Duration,
    pub(crate) files: FileRules,
    pub(crate) per_minute: u32,
    pub(crate) limits: HttpLimits,
    /// Existing folder of the store, if any.
    pub(crate) folder: Option<Arc<TempDir>>,
    /// Store shared with another node, if any.
    pub(crate) store: Option<Arc<SqliteStore>>,
    pub(crate) node: &'static str,
}

impl Default for ZoneSetup {
    fn default() -> Self {
        Self {
            agents: vec![demo_agent()],
            channels: Vec::new(),
            sync_budget: WAIT_TIMEOUT,
            files: FileRules::default(),
            per_minute: 0,
            limits: HttpLimits::default(),
            folder: None,
            store: None,
            node: "node",
        }
    }
}

struct NoDeliveryHandler;

#[async_trait::async_trait]
impl DeliveryHandler for NoDeliveryHandler {
    async fn deliver(&self, _: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        panic!("no delivery is expected");
    }
}

/// Running Execution Zone.
pub(crate) struct ZoneFixture {
    hub: Hub,
    store: Arc<SqliteStore>,
    folder: Arc<TempDir>,
    clients: OAuthClients,
    /// Clock by which token lifetimes are checked.
    clock: EdgeClock,
    stop: CancellationToken,
    workers: Option<Workers>,
    router: RouterFn,
    /// Opens a connection to the zone, without TLS and without a network.
    connect: Box<dyn Fn() -> tokio::io::DuplexStream + Send + Sync>,
}

type RouterFn = Box<dyn Fn(HttpRequest) -> BoxFuture<'static, StreamedResponse> + Send + Sync>;
type HttpRequest = Request<http_body_util::Full<Bytes>>;
type StreamedResponse = http::Response<futures_util::stream::BoxStream<'static, Bytes>>;

impl ZoneFixture {
    async fn new() -> Self {
        Self::with_setup(ZoneSetup::default()).await
    }

    pub(crate) async fn with_setup(setup: ZoneSetup) -> Self {
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
            Arc::new(NoDeliveryHandler),
            WorkerOptions {
                attachments: Some(Arc::new(AttachmentLoader::new(
                    Egress::new(&EgressOptions::default()).unwrap(),
                    FileReader::new(crate::file_reader::binary_path(), 4),
                    InputRules::default(),
                ))),
                ..WorkerOptions::new(setup.node)
            },
            Arc::new(()),
            stop.clone(),
        );
        let clock = EdgeClock::fixed(EdgeClock::system().unix());
        let issuer_store = Arc::new(MemoryRecordStore::default());
        let scopes = Scope::ALL.map(|scope| IssuerScope::new(scope.name(), ""));
        let options = IssuerOptions {
            clock: clock.clone(),
            ..IssuerOptions::new(URL, vec![URL.to_owned()], scopes.into())
        };
        let issuer = Issuer::open(issuer_store.clone(), options).await.unwrap();
        let auth = Authenticator::new(AuthOptions {
            issuer: URL.to_owned(),
            audience: vec![URL.to_owned()],
            keys: KeyConfig::Local(Arc::new(issuer.clone())),
            introspection: None,
            leeway: AuthOptions::DEFAULT_LEEWAY,
            trust: TrustRoots::system(),
            clock: clock.clone(),
        });
        let metrics = Arc::new(Metrics::new());
        let audit = folder.path().join("audit.log");
        let zone = ExecutionState::new(ExecutionOptions {
            hub: hub.clone(),
            auth: Arc::new(auth.unwrap()),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: setup.limits,
            rate: RateLimiter::new(setup.per_minute, setup.per_minute),
            audit: Audit::to_file(&audit, metrics.clone()).unwrap(),
            request_log: None,
            metrics,
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: false,
            batch_limit: 1000,
            sync_budget: setup.sync_budget,
            files: Arc::new(setup.files),
            operator: OperatorInfo::default(),
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
                // Any end of the connection by the client is fine.
                let _ = server.serve_connection_with_upgrades(io, served).await;
            });
            theirs
        });
        let router: RouterFn = Box::new(move |request| {
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
            clients: OAuthClients::new(issuer_store, clock.clone()),
            clock,
            stop,
            workers: Some(workers),
            router,
            connect,
        }
    }

    /// Shuts the zone down in order; returns its folder for the next node.
    async fn shut_down(mut self) -> Arc<TempDir> {
        self.stop.cancel();
        if let Some(workers) = self.workers.take() {
            workers.join(WAIT_TIMEOUT).await;
        }
        self.folder.clone()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a token for a client of this name with all scopes.
    pub(crate) async fn token(&self, name: &str) -> String {
        let all: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
        self.token_with_scopes(name, &all).await
    }

    pub(crate) async fn token_with_scopes(&self, name: &str, scopes: &[&str]) -> String {
        let new = NewOAuthClient {
            id: Some(name.to_owned()),
            name: name.to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            grants: vec![GrantType::ClientCredentials],
            ..NewOAuthClient::default()
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

    pub(crate) async fn send(&self, request: HttpRequest) -> (StatusCode, HeaderMap, String) {
        let reply = tokio::time::timeout(WAIT_TIMEOUT, async {
            let (parts, body) = (self.router)(request).await.into_parts();
            let body: Vec<Bytes> = body.collect().await;
            (parts, body)
        });
        let (parts, body) = reply.await.expect("a response before the timeout");
        let body = String::from_utf8(body.concat()).unwrap();
        (parts.status, parts.headers, body)
    }

    fn request(token: &str, body: impl Into<Bytes>) -> HttpRequest {
        Request::post("/jsonrpc")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .body(http_body_util::Full::new(body.into()))
            .unwrap()
    }

    async fn post(&self, token: &str, body: impl Into<Bytes>) -> (StatusCode, HeaderMap, String) {
        self.send(Self::request(token, body)).await
    }

    /// Calls a method under an id and returns the JSON-RPC response. It has exactly one of result and error and the
    /// id that was sent, and an error has its error code.
    async fn call_with_id(&self, token: &str, id: Value, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (_, _, body) = self.post(token, call.to_string()).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["id"], id);
        check_response(answer)
    }

    async fn call(&self, token: &str, method: &str, params: Value) -> Value {
        self.call_with_id(token, json!(1), method, params).await
    }

    /// Calls `execute_task` and returns its result.
    async fn execute_task(&self, token: &str, text: &str) -> Value {
        let answer = self.call(token, "execute_task", params(text)).await;
        assert!(answer["error"].is_null(), "{text}: {answer}");
        answer["result"].clone()
    }

    /// Calls a method that fails; returns the error's code and data.
    async fn call_expecting_error(&self, token: &str, method: &str, params: Value) -> (i64, Value) {
        let answer = self.call(token, method, params).await;
        let code = answer["error"]["code"].as_i64();
        let code = code.unwrap_or_else(|| panic!("an error was expected: {answer}"));
        (code, answer["error"]["data"].clone())
    }

    /// Waits until the task has ended; returns the result of `get_task_result`.
    async fn wait_for_result(&self, token: &str, task: &Value) -> Value {
        let id = interzone_protocol::vocab::TaskId::new(task.as_str().unwrap()).unwrap();
        let caller = interzone_hub::Caller::operator("tests".parse().unwrap());
        let subject = interzone_hub::Subject::Task(id);
        let mut watch = self.hub.watch(&caller, subject, 0).await.unwrap();
        let all = async { while watch.next().await.unwrap().is_some() {} };
        tokio::time::timeout(WAIT_TIMEOUT, all)
            .await
            .expect("the end of the task");
        let params = json!({"task_id": task});
        self.call(token, "get_task_result", params).await["result"].clone()
    }
}

/// Asserts the invariants of every response and returns it.
fn check_response(answer: Value) -> Value {
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

/// The same with further or replaced members.
fn params_with(text: &str, more: &Value) -> Value {
    let mut params = params(text);
    let members = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(members);
    params
}

fn call_object(id: &Value, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": params})
}
