//! Authentication middleware of the console: session lookup, CSRF check and audit.

use super::Console;
use super::layout::{self, PageError};
use super::session::{ConsoleRights, ConsoleSession};
use super::sign_in;
use crate::memory::MemoryAccount;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use interzone_edge::Secret;
use interzone_edge::audit::AuditEntry;
use interzone_edge::body::read_form;
use interzone_edge::budget::ShareKey;
use interzone_edge::listener::Peer;
use interzone_edge::request_context::CorrelationId;
use interzone_hub::Caller;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use url::form_urlencoded;

/// The `__Host-` prefix binds the cookie to this origin.
pub(super) const COOKIE_NAME: &str = "__Host-interzone-console";
/// Maximum size of a form.
const MAX_FORM_BYTES: usize = 16 * 1024;
/// Timeout for receiving a form.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// The signed-in user of a request.
#[derive(Clone)]
pub(super) struct SignedInUser {
    pub(super) caller: Caller,
    pub(super) rights: ConsoleRights,
    pub(super) form_token: Secret,
    /// The session cookie.
    pub(super) cookie: Secret,
    /// Number of the last live update before the page was rendered.
    pub(super) cursor: u64,
}

impl SignedInUser {
    /// Budget share to which the user's requests are charged.
    pub(super) fn share(&self) -> ShareKey {
        ShareKey::Principal(self.caller.principal.as_str().into())
    }

    /// Memory account for the data of one page.
    pub(super) fn memory(&self, console: &Console) -> MemoryAccount {
        MemoryAccount::new(&console.zone.limits.response_memory, self.share())
    }
}

impl Console {
    /// Returns the session of a cookie, if its token is still valid.
    pub(super) fn find_session(
        &self,
        cookie: &str,
        peer: Option<&Peer>,
        is_user_action: bool,
    ) -> Option<ConsoleSession> {
        let session = self.sessions.find(cookie, is_user_action)?;
        if let Some(proof) = &session.token
            && self.zone.auth.recheck(&proof.identity, peer).is_err()
        {
            self.sessions.end(cookie);
            return None;
        }
        Some(session)
    }
}

/// Request data for the audit entry.
pub(super) struct VisitRecord {
    started_at: Instant,
    correlation: CorrelationId,
    address: Option<IpAddr>,
}

impl VisitRecord {
    pub(super) fn start(peer: Option<&Peer>, headers: &HeaderMap) -> Self {
        Self {
            started_at: Instant::now(),
            correlation: CorrelationId::from_headers(headers),
            address: peer.map(|peer| peer.address.ip()),
        }
    }

    /// Writes an audit entry.
    pub(super) fn audit(
        &self,
        console: &Console,
        session: &ConsoleSession,
        action: &'static str,
        subject: Option<&str>,
        outcome: &'static str,
    ) {
        console.zone.audit.record(&AuditEntry {
            at: SystemTime::now(),
            principal: session.principal.as_str(),
            client: &session.client,
            method: action,
            id: None,
            subject,
            outcome,
            code: None,
            latency: self.started_at.elapsed(),
            correlation: self.correlation.as_str(),
            address: self.address,
        });
    }
}

/// Middleware: admits signed-in users and audits their requests.
pub(super) async fn authenticate(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let record = VisitRecord::start(peer.as_deref(), request.headers());
    let cookie = cookie(request.headers(), COOKIE_NAME).map(Secret::new);
    let is_background = matches!(
        request.uri().path(),
        "/console/events" | "/console/plots" | "/console/rows"
    );
    let session = cookie.as_ref().and_then(|cookie| {
        let session = console.find_session(cookie.expose(), peer.as_deref(), !is_background)?;
        Some((cookie.clone(), session))
    });
    let Some((cookie, session)) = session else {
        return sign_in::require_login(&console, request.method(), request.uri(), is_background);
    };
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut user = SignedInUser {
        caller: Caller::operator(session.principal.clone()),
        rights: session.rights,
        form_token: session.form_token.clone(),
        cookie,
        cursor: 0,
    };
    if !is_background {
        console.names.refresh().await;
        user.cursor = console.live.cursor(console.zone.hub.store().as_ref());
    }
    let (action, subject) = audit_action(&method, uri.path());
    let user = Arc::new(user);
    let in_flight = console.zone.in_flight.begin(user.share());
    let mut response = match check_csrf(&user, request).await {
        Ok(mut request) if in_flight.is_some() => {
            request.extensions_mut().insert(Arc::clone(&user));
            next.run(request).await
        }
        Ok(_) => {
            console.zone.metrics.record_rejected("principal_share");
            layout::error_page(&console, Some(&user), &PageError::Busy)
        }
        Err(problem) => layout::error_page(&console, Some(&user), &problem),
    };
    drop(in_flight);
    // axum rejects unparsable paths before a handler runs; show them as not found.
    if response.status() == StatusCode::BAD_REQUEST
        && !response.headers().contains_key(CONTENT_SECURITY_POLICY)
    {
        response = layout::error_page(&console, Some(&user), &PageError::NotFound("page"));
    }
    let outcome = audit_outcome(response.status());
    record.audit(&console, &session, action, subject, outcome);
    response
}

/// Checks a request: a POST must be a form from our own page with the user's CSRF token and, except for
/// sign-out, requires the change scope.
async fn check_csrf(user: &SignedInUser, request: Request) -> Result<Request, PageError> {
    if request.method() != Method::POST {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let is_form = |kind: &str| kind.starts_with("application/x-www-form-urlencoded");
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !same_origin(&parts.headers, &parts.uri) || !is_form(kind) {
        return Err(PageError::ForgedForm);
    }
    let body = read_form(body, MAX_FORM_BYTES, FORM_TIMEOUT).await;
    let body = body.unwrap_or_default();
    let mut fields = form_urlencoded::parse(&body);
    let token = fields.find(|(name, _)| name == "token");
    if !token.is_some_and(|(_, given)| user.form_token.ct_eq(&given)) {
        return Err(PageError::ForgedForm);
    }
    if parts.uri.path() != "/console/logout" && !user.rights.change {
        return Err(PageError::MissingScope(super::CHANGE_SCOPE));
    }
    Ok(Request::from_parts(parts, Body::empty()))
}

/// Returns true if the request comes from our own origin. Browsers send `Origin` with every form.
fn same_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = uri
        .authority()
        .map(|authority| authority.as_str())
        .or_else(|| text(HOST));
    let origin = text(ORIGIN).and_then(|origin| origin.strip_prefix("https://"));
    origin.is_some() && origin == host
}

/// The value of a cookie.
pub(super) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(COOKIE).iter();
    let mut pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(key, _)| key.trim() == name);
    found.map(|(_, value)| value.trim())
}

/// Maps a request to its audit action and subject.
fn audit_action<'p>(method: &Method, path: &'p str) -> (&'static str, Option<&'p str>) {
    let mut segments = path.trim_matches('/').split('/').skip(1);
    let (section, id, action) = (segments.next(), segments.next(), segments.next());
    let method_name = match (section.unwrap_or_default(), id.is_some(), action) {
        ("", ..) => "console.overview",
        ("tasks", true, Some("cancel")) if method == Method::POST => "console.task.cancel",
        ("tasks", true, Some(_)) => "console.task.file",
        ("tasks", true, None) => "console.task",
        ("tasks", ..) => "console.tasks",
        ("streams", true, _) => "console.stream",
        ("streams", ..) => "console.streams",
        ("conversations", true, _) => "console.conversation",
        ("conversations", ..) => "console.conversations",
        ("topics", ..) => "console.topics",
        ("dead-letters", true, _) => "console.dead_letter.replay",
        ("dead-letters", ..) => "console.dead_letters",
        ("agents", ..) => "console.agents",
        ("limits", ..) => "console.limits",
        ("search", ..) => "console.search",
        ("events", ..) => "console.events",
        ("plots", ..) => "console.plots",
        ("rows", ..) => "console.rows",
        ("logout", ..) => "console.logout",
        _ => "console.unknown",
    };
    (method_name, id)
}

fn audit_outcome(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::FORBIDDEN => "refused",
        StatusCode::CONFLICT => "conflict",
        status if status.is_client_error() => "invalid",
        status if status.is_server_error() => "failed",
        _ => "ok",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_map_to_audit_actions() {
        let get = |path| audit_action(&Method::GET, path);
        assert_eq!(get("/console"), ("console.overview", None));
        assert_eq!(get("/console/"), ("console.overview", None));
        assert_eq!(get("/console/tasks"), ("console.tasks", None));
        assert_eq!(get("/console/tasks/t-1"), ("console.task", Some("t-1")));
        let file = get("/console/tasks/t-1/files/artifact/0/0");
        assert_eq!(file, ("console.task.file", Some("t-1")));
        let cancel = audit_action(&Method::POST, "/console/tasks/t-1/cancel");
        assert_eq!(cancel, ("console.task.cancel", Some("t-1")));
    }

    #[test]
    fn same_origin_accepts_only_own_origin() {
        let check = |origin: Option<&str>, host: &str, uri: &str| {
            let mut headers = HeaderMap::new();
            origin.and_then(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
            headers.insert(HOST, host.parse().unwrap());
            same_origin(&headers, &uri.parse().unwrap())
        };
        assert!(check(Some("https://a.test:8443"), "a.test:8443", "/x"));
        assert!(check(Some("https://a.test"), "other", "https://a.test/x"));
        for origin in [
            None,
            Some("null"),
            Some("http://a.test"),
            Some("https://b.test"),
            Some("https://a.test.evil.test"),
            Some("https://a.test:1"),
        ] {
            assert!(!check(origin, "a.test", "/x"), "{origin:?}");
        }
    }
}
