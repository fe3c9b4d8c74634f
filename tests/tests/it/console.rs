//! The console, on a real store and with the built-in issuer, without a network between.

mod content;
mod lists;
mod live;
mod sign_in;
mod talks;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, Keys};
use interzone_edge::clock::Clock as EdgeClock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::issuer::{
    Clients, Issuer, IssuerOptions, MemoryKeep, NewClient, People, Scope as IssuerScope,
};
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{Trust, install_provider};
use interzone_execution::agents::DemoAgent;
use interzone_execution::console::{CHANGE_SCOPE, CONTENT_SCOPE, Console, ConsoleOptions, SignIn};
use interzone_execution::pairs::{PairLog, Recorded};
use interzone_execution::{OPERATE_SCOPE, Operator, Zone, ZoneOptions, router};
use interzone_hub::{
    Caller, Hub, Limits, NewTask, Outcome, RandomIds, Registry, Run, SystemClock, Task, Turn,
    TurnStart,
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

type Call =
    Box<dyn Fn(Request<Full<Bytes>>) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// What came back.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = Infallible> + Send>>,
}

impl Answer {
    async fn text(self) -> String {
        let bytes = self.body.collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn location(&self) -> &str {
        self.headers[LOCATION].to_str().unwrap()
    }

    /// The cookies that were set, as they are sent back; those that were taken away are left out.
    fn cookies(&self) -> Vec<String> {
        let set = self.headers.get_all(SET_COOKIE).iter();
        let set = set.map(|value| value.to_str().unwrap());
        set.filter(|value| !value.contains("Max-Age=0"))
            .map(|value| value.split(';').next().unwrap().to_owned())
            .collect()
    }
}

/// A zone with its console, an issuer and a person who may sign in.
struct Place {
    hub: Hub,
    console: Arc<Console>,
    issuer: Issuer,
    people: People,
    clients: Clients,
    metrics: Arc<Metrics>,
    audit: PathBuf,
    stop: CancellationToken,
    call: Call,
    folder: tempfile::TempDir,
}

impl Place {
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
        let clock = EdgeClock::machine();
        let keep = Arc::new(MemoryKeep::new(clock.clone()));
        let scopes = [OPERATE_SCOPE, CONTENT_SCOPE, CHANGE_SCOPE, "acp:tasks:read"];
        let scopes = scopes.map(|name| IssuerScope::new(name, ""));
        let options = IssuerOptions::new(URL, vec![URL.to_owned()], scopes.to_vec());
        let issuer = Issuer::open(keep.clone(), options).await.unwrap();
        let auth = Authenticator::new(AuthOptions {
            issuer: URL.to_owned(),
            audience: vec![URL.to_owned()],
            keys: Keys::Local(Arc::new(issuer.clone())),
            introspection: None,
            leeway: AuthOptions::LEEWAY,
            trust: Trust::system(),
            clock: clock.clone(),
        })
        .unwrap();
        let metrics = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        let audit = folder.path().join("audit.log");
        let (pairs, backlog) = PairLog::new(Recorded::All, metrics.clone());
        tokio::spawn(backlog.keep(store, stop.clone()));
        let zone = Zone::new(ZoneOptions {
            hub: hub.clone(),
            auth: Arc::new(auth),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: HttpLimits::default(),
            rate: RateLimiter::new(0, 0),
            audit: Audit::to_file(&audit, metrics.clone()).unwrap(),
            pairs: Some(pairs),
            metrics: metrics.clone(),
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: false,
            batch: 1000,
            sync_budget: ZoneOptions::SYNC_BUDGET,
            files: Arc::default(),
            operator: Operator::default(),
            checks: Vec::new(),
            stop: stop.clone(),
        });
        let operators = vec![People::subject("anna")];
        let sign_in = SignIn::built_in(&URL.parse().unwrap(), operators).unwrap();
        let options = ConsoleOptions {
            sign_in: Some(sign_in),
            clients: Some(Clients::new(keep.clone(), clock.clone())),
        };
        let console = Console::new(zone.clone(), options);
        let doors = router(zone).merge(console.router());
        let call: Call = Box::new(move |request| {
            let doors = doors.clone();
            Box::pin(async move {
                let Ok(response) = doors.oneshot(request).await;
                let (parts, body) = response.into_parts();
                Answer {
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
            people: People::new(keep.clone(), clock.clone()),
            clients: Clients::new(keep, clock),
            metrics,
            audit,
            stop,
            call,
            folder,
        }
    }

    async fn get(&self, path: &str, cookies: &str) -> Answer {
        let request = Request::get(path)
            .header("host", "zone.test")
            .header(COOKIE, cookies)
            .body(Full::default());
        (self.call)(request.unwrap()).await
    }

    /// The text of a page that must be there.
    async fn page(&self, path: &str, cookies: &str) -> String {
        let answer = self.get(path, cookies).await;
        let status = answer.status;
        let text = answer.text().await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        text
    }

    async fn post(&self, path: &str, cookies: &str, origin: Option<&str>, form: &str) -> Answer {
        let mut request = Request::post(path)
            .header("host", "zone.test")
            .header(COOKIE, cookies)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        (self.call)(request.body(Full::from(form.to_owned())).unwrap()).await
    }

    /// Somebody who came by a link: their cookie.
    async fn by_link(&self) -> String {
        let link = self.console.one_time_link();
        let answer = self.get(link.strip_prefix(URL).unwrap(), "").await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.cookies().join("; ")
    }

    /// Somebody who signed in at the issuer, where the console may have these scopes.
    async fn by_issuer(&self, scopes: &[&str]) -> String {
        self.introduce(scopes).await;
        let passphrase = self.people.add("anna").await.unwrap();
        let answer = self.consent("anna", passphrase.expose()).await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.cookies().join("; ")
    }

    async fn introduce(&self, scopes: &[&str]) {
        let client = NewClient {
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            ..Console::client(&URL.parse().unwrap())
        };
        self.clients.add(client).await.unwrap();
    }

    /// Goes to the issuer and back, as a browser does.
    async fn consent(&self, name: &str, passphrase: &str) -> Answer {
        let start = self.get("/console/login/start", "").await;
        assert_eq!(start.status, StatusCode::SEE_OTHER);
        let pending = start.cookies().join("; ");
        let asked = start.location().strip_prefix(URL).unwrap().to_owned();
        let page = self.get(&asked, "").await;
        let ticket = page.cookies().join("; ");
        let page = page.text().await;
        let mut form = url_form(&hidden_fields(&page));
        form += &format!("&name={name}&passphrase={passphrase}&decision=allow");
        let decided = self.post("/oauth2/authorize", &ticket, None, &form).await;
        assert_eq!(decided.status, StatusCode::SEE_OTHER);
        let back = decided.location().strip_prefix(URL).unwrap().to_owned();
        self.get(&back, &pending).await
    }

    /// A task of somebody's.
    async fn task(&self, owner: &str, words: &str) -> Task {
        let caller = Caller::new(PrincipalId::new(owner).unwrap());
        let new = NewTask::new(Message::user_text(words));
        self.hub.create_task(&caller, new).await.unwrap()
    }

    async fn run(&self) -> (Arc<Run>, Turn) {
        let wanted = vec![(AgentId::new("demo").unwrap(), 1)];
        let lease = Duration::from_secs(30);
        let mut runs = self.hub.claim("node", wanted, lease).await.unwrap();
        let run = runs.remove(0);
        match run.begin().await.unwrap() {
            TurnStart::Turn(turn) => (run, *turn),
            TurnStart::Nothing => panic!("there should be a turn"),
        }
    }

    async fn finish(&self, words: &str) {
        let outcome = Outcome::Completed {
            message: Some(Message::agent_text(words)),
            direct: false,
        };
        let (run, turn) = self.run().await;
        run.end(&turn, outcome).await.unwrap();
    }
}

/// The form token of a page.
fn form_token(page: &str) -> String {
    let fields = hidden_fields(page);
    let token = fields.iter().find(|(name, _)| name == "token");
    token.unwrap_or_else(|| panic!("no form: {page}")).1.clone()
}

/// The hidden fields of a page's first form.
fn hidden_fields(page: &str) -> Vec<(String, String)> {
    let fields = page.split("type=\"hidden\" name=\"").skip(1);
    fields
        .map(|field| {
            let (name, rest) = field.split_once("\" value=\"").unwrap();
            let value = rest.split_once('"').unwrap().0;
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
