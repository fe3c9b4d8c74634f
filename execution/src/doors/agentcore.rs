//! The doors of a zone inside Amazon Bedrock AgentCore: the paths, ports and signs of life that its
//! runtime expects, and the same calls behind them as anywhere.
//!
//! The runtime ends TLS, proves who calls and lets nobody else in, so these doors believe it. They must
//! never stand anywhere else.

use super::{answer, card, jsonrpc};
use crate::rpc::Origin;
use crate::zone::Zone;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use axum::routing::{any, get};
use interzone_edge::auth::Identity;
use interzone_edge::listener::{Peer, Sender};
use interzone_edge::readiness::SharedCheck;
use interzone_edge::request::CORRELATION;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SESSION: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
const NAME: HeaderName =
    HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-custom-correlation-id");
const USER: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-user-id");

/// Where calls go on each port.
const HTTP: &str = "/invocations";
const AGENTS: &str = "/";

/// How a zone lives inside AgentCore.
pub struct AgentCoreOptions {
    /// As whom callers are known.
    pub principal: String,
    /// What they may.
    pub scopes: Vec<String>,
    /// Whether each user that the runtime names is somebody else: `principal:user`.
    pub per_user: bool,
    /// Whether a token is needed all the same, as at the other doors. The runtime passes one on if it
    /// is told to.
    pub require_token: bool,
    /// How many agents are at work on this node.
    pub running: Arc<dyn Fn() -> usize + Send + Sync>,
}

/// A zone inside AgentCore.
pub struct AgentCore {
    zone: Arc<Zone>,
    options: AgentCoreOptions,
    /// Whether work waits in the store. Requests at the same time share one query, but each later
    /// request makes its own, so that an answer is never older than its request.
    work_waits: SharedCheck<bool>,
    health: Mutex<Health>,
}

/// What was last told, and since when it is so (seconds since 1970).
#[derive(Clone, Copy)]
struct Health {
    busy: bool,
    since: i64,
}

impl AgentCore {
    /// The doors of this zone. They do nothing until their routers are served.
    pub fn new(zone: Arc<Zone>, options: AgentCoreOptions) -> Arc<Self> {
        let since = zone.hub.now().as_millis() / 1000;
        let hub = zone.hub.clone();
        let work_waits = SharedCheck::new(Duration::ZERO, move || {
            let hub = hub.clone();
            async move {
                let depth = hub.store().work_depth(hub.now()).await;
                depth.is_ok_and(|(waiting, _)| waiting > 0)
            }
        });
        Arc::new(Self {
            zone,
            options,
            work_waits,
            health: Mutex::new(Health { busy: false, since }),
        })
    }

    /// The doors of port 8080, AgentCore's HTTP protocol.
    pub fn http(self: &Arc<Self>) -> Router {
        Router::new()
            .route(HTTP, any(invoke))
            .route("/ping", get(ping))
            .method_not_allowed_fallback(answer::wrong_verb)
            .with_state(Arc::clone(self))
            .fallback(async |headers: HeaderMap| answer::nowhere_but(HTTP, &headers))
    }

    /// The doors of port 9000, where agents speak with each other.
    pub fn agents(self: &Arc<Self>) -> Router {
        let card = async |State(zone): State<Arc<Zone>>, headers: HeaderMap| {
            card::at(AGENTS, &zone, &headers)
        };
        let card = get(card).with_state(Arc::clone(&self.zone));
        Router::new()
            .route(AGENTS, any(invoke))
            .route("/ping", get(ping))
            .method_not_allowed_fallback(answer::wrong_verb)
            .with_state(Arc::clone(self))
            .route("/.well-known/agent-card.json", card)
            .fallback(async |headers: HeaderMap| answer::nowhere_but(AGENTS, &headers))
    }

    /// Whoever the runtime lets through, with these headers.
    fn caller(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Arc<Peer> {
        let options = &self.options;
        // A name that cannot be read, or two of them, are nobody's: taking it for no name at all would
        // show one user the tasks of another.
        let mut users = headers.get_all(USER).iter();
        let principal = match (options.per_user, users.next(), users.next()) {
            (false, ..) | (true, None, _) => Some(options.principal.clone()),
            (true, Some(user), None) => {
                let user = user.to_str().ok().filter(|user| !user.trim().is_empty());
                user.map(|user| format!("{}:{user}", options.principal))
            }
            (true, Some(_), Some(_)) => None,
        };
        let scopes = options.scopes.iter().map(String::as_str);
        let identity = principal
            .filter(|_| !options.require_token)
            .map(|name| Identity::new(name, options.principal.as_str(), scopes, u64::MAX));
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Arc::new(Peer {
            address: peer.map_or(nowhere, |peer| peer.address),
            certificate: None,
            vouched: identity.map(Arc::new),
        })
    }

    /// Whether something is at work here or waits for it. A store that does not say soon leaves it at
    /// what runs.
    async fn is_busy(&self) -> bool {
        (self.options.running)() > 0 || self.work_waits.result().await.unwrap_or(false)
    }

    /// Notes how it is, and since when it is so: the runtime counts from there how long a session has
    /// been idle, so that moment must not move by itself.
    fn noted(&self, busy: bool) -> Health {
        let now = self.zone.hub.now().as_millis() / 1000;
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if health.busy != busy {
            *health = Health { busy, since: now };
        }
        *health
    }
}

/// A call, whatever its dialect.
async fn invoke(State(core): State<Arc<AgentCore>>, mut request: Request) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let caller = core.caller(request.headers(), peer.as_deref());
    // The runtime lets only headers of its own through. Without a name, a session is the one under
    // which its logs have the call.
    let headers = request.headers_mut();
    let name = headers.get(NAME).or_else(|| headers.get(SESSION)).cloned();
    if let (Some(name), false) = (name, headers.contains_key(CORRELATION)) {
        headers.insert(CORRELATION, name);
    }
    let door = match request.uri().path() {
        AGENTS => AGENTS,
        _ => HTTP,
    };
    let sender = request.extensions().get::<Sender>().cloned();
    jsonrpc::answer(Arc::clone(&core.zone), request, Some(caller), sender, door).await
}

/// A sign of life.
async fn ping(State(core): State<Arc<AgentCore>>, headers: HeaderMap) -> Response {
    let busy = core.is_busy().await;
    let health = core.noted(busy);
    let word = if health.busy {
        "HealthyBusy"
    } else {
        "Healthy"
    };
    let body = json!({"status": word, "time_of_last_update": health.since}).to_string();
    answer::json(StatusCode::OK, body, &Origin::of(&headers, None))
}
