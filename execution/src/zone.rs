//! What all doors of the zone share. No request enters here, and no decision about one.

use crate::doors::Seats;
use crate::events::Shared;
use crate::files::FileRules;
use crate::pairs::PairLog;
use interzone_edge::audit::Audit;
use interzone_edge::auth::Authenticator;
use interzone_edge::egress::Egress;
use interzone_edge::in_flight::InFlight;
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate::RateLimiter;
use interzone_edge::readiness::{self, SharedCheck};
use interzone_edge::telemetry::Metrics;
use interzone_hub::Hub;
use interzone_protocol::acp::Provider;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Looks whether something that the zone needs is there. A word says what is not.
pub type Check = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Who runs the zone, as its card tells.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The name of the zone, 1 to 100 characters.
    pub name: String,
    /// What it is for, 1 to 500 characters.
    pub description: String,
    /// Who runs it.
    pub provider: Provider,
}

impl Default for Operator {
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

/// What a zone is made of.
pub struct ZoneOptions {
    /// What happens.
    pub hub: Hub,
    /// Proves who calls.
    pub auth: Arc<Authenticator>,
    /// The issuer's routes, if it is built in.
    pub issuer: Option<axum::Router>,
    /// The name of whoever issues tokens, for those who look for a token.
    pub issuer_url: String,
    /// Where tokens come from.
    pub token_url: String,
    /// The guarded way out.
    pub egress: Egress,
    /// What requests may cost.
    pub limits: HttpLimits,
    /// How often a client may ask.
    pub rate: RateLimiter,
    /// Who did what.
    pub audit: Audit,
    /// Where answered requests are noted for operators, if they are.
    pub pairs: Option<PairLog>,
    /// What the zone tells of itself.
    pub metrics: Arc<Metrics>,
    /// Whether anybody may read the metrics. If not, it takes a token with the scope
    /// `interzone:operate`.
    pub metrics_public: bool,
    /// Where the zone is reached from outside: https.
    pub public_url: Url,
    /// Whether answers that have a JSON-RPC error have status 200 all the same. Clients that look at
    /// the status first, as the SDK of ACP does, then see the exact code.
    pub always_200: bool,
    /// How many messages a batch may have.
    pub batch: usize,
    /// How long `execute_task` waits before it answers `accepted`; at most nearly as long as a request
    /// may take at all. [`ZoneOptions::SYNC_BUDGET`] is usual.
    pub sync_budget: Duration,
    /// Which of the files that agents make are handed out.
    pub files: Arc<FileRules>,
    /// Who runs it.
    pub operator: Operator,
    /// What must be there for the zone to be ready, beside its store and its agents.
    pub checks: Vec<Check>,
    /// Ends all watches when the zone closes, so that nobody has to be waited for.
    pub stop: CancellationToken,
}

impl ZoneOptions {
    /// How long `execute_task` waits if nobody says otherwise.
    pub const SYNC_BUDGET: Duration = Duration::from_secs(20);
}

/// The Execution Zone: everything that its doors share.
pub struct Zone {
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
    pub(crate) pairs: Option<PairLog>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) metrics_public: bool,
    pub(crate) public_url: Url,
    pub(crate) always_200: bool,
    pub(crate) batch: usize,
    pub(crate) sync_budget: Duration,
    pub(crate) files: Arc<FileRules>,
    pub(crate) operator: Operator,
    pub(crate) checks: Vec<Check>,
    /// Whether the store can be read and written.
    pub(crate) store_check: SharedCheck<bool>,
    pub(crate) stop: CancellationToken,
    /// What was written for one watcher and serves the others.
    pub(crate) told: Shared,
    /// Who watches how much.
    pub(crate) seats: Arc<Seats>,
    /// Which caller has how many requests in flight.
    pub(crate) in_flight: Arc<InFlight>,
}

impl Zone {
    /// A zone. It does nothing until its [`router`](crate::router) is served.
    pub fn new(options: ZoneOptions) -> Arc<Self> {
        options
            .hub
            .set_person_reader(crate::rpc::zone::asking_person);
        let base = options.public_url.as_str().trim_end_matches('/');
        let metadata_url = format!("{base}/.well-known/oauth-protected-resource");
        // Whoever is answered too late is not answered at all.
        let longest = options.limits.request_time.mul_f32(0.9);
        Arc::new(Self {
            store_check: check_store(options.hub.clone()),
            hub: options.hub,
            auth: options.auth,
            issuer: options.issuer,
            issuer_url: options.issuer_url,
            token_url: options.token_url,
            metadata_url,
            egress: options.egress,
            seats: Seats::new(options.limits.watches),
            in_flight: InFlight::new(&options.limits),
            limits: options.limits,
            rate: options.rate,
            audit: options.audit,
            pairs: options.pairs,
            metrics: options.metrics,
            metrics_public: options.metrics_public,
            public_url: options.public_url,
            always_200: options.always_200,
            batch: options.batch,
            sync_budget: options.sync_budget.min(longest),
            files: options.files,
            operator: options.operator,
            checks: options.checks,
            stop: options.stop,
            told: Shared::default(),
        })
    }

    /// An address below the zone's own.
    pub(crate) fn address(&self, path: &str) -> String {
        let base = self.public_url.as_str().trim_end_matches('/');
        format!("{base}{path}")
    }
}

/// Writes to the store and reads it back, at most once a second: `/readyz` asks for it, which every
/// caller may.
fn check_store(hub: Hub) -> SharedCheck<bool> {
    SharedCheck::new(readiness::INTERVAL, move || {
        let hub = hub.clone();
        async move {
            let checked = hub.store().check().await;
            if let Err(error) = &checked {
                tracing::warn!(%error, "the store cannot be used");
            }
            checked.is_ok()
        }
    })
}
