//! The console, on a real store and with the built-in issuer, without a network.

mod content;
mod conversations;
mod lists;
mod live_updates;
mod sign_in;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, SET_COOKIE};
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
use interzone_execution::agents::DemoAgent;
use interzone_execution::console::{CHANGE_SCOPE, CONTENT_SCOPE, Console, ConsoleOptions, SignIn};
use interzone_execution::request_log::{RequestLog, RequestLogScope};
use interzone_execution::{ExecutionOptions, ExecutionState, OPERATE_SCOPE, OperatorInfo, router};
use interzone_hub::ports::MemoryRecordStore;
use interzone_hub::{
    Caller, Hub, Limits, NewTask, RandomIds, Registry, Run, SystemClock, Task, Turn, TurnOutcome,
    TurnStart,
};
use interzone_issuer::{
    Issuer, IssuerOptions, NewOAuthClient, OAuthClients, OAuthUsers, ScopeDefinition as IssuerScope,
};
use interzone_protocol::vocab::{AgentId, Message, PrincipalId};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const URL: &str = "https://zone.test";

type RequestFn = Box<
    dyn Fn(Request<Full<Bytes>>) -> Pin<Box<dyn Future<Output = ConsoleResponse> + Send>>
        + Send
        + Sync,
>;

/// Response of the console.
struct ConsoleResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = Infallible> + Send>>,
}

impl ConsoleResponse {
    async fn text(self) -> String {
        let bytes = self.body.collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn location(&self) -> &str {
        self.headers[LOCATION].to_str().unwrap()
    }

    /// Cookies that were set, as a client sends them back, without those that were deleted.
    fn cookies(&self) -> Vec<String> {
        let set = self.headers.get_all(SET_COOKIE).iter();
        let set = set.map(|value| value.to_str().unwrap());
        set.filter(|value| !value.contains("Max-Age=0"))
            .map(|value| value.split(';').next().unwrap().to_owned())
            .collect()
    }
}

/// Execution Zone with its console, an issuer and its users.
struct ConsoleFixture {
    hub: Hub,
    console: Arc<Console>,
    issuer: Issuer,
    users: OAuthUsers,
    clients: OAuthClients,
    metrics: Arc<Metrics>,
    audit: PathBuf,
    stop: CancellationToken,
    call: RequestFn,
    folder: tempfile::TempDir,
}

impl ConsoleFixture {
    async fn new() -> Self {
        install_provider();
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("zone.db"), SqliteOptions::default())
            .await
            .unwrap();
        let store = Arc::new(store);
        let mut agents = Registry::default();
        agents.add(Arc::new(DemoAgent::new(AgentId::new("demo").unwrap(), 4)));
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let clock = EdgeClock::system();
        let issuer_store = Arc::new(MemoryRecordStore::default());
        let scopes = [OPERATE_SCOPE, CONTENT_SCOPE, CHANGE_SCOPE, "acp:tasks:read"];
        let scopes = scopes.map(|name| IssuerScope::new(name, ""));
        let options = IssuerOptions::new(URL, vec![URL.to_owned()], scopes.to_vec());
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
        let metrics = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        let audit = folder.path().join("audit.log");
        let (request_log, backlog) = RequestLog::new(RequestLogScope::All, metrics.clone());
        tokio::spawn(backlog.run(store, stop.clone()));
        let zone = ExecutionState::new(ExecutionOptions {
            hub: hub.clone(),
            auth: Arc::new(auth),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: HttpLimits::default(),
            rate: RateLimiter::new(0, 0),
            audit: Audit::to_file(&audit, metrics.clone()).unwrap(),
            request_log: Some(request_log),
            metrics: metrics.clone(),
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: false,
            batch_limit: 1000,
            sync_budget: ExecutionOptions::SYNC_BUDGET,
            files: Arc::default(),
            operator: OperatorInfo::default(),
            checks: Vec::new(),
            stop: stop.clone(),
        });
        let operators = vec![OAuthUsers::subject("anna")];
        let sign_in = SignIn::built_in(&URL.parse().unwrap(), operators).unwrap();
        let options = ConsoleOptions {
            sign_in: Some(sign_in),
            clients: Some(OAuthClients::new(issuer_store.clone(), clock.clone())),
        };
        let console = Console::new(zone.clone(), options);
        let routes = router(zone).merge(console.router());
        let call: RequestFn = Box::new(move |request| {
            let routes = routes.clone();
            Box::pin(async move {
                let Ok(response) = routes.oneshot(request).await;
                let (parts, body) = response.into_parts();
                ConsoleResponse {
                    status: parts.status,
                    headers: parts.headers,
                    body: Box::pin(body.map_err(|error| panic!("{error}"))),
                }
            })
        });
        Self {
            hub,
            console,
            issuer,
            users: OAuthUsers::new(issuer_store.clone(), clock.clone()),
            clients: OAuthClients::new(issuer_store, clock),
            metrics,
            audit,
            stop,
            call,
            folder,
        }
    }

    async fn get(&self, path: &str, cookies: &str) -> ConsoleResponse {
        let request = Request::get(path)
            .header("host", "zone.test")
            .header(COOKIE, cookies)
            .body(Full::default());
        (self.call)(request.unwrap()).await
    }

    /// Returns the text of a page; fails unless the status is 200.
    async fn page(&self, path: &str, cookies: &str) -> String {
        let answer = self.get(path, cookies).await;
        let status = answer.status;
        let text = answer.text().await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        text
    }

    async fn post(
        &self,
        path: &str,
        cookies: &str,
        origin: Option<&str>,
        form: &str,
    ) -> ConsoleResponse {
        let mut request = Request::post(path)
            .header("host", "zone.test")
            .header(COOKIE, cookies)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        (self.call)(request.body(Full::from(form.to_owned())).unwrap()).await
    }

    /// Signs in by a one-time link; returns the cookie.
    async fn sign_in_by_link(&self) -> String {
        let link = self.console.one_time_link();
        let answer = self.get(link.strip_prefix(URL).unwrap(), "").await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.cookies().join("; ")
    }

    /// Signs in at the issuer, with a console client of these scopes; returns the cookie.
    async fn sign_in_at_issuer(&self, scopes: &[&str]) -> String {
        self.register_console_client(scopes).await;
        let passphrase = self.users.add("anna").await.unwrap();
        let answer = self.consent("anna", passphrase.expose()).await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.cookies().join("; ")
    }

    async fn register_console_client(&self, scopes: &[&str]) {
        let client = NewOAuthClient {
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            ..Console::client(&URL.parse().unwrap())
        };
        self.clients.add(client).await.unwrap();
    }

    /// Goes through the issuer's consent page and back, as a browser does.
    async fn consent(&self, name: &str, passphrase: &str) -> ConsoleResponse {
        let start = self.get("/console/login/start", "").await;
        assert_eq!(start.status, StatusCode::SEE_OTHER);
        let pending = start.cookies().join("; ");
        let authorize_path = start.location().strip_prefix(URL).unwrap().to_owned();
        let page = self.get(&authorize_path, "").await;
        let ticket = page.cookies().join("; ");
        let page = page.text().await;
        let mut form = url_form(&hidden_fields(&page));
        form += &format!("&name={name}&passphrase={passphrase}&decision=allow");
        let decided = self.post("/oauth2/authorize", &ticket, None, &form).await;
        assert_eq!(decided.status, StatusCode::SEE_OTHER);
        let back = decided.location().strip_prefix(URL).unwrap().to_owned();
        self.get(&back, &pending).await
    }

    /// Creates a task of this owner.
    async fn create_task(&self, owner: &str, text: &str) -> Task {
        let caller = Caller::new(PrincipalId::new(owner).unwrap());
        let new = NewTask::new(Message::user_text(text));
        self.hub.create_task(&caller, new).await.unwrap()
    }

    async fn claim_and_start(&self) -> (Arc<Run>, Turn) {
        let wanted = vec![(AgentId::new("demo").unwrap(), 1)];
        let lease = Duration::from_secs(30);
        let mut runs = self.hub.claim("node", wanted, lease).await.unwrap();
        let run = runs.remove(0);
        match run.start_turn().await.unwrap() {
            TurnStart::Turn(turn) => (run, *turn),
            TurnStart::NothingToDo => panic!("there should be a turn"),
        }
    }

    async fn complete_next(&self, text: &str) {
        let outcome = TurnOutcome::Completed {
            message: Some(Message::agent_text(text)),
            direct: false,
        };
        let (run, turn) = self.claim_and_start().await;
        run.complete(&turn, outcome).await.unwrap();
    }
}

/// CSRF token of a page's form.
fn form_token(page: &str) -> String {
    let fields = hidden_fields(page);
    let token = fields.iter().find(|(name, _)| name == "token");
    token.unwrap_or_else(|| panic!("no form: {page}")).1.clone()
}

/// Hidden fields of a page's first form.
fn hidden_fields(page: &str) -> Vec<(String, String)> {
    let fields = page.split("type=\"hidden\" name=\"").skip(1);
    fields
        .map(|field| {
            let (name, after_name) = field.split_once("\" value=\"").unwrap();
            let value = after_name.split_once('"').unwrap().0;
            (name.to_owned(), value.replace("&amp;", "&"))
        })
        .collect()
}

fn url_form(fields: &[(String, String)]) -> String {
    let encode =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
    let pairs = fields.iter();
    let pairs = pairs.map(|(name, value)| format!("{name}={}", encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}
