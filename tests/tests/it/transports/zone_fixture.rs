//! Test zone with its own store, issuer, workers and agents, reachable over several transports.

use interzone_client::{Client, Credentials, InProcess, Secret};
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, KeyConfig};
use interzone_edge::clock::Clock as EdgeClock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::rate_limiter::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, DevCaFiles, ServerTls, TlsFiles, TrustRoots, install_provider};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{WorkerOptions, Workers};
use interzone_execution::{ExecutionOptions, ExecutionState, OperatorInfo, in_process, router};
use interzone_hub::ports::MemoryRecordStore;
use interzone_hub::{Agent, Hub, HubError, Limits, OutboxEntry, RandomIds, Registry, SystemClock};
use interzone_issuer::{
    GrantType, Issuer, IssuerOptions, NewOAuthClient, OAuthClients, ScopeDefinition as IssuerScope,
};
use interzone_protocol::Scope;
use interzone_protocol::vocab::AgentId;
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

const URL: &str = "https://zone.test";

/// Sync budget of `execute_task`: long enough for quick calls, short enough for a test.
const SYNC_BUDGET: Duration = Duration::from_millis(500);

type ServeFn = Box<dyn Fn(Listener) + Send + Sync>;

pub(super) struct TransportFixture {
    pub(super) token: String,
    pub(super) transport: InProcess,
    serve: ServeFn,
    metrics: Arc<Metrics>,
    pub(super) files: DevCaFiles,
    /// Declared last, so that the fields above still work while the workers stop.
    _workers: Mutex<Workers>,
    _stop: DropGuard,
    _folder: tempfile::TempDir,
}

/// Delivery handler that expects no delivery.
struct UnusedDeliveryHandler;

#[async_trait::async_trait]
impl DeliveryHandler for UnusedDeliveryHandler {
    async fn deliver(&self, _: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        panic!("no delivery is expected");
    }
}

pub(super) fn agent_id(id: &str) -> AgentId {
    AgentId::new(id).unwrap()
}

impl TransportFixture {
    pub(super) async fn with_demo_agent() -> Self {
        Self::with_agent(Arc::new(DemoAgent::new(agent_id("demo"), 16))).await
    }

    pub(super) async fn with_agent(agent: Arc<dyn Agent>) -> Self {
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
        let clock = EdgeClock::system();
        let issuer_store = Arc::new(MemoryRecordStore::default());
        let scopes = Scope::ALL.map(|scope| IssuerScope::new(scope.name(), ""));
        let issuer_options = IssuerOptions::new(URL, vec![URL.to_owned()], scopes.to_vec());
        let issuer = Issuer::open(issuer_store.clone(), issuer_options)
            .await
            .unwrap();
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
        let zone = ExecutionState::new(ExecutionOptions {
            hub: hub.clone(),
            auth: Arc::new(auth),
            issuer: Some(issuer.router()),
            issuer_url: URL.to_owned(),
            token_url: format!("{URL}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: HttpLimits::default(),
            rate: RateLimiter::new(0, 0),
            audit: Audit::to_log(std::io::sink(), metrics.clone()).unwrap(),
            request_log: None,
            metrics: metrics.clone(),
            metrics_public: false,
            public_url: URL.parse().unwrap(),
            always_200: false,
            batch_limit: 1000,
            operator: OperatorInfo::default(),
            checks: Vec::new(),
            stop: stop.clone(),
            sync_budget: SYNC_BUDGET,
            files: Arc::default(),
        });
        let router = router(zone);
        let options = WorkerOptions {
            poll_interval: Duration::from_millis(10),
            ..WorkerOptions::new("node")
        };
        let workers = Workers::start(
            hub.clone(),
            Arc::new(UnusedDeliveryHandler),
            options,
            metrics.clone(),
            stop.clone(),
        );
        let files = DevCa::open_or_create(folder.path(), &[]).unwrap();
        let transport = in_process(router.clone());
        let stop_serving = stop.clone();
        let serve = Box::new(move |listener: Listener| {
            let served = listener.serve(router.clone(), stop_serving.clone(), Duration::ZERO);
            tokio::spawn(served);
        });
        let token = issue_token(&transport, &OAuthClients::new(issuer_store, clock)).await;
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

    /// Client over the in-process transport.
    pub(super) fn in_process_client(&self) -> Client {
        let builder = Client::builder(URL).transport(Arc::new(self.transport.clone()));
        builder.credentials(self.credentials()).build().unwrap()
    }

    /// Starts a listener and returns its URL.
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

    pub(super) fn https_client(&self, url: &str) -> Client {
        let builder = Client::builder(url).ca_file(&self.files.ca);
        builder.credentials(self.credentials()).build().unwrap()
    }
}

/// Issues a token with all scopes.
async fn issue_token(transport: &InProcess, clients: &OAuthClients) -> String {
    let new = NewOAuthClient {
        id: Some("caller".to_owned()),
        name: "caller".to_owned(),
        scopes: Scope::ALL.map(|scope| scope.name().to_owned()).to_vec(),
        grants: vec![GrantType::ClientCredentials],
        ..NewOAuthClient::default()
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
