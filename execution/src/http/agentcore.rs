//! Endpoints for a zone inside Amazon Bedrock AgentCore: the paths, ports and health checks that its
//! runtime expects, in front of the same JSON-RPC handlers.
//!
//! The runtime terminates TLS and authenticates callers, so these endpoints trust it. They must never be
//! exposed anywhere else.

use super::{card, jsonrpc, response};
use crate::rpc::RequestMeta;
use crate::rpc::context::Endpoint;
use crate::state::ExecutionState;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{from_fn, map_request};
use axum::response::Response;
use axum::routing::{any, get};
use interzone_edge::auth::Identity;
use interzone_edge::listener::{ConnectionHandle, Peer};
use interzone_edge::readiness::SharedCheck;
use interzone_edge::request_context::CORRELATION_HEADER;
use interzone_edge::telemetry;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SESSION_ID: HeaderName =
    HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
const CUSTOM_CORRELATION: HeaderName =
    HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-custom-correlation-id");
const USER_ID: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-user-id");

/// Call endpoints, one per port.
const HTTP_ENDPOINT: &str = "/invocations";
const A2A_ENDPOINT: &str = "/";

/// Configuration of a zone inside AgentCore.
pub struct AgentCoreOptions {
    /// Principal of all callers.
    pub principal: String,
    /// Scopes granted to callers.
    pub scopes: Vec<String>,
    /// True if each user named by the runtime is a principal of its own: `principal:user`.
    pub per_user: bool,
    /// True if a token is required as on the other endpoints. The runtime forwards one if configured to.
    pub require_token: bool,
    /// Number of agents running on this node.
    pub running: Arc<dyn Fn() -> usize + Send + Sync>,
}

/// A zone inside AgentCore.
pub struct AgentCore {
    zone: Arc<ExecutionState>,
    options: AgentCoreOptions,
    /// True if work is queued in the store. Concurrent requests share one query; each later request runs its
    /// own, so a result is never older than its request.
    has_queued_work: SharedCheck<bool>,
    health: Mutex<PingStatus>,
}

/// Last reported status and when it changed (seconds since 1970).
#[derive(Clone, Copy)]
struct PingStatus {
    busy: bool,
    since: i64,
}

impl AgentCore {
    /// Creates the endpoints. Nothing is served until the routers are.
    pub fn new(zone: Arc<ExecutionState>, options: AgentCoreOptions) -> Arc<Self> {
        let since = zone.hub.now().as_millis() / 1000;
        let hub = zone.hub.clone();
        let has_queued_work = SharedCheck::new(Duration::ZERO, move || {
            let hub = hub.clone();
            async move {
                let depth = hub.store().work_depth(hub.now()).await;
                depth.is_ok_and(|(waiting, _)| waiting > 0)
            }
        });
        Arc::new(Self {
            zone,
            options,
            has_queued_work,
            health: Mutex::new(PingStatus { busy: false, since }),
        })
    }

    /// Router for port 8080, AgentCore's HTTP protocol.
    pub fn http(self: &Arc<Self>) -> Router {
        Router::new()
            .route(HTTP_ENDPOINT, any(invoke))
            .route("/ping", get(ping))
            .method_not_allowed_fallback(response::method_not_allowed)
            .with_state(Arc::clone(self))
            .fallback(async |headers: HeaderMap| response::not_found_with(HTTP_ENDPOINT, &headers))
            .layer(from_fn(telemetry::trace_request))
            .layer(map_request(set_correlation))
    }

    /// Router for port 9000, agent-to-agent calls.
    pub fn a2a(self: &Arc<Self>) -> Router {
        let card = async |State(zone): State<Arc<ExecutionState>>, headers: HeaderMap| {
            card::card_response(A2A_ENDPOINT, &zone, &headers)
        };
        let card = get(card).with_state(Arc::clone(&self.zone));
        Router::new()
            .route(A2A_ENDPOINT, any(invoke))
            .route("/ping", get(ping))
            .method_not_allowed_fallback(response::method_not_allowed)
            .with_state(Arc::clone(self))
            .route("/.well-known/agent-card.json", card)
            .fallback(async |headers: HeaderMap| response::not_found_with(A2A_ENDPOINT, &headers))
            .layer(from_fn(telemetry::trace_request))
            .layer(map_request(set_correlation))
    }

    /// Builds the peer for a request that the runtime let through, with the identity from its headers.
    fn vouched_peer(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Arc<Peer> {
        let options = &self.options;
        // An unreadable or duplicate user id is rejected: treating it as absent would show one user the tasks
        // of another.
        let mut users = headers.get_all(USER_ID).iter();
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
        let unknown_address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Arc::new(Peer {
            address: peer.map_or(unknown_address, |peer| peer.address),
            certificate: None,
            platform_identity: identity.map(Arc::new),
            connection: ConnectionHandle::default(),
        })
    }

    /// True if work is running here or queued. If the store does not answer in time, only running work counts.
    async fn is_busy(&self) -> bool {
        (self.options.running)() > 0 || self.has_queued_work.result().await.unwrap_or(false)
    }

    /// Records the status and returns it with the time of its last change. The runtime measures a session's
    /// idle time from that timestamp, so it must not move unless the status changes.
    fn update_status(&self, busy: bool) -> PingStatus {
        let now = self.zone.hub.now().as_millis() / 1000;
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if health.busy != busy {
            *health = PingStatus { busy, since: now };
        }
        *health
    }
}

/// Sets the correlation id of a request that has none. The runtime only lets its own headers through; without a
/// custom correlation id, the session id is the one its logs have for the call.
async fn set_correlation(mut request: Request) -> Request {
    let headers = request.headers_mut();
    let correlation = headers
        .get(CUSTOM_CORRELATION)
        .or_else(|| headers.get(SESSION_ID))
        .cloned();
    if let (Some(name), false) = (correlation, headers.contains_key(CORRELATION_HEADER)) {
        headers.insert(CORRELATION_HEADER, name);
    }
    request
}

/// Handles a call in any dialect.
async fn invoke(State(core): State<Arc<AgentCore>>, request: Request) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let caller = core.vouched_peer(request.headers(), peer.as_deref());
    let endpoint = match request.uri().path() {
        A2A_ENDPOINT => A2A_ENDPOINT,
        _ => HTTP_ENDPOINT,
    };
    jsonrpc::serve_request(
        Arc::clone(&core.zone),
        request,
        Some(caller),
        Endpoint::new(endpoint),
    )
    .await
}

/// `GET /ping`, AgentCore's health check.
async fn ping(State(core): State<Arc<AgentCore>>, headers: HeaderMap) -> Response {
    let busy = core.is_busy().await;
    let health = core.update_status(busy);
    let status = if health.busy {
        "HealthyBusy"
    } else {
        "Healthy"
    };
    let body = json!({"status": status, "time_of_last_update": health.since}).to_string();
    response::json(
        StatusCode::OK,
        body,
        &RequestMeta::from_headers(&headers, None),
    )
}
