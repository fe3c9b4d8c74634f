//! Execution Zone HTTP API on a real store with real tokens, without a network.

mod batches;
mod endpoints;
mod in_flight;
mod large_bodies;
mod large_reads;
mod methods;
mod rejections;
mod streams;
mod watches;
mod webhooks;

use crate::workers::counting_store::CountingStore;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, KeyConfig};
use interzone_edge::clock::Clock as EdgeClock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate_limiter::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{TrustRoots, install_provider};
use interzone_execution::{
    ExecutionOptions, ExecutionState, OPERATE_SCOPE, OperatorInfo, in_process, router,
};
use interzone_hub::ports::MemoryRecordStore;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Hub, Limits, RandomIds, Registry, Run, SystemClock,
    Turn, TurnOutcome, TurnOutput, TurnStart,
};
use interzone_issuer::{
    GrantType, Issuer, IssuerOptions, NewOAuthClient, OAuthClients, ScopeDefinition as IssuerScope,
};
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::Scope;
use interzone_protocol::vocab::{AgentId, Message};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const URL: &str = "https://zone.test";
const LEASE_DURATION: Duration = Duration::from_secs(30);

/// Stub agent used for routing only; the tests do its work themselves.
struct StubAgent(AgentInfo);

#[async_trait::async_trait]
impl Agent for StubAgent {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    fn is_available(&self) -> bool {
        match self.0.id.as_str() {
            "demo" => true,
            "busy" => false,
            other => panic!("{other} is broken"),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        (self.0.id.as_str() == "busy").then_some(Duration::from_millis(6_100))
    }

    async fn run(&self, _: Turn, _: Arc<dyn TurnOutput>) -> Result<TurnOutcome, AgentError> {
        Ok(TurnOutcome::Completed {
            message: None,
            direct: false,
        })
    }
}

/// Options of the fixture that vary between tests.
#[derive(Default)]
struct ZoneFixtureOptions {
    always_200: bool,
    per_minute: u32,
    limits: HttpLimits,
    allow: Vec<String>,
    hub: Limits,
}

/// An Execution Zone with its own store and issuer.
struct ZoneFixture {
    hub: Hub,
    store: Arc<CountingStore>,
    egress: Egress,
    clients: OAuthClients,
    /// Clock that determines the age of tokens.
    clock: EdgeClock,
    stop: CancellationToken,
    call: RouterService,
    /// Opens an in-memory connection to the zone, without TLS.
    connect: Box<dyn Fn() -> tokio::io::DuplexStream + Send + Sync>,
    transport: interzone_client::InProcess,
    _folder: tempfile::TempDir,
}

type BoxedResponse =
    http::Response<Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;
type RouterService = Box<
    dyn Fn(Request<Full<Bytes>>) -> Pin<Box<dyn Future<Output = BoxedResponse> + Send>>
        + Send
        + Sync,
>;

impl ZoneFixture {
    async fn new() -> Self {
        Self::with_options(ZoneFixtureOptions::default()).await
    }

    async fn with_options(setup: ZoneFixtureOptions) -> Self {
        install_provider();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone.db");
        let store = SqliteStore::open(&path, SqliteOptions::default())
            .await
            .unwrap();
        let mut agents = Registry::default();
        for id in ["demo", "busy", "zz-broken"] {
            let info = AgentInfo {
                id: AgentId::new(id).unwrap(),
                name: id.to_owned(),
                description: format!("the agent {id}"),
                skills: Vec::new(),
                concurrency: 4,
                profile: AgentProfile::default(),
            };
            agents.add(Arc::new(StubAgent(info)));
        }
        let store = CountingStore::new(store);
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            setup.hub,
        );
        let clock = EdgeClock::fixed(EdgeClock::system().unix());
        let issuer_store = Arc::new(MemoryRecordStore::default());
        let mut scopes: Vec<_> = Scope::ALL.map(|scope| scope.name()).to_vec();
        scopes.push(OPERATE_SCOPE);
        let scopes = scopes.into_iter().map(|name| IssuerScope::new(name, ""));
        let options = IssuerOptions {
            clock: clock.clone(),
            ..IssuerOptions::new(URL, vec![URL.to_owned()], scopes.collect())
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
        })
        .unwrap();
        let egress = Egress::new(&EgressOptions {
            allow: setup.allow,
            ..EgressOptions::default()
        })
        .unwrap();
        let metrics = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        let zone = ExecutionState::new(ExecutionOptions {
            hub: hub.clone(),
            auth: Arc::new(auth),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: egress.clone(),
            limits: setup.limits,
            rate: RateLimiter::new(setup.per_minute, setup.per_minute),
            audit: Audit::to_log(std::io::sink(), metrics.clone()).unwrap(),
            request_log: None,
            metrics,
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: setup.always_200,
            batch_limit: 1000,
            sync_budget: ExecutionOptions::SYNC_BUDGET,
            files: Arc::default(),
            operator: OperatorInfo::default(),
            checks: Vec::new(),
            stop: stop.clone(),
        });
        let router = router(zone);
        let transport = in_process(router.clone());
        let service = router.clone();
        let connect = Box::new(move || {
            let (server_end, client_end) = tokio::io::duplex(64 * 1024);
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let executor = hyper_util::rt::TokioExecutor::new();
                let server = hyper_util::server::conn::auto::Builder::new(executor);
                let io = hyper_util::rt::TokioIo::new(server_end);
                // Any way the client ends the connection is fine.
                let _ = server.serve_connection_with_upgrades(io, service).await;
            });
            client_end
        });
        let call: RouterService = Box::new(move |request| {
            let router = router.clone();
            Box::pin(async move {
                let Ok(response) = router.oneshot(request).await;
                response.map(|body| {
                    let body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>> =
                        Box::pin(body.map_err(Into::into));
                    body
                })
            })
        });
        Self {
            hub,
            store,
            egress,
            clients: OAuthClients::new(issuer_store, clock.clone()),
            clock,
            stop,
            call,
            connect,
            transport,
            _folder: folder,
        }
    }

    /// Issues a token for the named client with all ACP scopes.
    async fn token(&self, name: &str) -> String {
        let all: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
        self.token_with(name, &all).await
    }

    async fn token_with(&self, name: &str, scopes: &[&str]) -> String {
        self.token_and_secret(name, scopes).await.0
    }

    async fn token_and_secret(&self, name: &str, scopes: &[&str]) -> (String, String) {
        let new = NewOAuthClient {
            id: Some(name.to_owned()),
            name: name.to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            grants: vec![GrantType::ClientCredentials],
            ..NewOAuthClient::default()
        };
        let client = self.clients.add(new).await.unwrap();
        let secret = client.secret.unwrap();
        let form = format!(
            "grant_type=client_credentials&client_id={name}&client_secret={}",
            secret.expose()
        );
        let request = Request::post("/oauth2/token")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Full::from(form))
            .unwrap();
        let (status, _, body) = self.send(request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let token = answer["access_token"].as_str().unwrap().to_owned();
        (token, secret.expose().to_owned())
    }

    /// Revokes a token as its client.
    async fn revoke(&self, name: &str, secret: &str, token: &str) {
        let form = format!("client_id={name}&client_secret={secret}&token={token}");
        let request = Request::post("/oauth2/revoke")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Full::from(form))
            .unwrap();
        let (status, _, body) = self.send(request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> (StatusCode, HeaderMap, String) {
        let response = (self.call)(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        (parts.status, parts.headers, body)
    }

    async fn get(&self, path: &str, token: Option<&str>) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    async fn post(&self, token: &str, body: impl Into<Bytes>) -> (StatusCode, HeaderMap, String) {
        let request = Request::post("/jsonrpc")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::new(body.into()))
            .unwrap();
        self.send(request).await
    }

    /// Calls a method and returns the full JSON-RPC response.
    async fn call(&self, token: &str, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, _, body) = self.post(token, call.to_string()).await;
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    async fn result(&self, token: &str, method: &str, params: Value) -> Value {
        let answer = self.call(token, method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a method that must fail; returns the error's code and data.
    async fn call_error(&self, token: &str, method: &str, params: Value) -> (ErrorCode, Value) {
        let answer = self.call(token, method, params).await;
        (error_code(&answer), answer["error"]["data"].clone())
    }

    async fn call_error_code(&self, token: &str, method: &str, params: Value) -> ErrorCode {
        self.call_error(token, method, params).await.0
    }

    /// Creates a task and returns its id.
    async fn create_task(&self, token: &str) -> String {
        let params = json!({"initialMessage": user_message("hello")});
        let result = self.result(token, "tasks.create", params).await;
        result["task"]["taskId"].as_str().unwrap().to_owned()
    }

    /// Claims the only claimable run and starts its turn.
    async fn claim_run(&self) -> (Arc<Run>, Turn) {
        let slots = vec![(AgentId::new("demo").unwrap(), 1)];
        let mut runs = self.hub.claim("node", slots, LEASE_DURATION).await.unwrap();
        assert_eq!(runs.len(), 1, "one task should be claimable");
        let run = runs.remove(0);
        match run.start_turn().await.unwrap() {
            TurnStart::Turn(turn) => (run, *turn),
            TurnStart::NothingToDo => panic!("there should be a turn"),
        }
    }

    /// Opens an SSE watch; its body stays empty until there is an event.
    async fn watch(&self, path: &str, token: &str, last_event_id: Option<u64>) -> SseReader {
        let mut request = Request::get(path).header("authorization", format!("Bearer {token}"));
        if let Some(last_event_id) = last_event_id {
            request = request.header("last-event-id", last_event_id.to_string());
        }
        let response = (self.call)(request.body(Full::default()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let data = response.into_body().into_data_stream();
        SseReader {
            data: Box::pin(data.map(|piece| piece.unwrap())),
            text: String::new(),
        }
    }
}

/// Reader of server-sent events.
struct SseReader {
    data: Pin<Box<dyn futures_util::Stream<Item = Bytes> + Send>>,
    text: String,
}

/// A JSON-RPC notification received as a server-sent event.
#[derive(Debug)]
struct SseNotification {
    id: Option<u64>,
    method: String,
    params: Value,
}

impl SseReader {
    /// Returns the next event with data, or `None` at the end of the watch.
    async fn next(&mut self) -> Option<SseNotification> {
        loop {
            if let Some((event, remainder)) = self.text.split_once("\n\n") {
                let (event, remainder) = (event.to_owned(), remainder.to_owned());
                self.text = remainder;
                let field = |name: &str| -> Vec<String> {
                    let lines = event.lines();
                    let values = lines.filter_map(|line| line.strip_prefix(&format!("{name}: ")));
                    values.map(str::to_owned).collect()
                };
                let data = field("data").join("\n");
                if data.is_empty() {
                    continue;
                }
                let notification: Value = serde_json::from_str(&data).unwrap();
                assert_eq!(field("event"), [notification["method"].as_str().unwrap()]);
                return Some(SseNotification {
                    id: field("id").first().map(|id| id.parse().unwrap()),
                    method: notification["method"].as_str().unwrap().to_owned(),
                    params: notification["params"].clone(),
                });
            }
            let wait = Duration::from_secs(20);
            let piece = tokio::time::timeout(wait, self.data.next())
                .await
                .expect("an event before the timeout")?;
            self.text += std::str::from_utf8(&piece).unwrap();
        }
    }

    async fn collect_remaining(mut self) -> Vec<SseNotification> {
        let mut all = Vec::new();
        while let Some(notification) = self.next().await {
            all.push(notification);
        }
        all
    }
}

fn error_code(answer: &Value) -> ErrorCode {
    let code = answer["error"]["code"].as_i64();
    let code = code.unwrap_or_else(|| panic!("an error was expected: {answer}"));
    ErrorCode::new(i32::try_from(code).unwrap())
}

fn user_message(text: &str) -> Value {
    json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}

fn completed(text: &str) -> TurnOutcome {
    TurnOutcome::Completed {
        message: Some(Message::agent_text(text)),
        direct: false,
    }
}
