//! Sign-in by one-time link or through an issuer, and sign-out.

use super::auth_middleware::{COOKIE_NAME, SignedInUser, VisitRecord, cookie};
use super::code_flow::SignInError;
use super::layout::{self, PageError};
use super::session::{ConsoleRights, ConsoleSession, LINK_TTL, random_secret};
use super::{Console, OPERATE_SCOPE};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::{ALLOW, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use interzone_edge::Secret;
use interzone_edge::html::{Html, html};
use interzone_edge::listener::Peer;
use interzone_protocol::vocab::PrincipalId;
use std::sync::Arc;
use url::form_urlencoded;

/// Cookie with the state of a sign-in at the issuer. `SameSite=Lax`, because the callback is a cross-site
/// navigation.
const PENDING_COOKIE: &str = "__Host-interzone-sign-in";
/// Time limit for signing in at the issuer, in seconds.
const PENDING_MAX_AGE: u32 = 600;
/// Principal of a user who signed in by link.
const LINK_PRINCIPAL: &str = "operator";
/// Audit method of a sign-in.
const LOGIN_ACTION: &str = "console.login";

/// Redirects an unauthenticated request to the login page; background requests of a page get 401.
pub(super) fn require_login(
    console: &Console,
    method: &Method,
    uri: &Uri,
    is_background: bool,
) -> Response {
    if is_background {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if method != Method::GET {
        return layout::error_page(console, None, &PageError::SignedOut);
    }
    let back = uri
        .path_and_query()
        .map_or("/console", |path| path.as_str());
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("next", back);
    see_other(&format!("/console/login?{}", query.finish()))
}

/// `GET /console/login`.
pub(super) async fn page(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let next = next_path(&uri);
    if signed_in(&console, &headers) {
        return see_other(&next);
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("next", &next);
    let query = query.finish();
    let mut body = Html::new();
    html!(body, "<h1>Sign in</h1>");
    if console.sign_in.is_some() {
        html!(body, "<p>The console is for operators of this zone.</p>"
            "<p><a class=\"button primary\" href=\"/console/login/start?" (query) "\">Sign in</a></p>");
    }
    let minutes = LINK_TTL.as_secs() / 60;
    html!(body, "<p class=\"soft\">On your own machine, <code>interzone up</code> prints a link. "
        "It works once and is valid for " (minutes) " minutes.</p>");
    layout::public_page(&console, StatusCode::OK, "Sign in", &body)
}

/// `GET /console/login/start`: redirects to the issuer.
pub(super) async fn start(State(console): State<Arc<Console>>, uri: Uri) -> Response {
    let Some(sign_in) = &console.sign_in else {
        return layout::error_page(&console, None, &PageError::SignedOut);
    };
    let (state, verifier) = (random_secret(), random_secret());
    let url = sign_in.authorization_url(&console.zone, state.expose(), verifier.expose());
    let Ok(url) = url.await else {
        return layout::error_page(&console, None, &PageError::IssuerUnavailable);
    };
    let next: String = form_urlencoded::byte_serialize(next_path(&uri).as_bytes()).collect();
    let pending = format!("{}.{}.{next}", state.expose(), verifier.expose());
    let mut response = see_other(&url);
    set_cookie(
        &mut response,
        PENDING_COOKIE,
        &pending,
        "Lax",
        Some(PENDING_MAX_AGE),
    );
    response
}

/// `GET /console/callback`: redirect target of the issuer.
pub(super) async fn callback(
    State(console): State<Arc<Console>>,
    peer: Option<Extension<Arc<Peer>>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let visit = VisitRecord::start(peer.as_ref().map(|peer| peer.0.as_ref()), &headers);
    let mut response = match complete_sign_in(&console, &headers, &uri).await {
        Ok((session, next)) => {
            visit.audit(&console, &session, LOGIN_ACTION, None, "ok");
            start_session(&console, session, &next)
        }
        Err(problem) => layout::error_page(&console, None, &problem),
    };
    set_cookie(&mut response, PENDING_COOKIE, "", "Lax", Some(0));
    response
}

async fn complete_sign_in(
    console: &Console,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(ConsoleSession, String), PageError> {
    let sign_in = console.sign_in.as_ref().ok_or(PageError::SignedOut)?;
    let pending = cookie(headers, PENDING_COOKIE).ok_or(PageError::ExpiredSignIn)?;
    let mut pending = pending.splitn(3, '.').map(str::to_owned);
    let (Some(state), Some(verifier), Some(next)) =
        (pending.next(), pending.next(), pending.next())
    else {
        return Err(PageError::ExpiredSignIn);
    };
    let query_param = |name: &str| query_parameter(uri, name);
    if !query_param("state").is_some_and(|given| Secret::new(state.as_str()).ct_eq(&given)) {
        return Err(PageError::ExpiredSignIn);
    }
    // If the response names its issuer, it must be ours (RFC 9207).
    if query_param("iss").is_some_and(|iss| iss != console.zone.issuer_url) {
        return Err(PageError::ExpiredSignIn);
    }
    let code = query_param("code").ok_or(PageError::SignInRefused)?;
    let proof = sign_in.exchange_code(&console.zone, &code, &verifier).await;
    let proof = proof.map_err(|error| {
        tracing::warn!(%error, "console sign-in failed");
        match error {
            SignInError::IssuerUnavailable => PageError::IssuerUnavailable,
            SignInError::Refused | SignInError::InvalidToken(_) => PageError::SignInRefused,
        }
    })?;
    let identity = &proof.identity;
    if !identity.has_scope(OPERATE_SCOPE) {
        return Err(PageError::MissingScope(OPERATE_SCOPE));
    }
    let is_listed = |all: &Vec<String>| all.iter().any(|one| **one == *identity.principal);
    if !sign_in.operators.as_ref().is_none_or(is_listed) {
        tracing::warn!("console sign-in refused: not an operator");
        return Err(PageError::NotAnOperator);
    }
    let who = PrincipalId::from_arc(&identity.principal).map_err(|_| PageError::SignInRefused)?;
    let (client, rights) = (
        Arc::clone(&identity.client),
        ConsoleRights::from_identity(identity),
    );
    let next = form_urlencoded::parse(format!("n={next}").as_bytes())
        .next()
        .map_or_else(String::new, |(_, next)| next.into_owned());
    Ok((
        ConsoleSession::new(who, client, rights, Some(proof)),
        sanitize_next(next),
    ))
}

/// Answers `HEAD` of one-time pages with 405, so that link previews do not use them up.
pub(super) async fn method_not_allowed_head() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET")]).into_response()
}

/// `GET /console/enter/{secret}`: sign-in by link.
pub(super) async fn enter(
    State(console): State<Arc<Console>>,
    Path(secret): Path<String>,
    peer: Option<Extension<Arc<Peer>>>,
    headers: HeaderMap,
) -> Response {
    let visit = VisitRecord::start(peer.as_ref().map(|peer| peer.0.as_ref()), &headers);
    // Opening the link again in a signed-in browser goes to the console.
    if signed_in(&console, &headers) {
        return see_other("/console");
    }
    let Ok(who) = PrincipalId::new(LINK_PRINCIPAL) else {
        return layout::error_page(&console, None, &PageError::SignedOut);
    };
    if !console.sessions.use_link(&secret) {
        return layout::error_page(&console, None, &PageError::UsedLink);
    }
    let rights = ConsoleRights {
        content: true,
        change: true,
    };
    let session = ConsoleSession::new(who, "link".into(), rights, None);
    visit.audit(&console, &session, LOGIN_ACTION, None, "ok");
    start_session(&console, session, "/console")
}

/// `POST /console/logout`.
pub(super) async fn logout(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
) -> Response {
    console.sessions.end(visitor.cookie.expose());
    let mut response = see_other("/console/login");
    set_cookie(&mut response, COOKIE_NAME, "", "Strict", Some(0));
    response
}

/// Starts the session and returns a page that redirects by itself. An HTTP redirect would not work:
/// browsers do not send a strict cookie after a cross-site redirect.
fn start_session(console: &Console, session: ConsoleSession, next: &str) -> Response {
    let secret = console.sessions.start(session);
    let mut body = Html::new();
    html!(body, "<h1>Signed in</h1><p><a class=\"button primary\" href=\"" (next)
        "\">Open the console</a></p>");
    let mut response = layout::redirect_page(console, next, &body);
    set_cookie(&mut response, COOKIE_NAME, secret.expose(), "Strict", None);
    response
}

fn signed_in(console: &Console, headers: &HeaderMap) -> bool {
    let cookie = cookie(headers, COOKIE_NAME);
    cookie.is_some_and(|cookie| console.find_session(cookie, None, true).is_some())
}

fn query_parameter(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let found = pairs.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

fn next_path(uri: &Uri) -> String {
    sanitize_next(query_parameter(uri, "next").unwrap_or_default())
}

/// Restricts the redirect target after sign-in to pages of the console.
fn sanitize_next(next: String) -> String {
    let suffix = next.strip_prefix("/console");
    let is_console_path =
        suffix.is_some_and(|path| path.is_empty() || path.starts_with(['/', '?']));
    let is_graphic_ascii = next
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    // Browsers resolve dot segments, also percent-encoded ones.
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let is_dot_segment = |segment: &str| {
        matches!(
            segment.to_ascii_lowercase().replace("%2e", ".").as_str(),
            "." | ".."
        )
    };
    let has_dot_segment = path.split('/').any(is_dot_segment);
    if is_console_path && is_graphic_ascii && !has_dot_segment && !next.contains("//") {
        next
    } else {
        "/console".to_owned()
    }
}

pub(super) fn see_other(address: &str) -> Response {
    let Ok(address) = HeaderValue::from_str(address) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, address);
    layout::set_security_headers(&mut response);
    response
}

fn set_cookie(
    response: &mut Response,
    name: &str,
    value: &str,
    same_site: &str,
    max_age: Option<u32>,
) {
    let age = max_age.map_or_else(String::new, |age| format!("; Max-Age={age}"));
    let cookie = format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={same_site}{age}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitize_next_allows_only_console_paths() {
        for good in [
            "/console",
            "/console/tasks?state=failed",
            "/console?x",
            "/console/search?q=..",
        ] {
            assert_eq!(sanitize_next(good.to_owned()), good);
        }
        for bad in [
            "",
            "/",
            "//evil.test",
            "https://evil.test/console",
            "/console//evil.test",
            "/consoles",
            "/console/\\evil",
            "/console/../../evil",
            "/console/%2E./evil",
            "/console/tasks/..",
            "/console/\r\nset-cookie: x",
        ] {
            assert_eq!(sanitize_next(bad.to_owned()), "/console", "{bad}");
        }
    }
}
