//! The way in to every page: who comes, whether a form is theirs, and a line of the audit for each visit.
//! What a page shows is decided behind it.

use super::Console;
use super::layout::{self, Problem};
use super::session::{Rights, Session};
use super::sign_in;
use crate::memory::MemoryAccount;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use interzone_edge::Secret;
use interzone_edge::audit::Entry;
use interzone_edge::budget::ShareKey;
use interzone_edge::listener::Peer;
use interzone_edge::request::Correlation;
use interzone_hub::Caller;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use url::form_urlencoded;

/// `__Host-` binds it to this very origin.
pub(super) const COOKIE_NAME: &str = "__Host-interzone-console";
/// No form of ours is larger.
const LARGEST_FORM: usize = 16 * 1024;
/// How long a form may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody who looks at a page.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) caller: Caller,
    pub(super) rights: Rights,
    pub(super) form_token: Secret,
    /// What names their session.
    pub(super) cookie: Secret,
    /// The moment that their page is made at, by which it is told what it misses.
    pub(super) mark: u64,
}

impl Visitor {
    /// To whose share counts what is done and read for them.
    pub(super) fn share(&self) -> ShareKey {
        ShareKey::Principal(self.caller.principal.as_str().into())
    }

    /// Memory for what is read for one page.
    pub(super) fn memory(&self, console: &Console) -> MemoryAccount {
        MemoryAccount::new(&console.zone.limits.answers, self.share())
    }
}

impl Console {
    /// Whoever the cookie names, if they would still be let in.
    pub(super) fn known(&self, cookie: &str, peer: Option<&Peer>, looks: bool) -> Option<Session> {
        let session = self.sessions.find(cookie, looks)?;
        if let Some(proof) = &session.proof
            && self.zone.auth.recheck(&proof.identity, peer).is_err()
        {
            self.sessions.end(cookie);
            return None;
        }
        Some(session)
    }
}

/// What a line of the audit says of a visit, whatever is done.
pub(super) struct Visit {
    began: Instant,
    correlation: Correlation,
    address: Option<IpAddr>,
}

impl Visit {
    pub(super) fn begin(peer: Option<&Peer>, headers: &HeaderMap) -> Self {
        Self {
            began: Instant::now(),
            correlation: Correlation::from_headers(headers),
            address: peer.map(|peer| peer.address.ip()),
        }
    }

    /// Writes to the audit who did what, to what, and how it went.
    pub(super) fn note(
        &self,
        console: &Console,
        session: &Session,
        deed: &'static str,
        subject: Option<&str>,
        outcome: &'static str,
    ) {
        console.zone.audit.record(&Entry {
            at: SystemTime::now(),
            who: session.who.as_str(),
            client: &session.client,
            method: deed,
            id: None,
            subject,
            outcome,
            code: None,
            latency: self.began.elapsed(),
            correlation: self.correlation.as_str(),
            address: self.address,
        });
    }
}

/// Lets those in who are signed in, and notes what they did.
pub(super) async fn guard(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let visit = Visit::begin(peer.as_deref(), request.headers());
    let cookie = cookie(request.headers(), COOKIE_NAME).map(Secret::new);
    let by_itself = matches!(
        request.uri().path(),
        "/console/events" | "/console/plots" | "/console/rows"
    );
    let session = cookie.as_ref().and_then(|cookie| {
        let session = console.known(cookie.expose(), peer.as_deref(), !by_itself)?;
        Some((cookie.clone(), session))
    });
    let Some((cookie, session)) = session else {
        return sign_in::first(&console, request.method(), request.uri(), by_itself);
    };
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut visitor = Visitor {
        caller: Caller::operator(session.who.clone()),
        rights: session.rights,
        form_token: session.form_token.clone(),
        cookie,
        mark: 0,
    };
    if !by_itself {
        console.names.refresh().await;
        visitor.mark = console.feed.mark(console.zone.hub.store().as_ref());
    }
    let (deed, subject) = deed(&method, uri.path());
    let visitor = Arc::new(visitor);
    let in_flight = console.zone.in_flight.begin(visitor.share());
    let mut response = match admitted(&visitor, request).await {
        Ok(mut request) if in_flight.is_some() => {
            request.extensions_mut().insert(Arc::clone(&visitor));
            next.run(request).await
        }
        Ok(_) => {
            console.zone.metrics.turned_away("principal_share");
            layout::problem(&console, Some(&visitor), &Problem::Busy)
        }
        Err(problem) => layout::problem(&console, Some(&visitor), &problem),
    };
    drop(in_flight);
    // An address that does not fit is refused before any page of ours is asked.
    if response.status() == StatusCode::BAD_REQUEST
        && !response.headers().contains_key(CONTENT_SECURITY_POLICY)
    {
        response = layout::problem(&console, Some(&visitor), &Problem::Nothing("page"));
    }
    let outcome = outcome(response.status());
    visit.note(&console, &session, deed, subject, outcome);
    response
}

/// The request, if it may be done: one that changes something must come from a form of ours, sent by
/// the page that we showed this very visitor, and but for leaving it takes the right to change.
async fn admitted(visitor: &Visitor, request: Request) -> Result<Request, Problem> {
    if request.method() != Method::POST {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let form = |kind: &str| kind.starts_with("application/x-www-form-urlencoded");
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !same_origin(&parts.headers, &parts.uri) || !form(kind) {
        return Err(Problem::Foreign);
    }
    let body = tokio::time::timeout(PATIENCE, to_bytes(body, LARGEST_FORM));
    let body = body.await.ok().and_then(Result::ok).unwrap_or_default();
    let mut fields = form_urlencoded::parse(&body);
    let given = fields.find(|(name, _)| name == "token");
    if !given.is_some_and(|(_, given)| visitor.form_token.is(&given)) {
        return Err(Problem::Foreign);
    }
    if parts.uri.path() != "/console/logout" && !visitor.rights.change {
        return Err(Problem::Needs(super::CHANGE_SCOPE));
    }
    Ok(Request::from_parts(parts, Body::empty()))
}

/// Whether a request was sent by a page of ours. Browsers name the origin of every form.
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
    let found = pairs.find(|(known, _)| known.trim() == name);
    found.map(|(_, value)| value.trim())
}

/// What is done at an address, in a word of ours, and to what.
fn deed<'p>(method: &Method, path: &'p str) -> (&'static str, Option<&'p str>) {
    let mut segments = path.trim_matches('/').split('/').skip(1);
    let (room, id, act) = (segments.next(), segments.next(), segments.next());
    let deed = match (room.unwrap_or_default(), id.is_some(), act) {
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
        ("dead-letters", true, _) => "console.letter.replay",
        ("dead-letters", ..) => "console.letters",
        ("agents", ..) => "console.agents",
        ("limits", ..) => "console.limits",
        ("search", ..) => "console.search",
        ("events", ..) => "console.events",
        ("plots", ..) => "console.plots",
        ("rows", ..) => "console.rows",
        ("logout", ..) => "console.logout",
        _ => "console.unknown",
    };
    (deed, id)
}

fn outcome(status: StatusCode) -> &'static str {
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
    fn every_deed_has_a_word() {
        let get = |path| deed(&Method::GET, path);
        assert_eq!(get("/console"), ("console.overview", None));
        assert_eq!(get("/console/"), ("console.overview", None));
        assert_eq!(get("/console/tasks"), ("console.tasks", None));
        assert_eq!(get("/console/tasks/t-1"), ("console.task", Some("t-1")));
        let file = get("/console/tasks/t-1/files/artifact/0/0");
        assert_eq!(file, ("console.task.file", Some("t-1")));
        let cancel = deed(&Method::POST, "/console/tasks/t-1/cancel");
        assert_eq!(cancel, ("console.task.cancel", Some("t-1")));
    }

    #[test]
    fn only_our_own_pages_are_believed() {
        let asked = |origin: Option<&str>, host: &str, uri: &str| {
            let mut headers = HeaderMap::new();
            origin.and_then(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
            headers.insert(HOST, host.parse().unwrap());
            same_origin(&headers, &uri.parse().unwrap())
        };
        assert!(asked(Some("https://a.test:8443"), "a.test:8443", "/x"));
        assert!(asked(Some("https://a.test"), "other", "https://a.test/x"));
        for origin in [
            None,
            Some("null"),
            Some("http://a.test"),
            Some("https://b.test"),
            Some("https://a.test.evil.test"),
            Some("https://a.test:1"),
        ] {
            assert!(!asked(origin, "a.test", "/x"), "{origin:?}");
        }
    }
}
