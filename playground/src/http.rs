//! HTTP routes and request checks. Only loopback host names are served, against DNS rebinding; cross-site browser
//! requests reach only the pages that are meant to be linked to.

mod control;
mod files;
mod oauth;
mod page;
mod slack;
mod watch;

use crate::state::PlaygroundState;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{Method, StatusCode};
use interzone_edge::body;
use interzone_edge::budget::ShareKey;
use serde_json::Value;
use std::sync::Arc;

/// Fetch metadata header with the origin relation of a browser request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns the router: all paths behind one access check.
pub(crate) fn router(shared: Arc<PlaygroundState>) -> Router {
    Router::new().fallback(move |request: Request| {
        let shared = Arc::clone(&shared);
        async move { serve(shared, request).await }
    })
}

async fn serve(shared: Arc<PlaygroundState>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if !has_loopback_host(&parts) {
        return error_response(
            StatusCode::MISDIRECTED_REQUEST,
            "use the host 127.0.0.1 or localhost",
        );
    }
    let path = parts.uri.path().to_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let is_linkable = match segments.as_slice() {
        [
            "api" | "upload" | "files-pri" | "actions" | "link" | "playground",
            ..,
        ] => false,
        _ => parts.method == Method::GET,
    };
    if !is_linkable && is_cross_site(&parts) {
        return error_response(
            StatusCode::FORBIDDEN,
            "only the playground page itself and non-browser clients may do that",
        );
    }
    match segments.as_slice() {
        ["api", method] => slack::call(&shared, method, &parts, body).await,
        ["upload", "v1", id, ticket] => files::upload(&shared, id, ticket, &parts, body).await,
        ["files-pri", id, ..] => files::download(&shared, id, &parts).await,
        ["actions", _, ticket] => slack::respond(&shared, ticket, &parts, body).await,
        ["link"] => slack::open_socket(&shared, &mut parts),
        ["oauth", "v2", "authorize"] => oauth::authorize(&shared, &parts, body).await,
        ["playground", "events"] => watch::stream_changes(&shared, &parts),
        ["playground", "files", id] => files::page_download(&shared, id),
        ["playground", rest @ ..] => control::serve(&shared, rest, &parts, body).await,
        _ if parts.method == Method::GET => page::page_file(&path),
        _ => error_response(StatusCode::NOT_FOUND, "not found"),
    }
}

/// Returns true if the Host header names this machine.
fn has_loopback_host(parts: &Parts) -> bool {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    let Some(host) = host else {
        return false;
    };
    let url = url::Url::parse(&format!("http://{host}/"));
    url.is_ok_and(|url| crate::options::is_loopback(&url))
}

/// Returns true for cross-site browser requests. Browsers set these headers themselves and pages cannot change them;
/// other clients do not send them.
fn is_cross_site(parts: &Parts) -> bool {
    let site = parts.headers.get(FETCH_SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let own_origin = host.map(|host| format!("http://{host}"));
    let is_own = |origin: &HeaderValue| own_origin.as_deref().is_some_and(|own| origin == own);
    !parts.headers.get_all(ORIGIN).iter().all(is_own)
}

/// Reads the body; returns an error response if that fails.
async fn read_body(
    shared: &PlaygroundState,
    parts: &Parts,
    incoming: Body,
) -> Result<bytes::Bytes, Response> {
    let result = body::read_body(
        incoming,
        &parts.headers,
        &shared.limits,
        ShareKey::Unattributed,
    )
    .await;
    result.map_err(|error| error_response(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string()))
}

fn error_response(status: StatusCode, message: &str) -> Response {
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, headers, format!("{message}\n")).into_response()
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, value.to_string()).into_response()
}

/// Returns a query parameter.
fn query_param(parts: &Parts, name: &str) -> Option<String> {
    let query = parts.uri.query().unwrap_or_default();
    let mut all = url::form_urlencoded::parse(query.as_bytes());
    let found = all.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}
