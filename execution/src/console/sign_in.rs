//! Signing in and out: by a link that is good once, or by an issuer. What somebody may see is in their
//! session, and how a token is got in `code_flow`.

use super::code_flow::FlowError;
use super::guard::{COOKIE_NAME, Visit, Visitor, cookie};
use super::html::{Html, html};
use super::layout::{self, Problem};
use super::session::{LINK_LIFE, Rights, Session, random};
use super::{Console, OPERATE_SCOPE};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::{ALLOW, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use interzone_edge::Secret;
use interzone_edge::listener::Peer;
use interzone_protocol::vocab::PrincipalId;
use std::sync::Arc;
use url::form_urlencoded;

/// Holds what the browser must bring back from the issuer. `Lax`, for it comes back from elsewhere.
const PENDING: &str = "__Host-interzone-sign-in";
/// How long somebody may take at the issuer, in seconds.
const THINKING: u32 = 600;
/// Who somebody is who came by a link.
const BY_LINK: &str = "operator";
/// What the audit calls it.
const SIGNED_IN: &str = "console.login";

/// For somebody who is not signed in: the way there. What a page does by itself is just refused.
pub(super) fn first(console: &Console, method: &Method, uri: &Uri, by_itself: bool) -> Response {
    if by_itself {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if method != Method::GET {
        return layout::problem(console, None, &Problem::SignedOut);
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
    let next = next_of(&uri);
    if signed_in(&console, &headers) {
        return see_other(&next);
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("next", &next);
    let query = query.finish();
    let mut body = Html::new();
    html!(body, "<h1>Sign in</h1>");
    if console.sign_in.is_some() {
        html!(body, "<p>The console is for those who look after this zone.</p>"
            "<p><a class=\"button primary\" href=\"/console/login/start?" (query) "\">Sign in</a></p>");
    }
    let minutes = LINK_LIFE.as_secs() / 60;
    html!(body, "<p class=\"soft\">On your own machine, <code>interzone up</code> prints a link. "
        "It is good once, for " (minutes) " minutes.</p>");
    layout::door(&console, StatusCode::OK, "Sign in", &body)
}

/// `GET /console/login/start`: off to the issuer.
pub(super) async fn start(State(console): State<Arc<Console>>, uri: Uri) -> Response {
    let Some(sign_in) = &console.sign_in else {
        return layout::problem(&console, None, &Problem::SignedOut);
    };
    let (state, verifier) = (random(), random());
    let address = sign_in.address(&console.zone, state.expose(), verifier.expose());
    let Ok(address) = address.await else {
        return layout::problem(&console, None, &Problem::Away);
    };
    let next: String = form_urlencoded::byte_serialize(next_of(&uri).as_bytes()).collect();
    let kept = format!("{}.{}.{next}", state.expose(), verifier.expose());
    let mut response = see_other(&address);
    set_cookie(&mut response, PENDING, &kept, "Lax", Some(THINKING));
    response
}

/// `GET /console/callback`: back from the issuer.
pub(super) async fn callback(
    State(console): State<Arc<Console>>,
    peer: Option<Extension<Arc<Peer>>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let visit = Visit::begin(peer.as_ref().map(|peer| peer.0.as_ref()), &headers);
    let mut response = match came_back(&console, &headers, &uri).await {
        Ok((session, next)) => {
            visit.note(&console, &session, SIGNED_IN, None, "ok");
            welcome(&console, session, &next)
        }
        Err(problem) => layout::problem(&console, None, &problem),
    };
    set_cookie(&mut response, PENDING, "", "Lax", Some(0));
    response
}

async fn came_back(
    console: &Console,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(Session, String), Problem> {
    let sign_in = console.sign_in.as_ref().ok_or(Problem::SignedOut)?;
    let kept = cookie(headers, PENDING).ok_or(Problem::Stale)?;
    let mut kept = kept.splitn(3, '.').map(str::to_owned);
    let (Some(state), Some(verifier), Some(next)) = (kept.next(), kept.next(), kept.next()) else {
        return Err(Problem::Stale);
    };
    let given = |name: &str| parameter(uri, name);
    if !given("state").is_some_and(|given| Secret::new(state.as_str()).is(&given)) {
        return Err(Problem::Stale);
    }
    // Whoever says where an answer is from must be right (RFC 9207).
    if given("iss").is_some_and(|iss| iss != console.zone.issuer_url) {
        return Err(Problem::Stale);
    }
    let code = given("code").ok_or(Problem::Declined)?;
    let proof = sign_in.redeem(&console.zone, &code, &verifier).await;
    let proof = proof.map_err(|error| {
        tracing::warn!(%error, "nobody was signed in to the console");
        match error {
            FlowError::Away => Problem::Away,
            FlowError::Refused | FlowError::Unbelieved(_) => Problem::Declined,
        }
    })?;
    let identity = &proof.identity;
    if !identity.has_scope(OPERATE_SCOPE) {
        return Err(Problem::Needs(OPERATE_SCOPE));
    }
    let listed = |all: &Vec<String>| all.iter().any(|one| **one == *identity.principal);
    if !sign_in.operators.as_ref().is_none_or(listed) {
        tracing::warn!("somebody who is no operator tried to sign in to the console");
        return Err(Problem::NoOperator);
    }
    let who = PrincipalId::shared(&identity.principal).map_err(|_| Problem::Declined)?;
    let (client, rights) = (Arc::clone(&identity.client), Rights::of(identity));
    let next = form_urlencoded::parse(format!("n={next}").as_bytes())
        .next()
        .map_or_else(String::new, |(_, next)| next.into_owned());
    Ok((Session::new(who, client, rights, Some(proof)), safe(next)))
}

/// `HEAD` of a page that can be opened once: whoever only looks ahead must not use it up.
pub(super) async fn only_get() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET")]).into_response()
}

/// `GET /console/enter/{secret}`: by a link.
pub(super) async fn enter(
    State(console): State<Arc<Console>>,
    Path(secret): Path<String>,
    peer: Option<Extension<Arc<Peer>>>,
    headers: HeaderMap,
) -> Response {
    let visit = Visit::begin(peer.as_ref().map(|peer| peer.0.as_ref()), &headers);
    // Somebody who opens it again in the same browser is in already.
    if signed_in(&console, &headers) {
        return see_other("/console");
    }
    let Ok(who) = PrincipalId::new(BY_LINK) else {
        return layout::problem(&console, None, &Problem::SignedOut);
    };
    if !console.sessions.use_link(&secret) {
        return layout::problem(&console, None, &Problem::UsedLink);
    }
    let rights = Rights {
        content: true,
        change: true,
    };
    let session = Session::new(who, "link".into(), rights, None);
    visit.note(&console, &session, SIGNED_IN, None, "ok");
    welcome(&console, session, "/console")
}

/// `POST /console/logout`.
pub(super) async fn logout(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    console.sessions.end(visitor.cookie.expose());
    let mut response = see_other("/console/login");
    set_cookie(&mut response, COOKIE_NAME, "", "Strict", Some(0));
    response
}

/// A page that leads on by itself. A redirect would not do: after one from elsewhere, browsers do not
/// send a strict cookie.
fn welcome(console: &Console, session: Session, next: &str) -> Response {
    let secret = console.sessions.begin(session);
    let mut body = Html::new();
    html!(body, "<h1>Signed in</h1><p><a class=\"button primary\" href=\"" (next)
        "\">Open the console</a></p>");
    let mut response = layout::leading_on(console, next, &body);
    set_cookie(&mut response, COOKIE_NAME, secret.expose(), "Strict", None);
    response
}

fn signed_in(console: &Console, headers: &HeaderMap) -> bool {
    let cookie = cookie(headers, COOKIE_NAME);
    cookie.is_some_and(|cookie| console.known(cookie, None, true).is_some())
}

fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let found = pairs.find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned())
}

fn next_of(uri: &Uri) -> String {
    safe(parameter(uri, "next").unwrap_or_default())
}

/// Where somebody is led after signing in: to a page of the console, whatever is asked for.
fn safe(next: String) -> String {
    let ours = next.strip_prefix("/console");
    let ours = ours.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    let plain = next
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    // Browsers go up at two dots, also where they are written as numbers.
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let dots = |segment: &str| {
        matches!(
            segment.to_ascii_lowercase().replace("%2e", ".").as_str(),
            "." | ".."
        )
    };
    let climbs = path.split('/').any(dots);
    if ours && plain && !climbs && !next.contains("//") {
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
    layout::protect(&mut response);
    response
}

fn set_cookie(response: &mut Response, name: &str, value: &str, site: &str, age: Option<u32>) {
    let age = age.map_or_else(String::new, |age| format!("; Max-Age={age}"));
    let cookie = format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={site}{age}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere() {
        for good in [
            "/console",
            "/console/tasks?state=failed",
            "/console?x",
            "/console/search?q=..",
        ] {
            assert_eq!(safe(good.to_owned()), good);
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
            assert_eq!(safe(bad.to_owned()), "/console", "{bad}");
        }
    }
}
