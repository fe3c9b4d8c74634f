//! A zone with a store, an issuer, workers and agents of its own, to be reached in several ways.

use interzone_client::{Client, Credentials, InProcess, Secret};
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, Keys};
use interzone_edge::clock::Clock as EdgeClock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::issuer::{
    Clients, Grant, Issuer, IssuerOptions, MemoryKeep, NewClient, Scope as IssuerScope,
};
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::rate::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, DevFiles, ServerTls, TlsFiles, Trust, install_provider};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{Carried, Carrier, WorkerOptions, Workers};
use interzone_execution::{Operator, Zone, ZoneOptions, in_process, router};
use interzone_hub::{Agent, Hub, HubError, Limits, OutboxEntry, RandomIds, Registry, SystemClock};
use interzone_protocol::acp::Scope;
use interzone_protocol::vocab::AgentId;
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

const URL: &str = "https://zone.test";

/// How long `execute_task` waits here: long enough for what is quick, short enough for a test.
const BUDGET: Duration = Duration::from_millis(500);

type Serve = Box<dyn Fn(Listener) + Send + Sync>;

pub(super) struct Place {
    pub(super) token: String,
    pub(super) transport: InProcess,
    serve: Serve,
    metrics: Arc<Metrics>,
    pub(super) files: DevFiles,
    /// The last, so that what is above still works while it is told to stop.
    _workers: Mutex<Workers>,
    _stop: DropGuard,
    _folder: tempfile::TempDir,
}

/// Nobody is told anything here.
struct Nobody;

#[async_trait::async_trait]
impl Carrier for Nobody {
    async fn carry(&self, _: &Hub, _: &OutboxEntry) -> Result<Carried, HubError> {
        panic!("nothing should leave here");
    }
}

pub(super) fn agent_id(id: &str) -> AgentId {
    AgentId::new(id).unwrap()
}

impl Place {
    pub(super) async fn demo() -> Self {
        Self::with(Arc::new(DemoAgent::new(agent_id("demo"), 16))).await
    }

    pub(super) async fn with(agent: Arc<dyn Agent>) -> Self {
        install_provider();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone.db");
        let store = SqliteStore::open(&path, SqliteOptions::default())
            .await
            .unwrap();
        let mut agents = Registry::default();
        agents.add(agent);
        let hub = Hub::new(
            Arc::new(store),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let clock = EdgeClock::machine();
        let keep = Arc::new(MemoryKeep::new(clock.clone()));
        let scopes = Scope::ALL.map(|scope| IssuerScope::new(scope.name(), ""));
        let issuing = IssuerOptions::new(URL, vec![URL.to_owned()], scopes.to_vec());
        let issuer = Issuer::open(keep.clone(), issuing).await.unwrap();
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
        let zone = Zone::new(ZoneOptions {
            hub: hub.clone(),
            auth: Arc::new(auth),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: HttpLimits::default(),
            rate: RateLimiter::new(0, 0),
            audit: Audit::to_log(std::io::sink(), metrics.clone()).unwrap(),
            pairs: None,
            metrics: metrics.clone(),
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: false,
            batch: 1000,
            operator: Operator::default(),
            checks: Vec::new(),
            stop: stop.clone(),
            sync_budget: BUDGET,
            files: Arc::default(),
        });
        let router = router(zone);
        let options = WorkerOptions {
            look_every: Duration::from_millis(10),
            ..WorkerOptions::new("node")
        };
        let workers = Workers::start(
            hub.clone(),
            Arc::new(Nobody),
            options,
            metrics.clone(),
            stop.clone(),
        );
        let files = DevCa::open_or_make(folder.path(), &[]).unwrap();
        let transport = in_process(router.clone());
        let ending = stop.clone();
        let serve = Box::new(move |listener: Listener| {
            let served = listener.serve(router.clone(), ending.clone(), Duration::ZERO);
            tokio::spawn(served);
        });
        let token = token(&transport, &Clients::new(keep, clock)).await;
        Self {
            token,
            transport,
            serve,
            metrics,
            files,
            _workers: Mutex::new(workers),
            _stop: stop.drop_guard(),
            _folder: folder,
        }
    }

    fn credentials(&self) -> Credentials {
        Credentials::Bearer(Secret::new(&self.token))
    }

    /// A client without a network between.
    pub(super) fn in_process(&self) -> Client {
        let builder = Client::builder(URL).transport(Arc::new(self.transport.clone()));
        builder.credentials(self.credentials()).build().unwrap()
    }

    /// Listens, and says where.
    pub(super) async fn listen(&self) -> String {
        let tls = ServerTls::load(&TlsFiles {
            cert: self.files.cert.clone(),
            key: self.files.key.clone(),
            client_ca: None,
        })
        .unwrap();
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let limits = HttpLimits::default();
        let listener = Listener::bind(any, tls, limits, self.metrics.clone());
        let listener = listener.await.unwrap();
        let port = listener.local_addr().port();
        (self.serve)(listener);
        format!("https://localhost:{port}")
    }

    pub(super) fn https(&self, url: &str) -> Client {
        let builder = Client::builder(url).ca_file(&self.files.ca);
        builder.credentials(self.credentials()).build().unwrap()
    }
}

/// A token with all scopes.
async fn token(transport: &InProcess, clients: &Clients) -> String {
    let new = NewClient {
        id: Some("caller".to_owned()),
        name: "caller".to_owned(),
        scopes: Scope::ALL.map(|scope| scope.name().to_owned()).to_vec(),
        grants: vec![Grant::ClientCredentials],
        ..NewClient::default()
    };
    let secret = clients.add(new).await.unwrap().secret.unwrap();
    let credentials = interzone_client::ClientCredentials::new("caller", secret.expose());
    let client = Client::builder(URL)
        .transport(Arc::new(transport.clone()))
        .credentials(credentials.token_url(format!("{URL}/oauth2/token")))
        .build()
        .unwrap();
    client.token(&[]).await.unwrap().expose().to_owned()
}
