//! What comes before a watch: who it is, whether they may, and where in the log to begin.

use super::seats::Seat;
use crate::rpc::errors::{self, WireError, to_wire};
use crate::rpc::{Known, Origin};
use crate::zone::Zone;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use interzone_edge::audit::Entry;
use interzone_hub::{Subject, Watch};
use interzone_protocol::Dialect;
use interzone_protocol::acp::Scope;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A watch that may begin.
pub(super) struct Attached {
    pub(super) known: Known,
    pub(super) watch: Watch,
    /// When the token ends, and the watch with it.
    pub(super) ends: Instant,
    /// Its place among the watches of the same principal.
    pub(super) seat: Seat,
}

/// The id in the path. What is no text at all is nobody's id.
pub(super) fn named(id: Result<Path<String>, PathRejection>) -> String {
    id.map(|Path(id)| id).unwrap_or_default()
}

/// Opens a watch on a subject. `kind` is what it is called in the audit.
pub(super) async fn attach(
    zone: &Zone,
    parts: &Parts,
    origin: &Origin,
    subject: Result<Subject, WireError>,
    kind: &'static str,
) -> Result<Attached, Box<WireError>> {
    let known = Known::by(zone, &parts.headers, origin.peer.as_deref()).await?;
    // It counts until its answer begins; after that it is one of the caller's watches.
    let _request = known.begin_request(zone)?;
    let opened = open(zone, parts, &known, subject).await;
    let error = opened.as_ref().err();
    zone.metrics
        .request(kind, error.map_or("ok", |error| error.word), 0.0);
    zone.audit.record(&Entry {
        at: SystemTime::now(),
        who: &known.identity.principal,
        client: &known.identity.client,
        method: kind,
        id: None,
        subject: parts.uri.path().split('/').nth(2),
        outcome: error.map_or("ok", |error| error.word),
        code: error.map(|error| error.code.get()),
        latency: Duration::ZERO,
        correlation: origin.correlation.as_str(),
        address: origin.peer.as_ref().map(|peer| peer.address.ip()),
    });
    let (watch, seat) = opened?;
    let ends = ends(zone, known.identity.expires_at());
    Ok(Attached {
        known,
        watch,
        ends,
        seat,
    })
}

async fn open(
    zone: &Zone,
    parts: &Parts,
    known: &Known,
    subject: Result<Subject, WireError>,
) -> Result<(Watch, Seat), Box<WireError>> {
    let own = match &subject {
        Ok(Subject::Stream(_)) => Scope::StreamsRead,
        Ok(Subject::Task(_)) => Scope::TasksRead,
        // An id that can be nobody's is not worth a scope of its own.
        Err(_) => Scope::AgentIdentify,
    };
    known.needs(zone, &[Scope::AgentIdentify, own])?;
    if let Err(fast) = zone.rate.check(&known.identity.client) {
        zone.metrics.rate_limited();
        return Err(Box::new(errors::too_fast(fast.retry_after, fast.limit)));
    }
    let subject = subject.map_err(not_found)?;
    let seat = zone.seats.take(&known.identity.principal);
    let seat = seat.map_err(|most| {
        zone.metrics.rate_limited();
        errors::too_many_watches(most)
    })?;
    let opened = zone.hub.watch(&known.caller, subject, after(parts)).await;
    let watch = opened.map_err(|error| {
        let error = to_wire(&error, Dialect::Acp);
        if error.http == StatusCode::OK {
            not_found(error)
        } else {
            Box::new(error)
        }
    })?;
    Ok((watch, seat))
}

/// Here the status says it too: there is no call that could be answered.
fn not_found(error: WireError) -> Box<WireError> {
    Box::new(WireError {
        http: StatusCode::NOT_FOUND,
        ..error
    })
}

/// The last event that the watcher has seen, by its header or by `?after=`. Something unreadable
/// means none: to see all again loses nothing.
fn after(parts: &Parts) -> u64 {
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

/// When a token that expires at this moment ends.
pub(super) fn ends(zone: &Zone, expires_at: u64) -> Instant {
    let now = u64::try_from(zone.hub.now().as_millis()).unwrap_or(0);
    let left = expires_at.saturating_mul(1_000).saturating_sub(now);
    // A clock that counts in nanoseconds ends before some tokens do.
    let longest = Duration::from_secs(365 * 24 * 3_600);
    Instant::now() + Duration::from_millis(left).min(longest)
}
