//! State shared by all endpoints of the Execution Zone, and its configuration.

use crate::files::FileRules;
use crate::http::WatchLimiter;
use crate::notifications::EventRenderCache;
use crate::request_log::RequestLog;
use crate::rpc;
use crate::rpc::dialect::{DIALECTS, Dialect, MethodRegistry, OWN_ENDPOINTS};
use crate::rpc::errors::AuthUrls;
use interzone_edge::audit::Audit;
use interzone_edge::auth::Authenticator;
use interzone_edge::egress::Egress;
use interzone_edge::in_flight::InFlight;
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate_limiter::RateLimiter;
use interzone_edge::readiness::{self, SharedCheck};
use interzone_edge::telemetry::Metrics;
use interzone_hub::Hub;
use interzone_protocol::vocab::Provider;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Readiness check of a dependency. Returns the reason if it is not ready.
pub type ReadinessCheck = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Identity of the zone on its agent card.
#[derive(Clone, Debug)]
pub struct OperatorInfo {
    /// Name of the zone, 1 to 100 characters.
    pub name: String,
    /// Purpose of the zone, 1 to 500 characters.
    pub description: String,
    /// Organization that runs the zone.
    pub provider: Provider,
}

impl Default for OperatorInfo {
    fn default() -> Self {
        Self {
            name: "Interzone".to_owned(),
            description: "Agents behind one JSON-RPC endpoint".to_owned(),
            provider: Provider {
                organization: "Interzone".to_owned(),
                contact: None,
                website: None,
            },
        }
    }
}

/// Configuration and dependencies of an Execution Zone.
pub struct ExecutionOptions {
    /// The hub that holds tasks and streams.
    pub hub: Hub,
    /// Authenticates callers.
    pub auth: Arc<Authenticator>,
    /// The issuer's routes, if it is built in.
    pub issuer: Option<axum::Router>,
    /// Issuer URL, published in the protected-resource metadata.
    pub issuer_url: String,
    /// URL of the token endpoint.
    pub token_url: String,
    /// Guarded HTTP client for outgoing requests.
    pub egress: Egress,
    /// Limits of HTTP requests.
    pub limits: HttpLimits,
    /// Rate limiter per client.
    pub rate: RateLimiter,
    /// Audit log.
    pub audit: Audit,
    /// Log of answered requests for operators, if enabled.
    pub request_log: Option<RequestLog>,
    /// Metrics of the zone.
    pub metrics: Arc<Metrics>,
    /// True if the metrics are public. If not, reading them requires a token with the scope
    /// `interzone:operate`.
    pub metrics_public: bool,
    /// Public base URL of the zone: https.
    pub public_url: Url,
    /// True if responses with a JSON-RPC error have status 200. Clients that check the status first, as ACP's
    /// SDK does, then see the exact code.
    pub always_200: bool,
    /// Maximum number of messages in a batch.
    pub batch_limit: usize,
    /// Time `execute_task` waits before it answers `accepted`; capped just below the request timeout.
    /// The default is [`ExecutionOptions::SYNC_BUDGET`].
    pub sync_budget: Duration,
    /// Rules for files that agents generate.
    pub files: Arc<FileRules>,
    /// Identity on the agent card.
    pub operator: OperatorInfo,
    /// Readiness checks in addition to the store and the agents.
    pub checks: Vec<ReadinessCheck>,
    /// Cancelled on shutdown: ends all watches, so that shutdown does not wait for them.
    pub stop: CancellationToken,
}

impl ExecutionOptions {
    /// Default time that `execute_task` waits for a result.
    pub const SYNC_BUDGET: Duration = Duration::from_secs(20);
}

/// State of the Execution Zone, shared by all endpoints.
pub struct ExecutionState {
    pub(crate) hub: Hub,
    pub(crate) auth: Arc<Authenticator>,
    pub(crate) issuer: Option<axum::Router>,
    pub(crate) issuer_url: String,
    pub(crate) token_url: String,
    pub(crate) metadata_url: String,
    pub(crate) egress: Egress,
    pub(crate) limits: HttpLimits,
    pub(crate) rate: RateLimiter,
    pub(crate) audit: Audit,
    pub(crate) request_log: Option<RequestLog>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) metrics_public: bool,
    pub(crate) public_url: Url,
    pub(crate) always_200: bool,
    pub(crate) batch_limit: usize,
    pub(crate) sync_budget: Duration,
    pub(crate) files: Arc<FileRules>,
    pub(crate) operator: OperatorInfo,
    pub(crate) checks: Vec<ReadinessCheck>,
    /// Checks that the store can be read and written.
    pub(crate) store_check: SharedCheck<bool>,
    pub(crate) stop: CancellationToken,
    /// Cache of rendered events, shared by all watchers.
    pub(crate) render_cache: EventRenderCache,
    /// Limit of open watches per principal.
    pub(crate) watch_limiter: Arc<WatchLimiter>,
    /// Methods of `POST /jsonrpc`.
    methods: MethodRegistry,
    /// Methods of endpoints that serve one dialect only, by path.
    own_methods: Vec<(&'static str, MethodRegistry)>,
    /// In-flight requests per caller.
    pub(crate) in_flight: Arc<InFlight>,
}

impl ExecutionState {
    /// Creates the state. Nothing is served until its [`router`](crate::router) is.
    pub fn new(options: ExecutionOptions) -> Arc<Self> {
        Self::with_dialects(options, &rpc::acp::AcpDialect, DIALECTS)
    }

    /// Creates the state with these dialects on `POST /jsonrpc`.
    pub(crate) fn with_dialects(
        options: ExecutionOptions,
        default_dialect: &'static dyn Dialect,
        dialects: &[&'static dyn Dialect],
    ) -> Arc<Self> {
        options.hub.set_person_reader(rpc::zone::task_person);
        let base = options.public_url.as_str().trim_end_matches('/');
        let metadata_url = format!("{base}/.well-known/oauth-protected-resource");
        // A response after the request timeout would not reach the caller.
        let max_sync_budget = options.limits.request_timeout.mul_f32(0.9);
        Arc::new(Self {
            store_check: check_store(options.hub.clone()),
            hub: options.hub,
            auth: options.auth,
            issuer: options.issuer,
            issuer_url: options.issuer_url,
            token_url: options.token_url,
            metadata_url,
            egress: options.egress,
            watch_limiter: WatchLimiter::new(options.limits.watches_per_principal),
            in_flight: InFlight::new(&options.limits),
            limits: options.limits,
            rate: options.rate,
            audit: options.audit,
            request_log: options.request_log,
            metrics: options.metrics,
            metrics_public: options.metrics_public,
            public_url: options.public_url,
            always_200: options.always_200,
            batch_limit: options.batch_limit,
            sync_budget: options.sync_budget.min(max_sync_budget),
            files: options.files,
            operator: options.operator,
            checks: options.checks,
            stop: options.stop,
            render_cache: EventRenderCache::default(),
            methods: MethodRegistry::new(default_dialect, dialects),
            own_methods: OWN_ENDPOINTS
                .iter()
                .map(|(path, dialect)| (*path, MethodRegistry::own(*dialect)))
                .collect(),
        })
    }

    /// Methods of the endpoint at this path, without the prefix of an agent.
    pub(crate) fn methods_at(&self, path: &str) -> &MethodRegistry {
        let mut own = self.own_methods.iter();
        let own = own.find(|(own, _)| *own == path);
        own.map_or(&self.methods, |(_, methods)| methods)
    }

    /// URLs that authentication errors name.
    pub(crate) fn auth_urls(&self) -> AuthUrls<'_> {
        AuthUrls {
            token: &self.token_url,
            metadata: &self.metadata_url,
        }
    }

    /// Returns the absolute URL of a path below the public URL.
    pub(crate) fn absolute_url(&self, path: &str) -> String {
        let base = self.public_url.as_str().trim_end_matches('/');
        format!("{base}{path}")
    }
}

/// Store readiness check: a write and a read, at most once per second because `/readyz` is open to every
/// caller.
fn check_store(hub: Hub) -> SharedCheck<bool> {
    SharedCheck::new(readiness::CHECK_INTERVAL, move || {
        let hub = hub.clone();
        async move {
            let checked = hub.store().check().await;
            if let Err(error) = &checked {
                tracing::warn!(%error, "store check failed");
            }
            checked.is_ok()
        }
    })
}
