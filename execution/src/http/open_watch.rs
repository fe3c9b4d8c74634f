//! Opens a watch: authentication, scopes, rate limit, watch limit and the replay position.

use super::watch_limit::WatchPermit;
use crate::rpc::acp::errors::{from_hub, map_error, too_many_watches};
use crate::rpc::errors::{CallError, WireError};
use crate::rpc::{AuthenticatedCaller, RequestMeta};
use crate::state::ExecutionState;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use interzone_edge::audit::AuditEntry;
use interzone_hub::{Subject, Watch};
use interzone_protocol::Scope;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An opened watch.
pub(super) struct OpenedWatch {
    pub(super) caller: AuthenticatedCaller,
    pub(super) watch: Watch,
    /// Expiry of the token, which ends the watch.
    pub(super) expires_at: Instant,
    /// Permit of the principal's watch limit.
    pub(super) permit: WatchPermit,
}

/// Returns the id in the path. A path that is not valid text becomes an empty id, which matches nothing.
pub(super) fn path_id(id: Result<Path<String>, PathRejection>) -> String {
    id.map(|Path(id)| id).unwrap_or_default()
}

/// Opens a watch on a subject. `kind` is its method name in audit and metrics.
pub(super) async fn open_watch(
    zone: &ExecutionState,
    parts: &Parts,
    meta: &RequestMeta,
    subject: Result<Subject, WireError>,
    kind: &'static str,
) -> Result<OpenedWatch, Box<WireError>> {
    let caller =
        AuthenticatedCaller::authenticate(zone, &parts.headers, meta.peer.as_deref()).await;
    let caller = caller.map_err(|error| to_wire(zone, &error))?;
    // Counts as an in-flight request until the response begins, then as one of the caller's watches.
    let request = caller.begin_request(zone);
    let _request = request.map_err(|error| to_wire(zone, &error))?;
    let opened = authorize_and_open(zone, parts, &caller, subject).await;
    let error = opened.as_ref().err();
    zone.metrics
        .record_request(kind, error.map_or("ok", |error| error.label), 0.0);
    zone.audit.record(&AuditEntry {
        at: SystemTime::now(),
        principal: &caller.identity.principal,
        client: &caller.identity.client,
        method: kind,
        id: None,
        subject: parts.uri.path().split('/').nth(2),
        outcome: error.map_or("ok", |error| error.label),
        code: error.map(|error| error.code.get()),
        latency: Duration::ZERO,
        correlation: meta.correlation.as_str(),
        address: meta.peer.as_ref().map(|peer| peer.address.ip()),
    });
    let (watch, permit) = opened?;
    let expires_at = token_deadline(zone, caller.identity.expires_at());
    Ok(OpenedWatch {
        caller,
        watch,
        expires_at,
        permit,
    })
}

async fn authorize_and_open(
    zone: &ExecutionState,
    parts: &Parts,
    caller: &AuthenticatedCaller,
    subject: Result<Subject, WireError>,
) -> Result<(Watch, WatchPermit), Box<WireError>> {
    let scopes: &[Scope] = match &subject {
        Ok(Subject::Stream(_)) => &[Scope::AgentIdentify, Scope::StreamsRead],
        Ok(Subject::Task(_)) => &[Scope::AgentIdentify, Scope::TasksRead],
        // An invalid id needs no scope of its own: it matches no subject.
        Err(_) => &[Scope::AgentIdentify, Scope::AgentIdentify],
    };
    let checked = caller.require_scopes(scopes);
    let checked = checked.and_then(|()| caller.check_rate(zone));
    checked.map_err(|error| to_wire(zone, &error))?;
    let subject = subject.map_err(with_not_found_status)?;
    let permit = zone.watch_limiter.acquire(&caller.identity.principal);
    let permit = permit.map_err(|limit| {
        zone.metrics.record_rate_limited();
        too_many_watches(limit)
    })?;
    let opened = zone
        .hub
        .watch(&caller.hub_caller, subject, last_event_id(parts))
        .await;
    let watch = opened.map_err(|error| {
        let error = from_hub(&error);
        if error.http == StatusCode::OK {
            with_not_found_status(error)
        } else {
            Box::new(error)
        }
    })?;
    Ok((watch, permit))
}

/// Maps an error to ACP, whose endpoints these are.
fn to_wire(zone: &ExecutionState, error: &CallError) -> Box<WireError> {
    Box::new(map_error(None, error, zone.auth_urls()))
}

/// Sets status 404: a watch request has no JSON-RPC call to answer with status 200.
fn with_not_found_status(error: WireError) -> Box<WireError> {
    Box::new(WireError {
        http: StatusCode::NOT_FOUND,
        ..error
    })
}

/// Returns the last event that the client has seen, from the `Last-Event-ID` header or `?after=`. An invalid
/// value counts as 0: replaying everything loses nothing.
fn last_event_id(parts: &Parts) -> u64 {
    let header = parts.headers.get(LAST_EVENT_ID);
    let by_header = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let by_query = || {
        let query = parts.uri.query().unwrap_or_default();
        url::form_urlencoded::parse(query.as_bytes())
            .find(|(name, _)| name == "after")
            .and_then(|(_, value)| value.parse().ok())
    };
    by_header.or_else(by_query).unwrap_or(0)
}

/// Returns the instant at which a token with this expiry (Unix seconds) expires.
pub(super) fn token_deadline(zone: &ExecutionState, expires_at: u64) -> Instant {
    let now = u64::try_from(zone.hub.now().as_millis()).unwrap_or(0);
    let remaining_ms = expires_at.saturating_mul(1_000).saturating_sub(now);
    // `Instant` overflows before the expiry of some tokens.
    let max = Duration::from_secs(365 * 24 * 3_600);
    Instant::now() + Duration::from_millis(remaining_ms).min(max)
}
