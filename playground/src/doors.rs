//! The doors of the playground: which path leads where, and who may come in. Only this machine's own
//! names are served, so that no page of somebody else's can reach it through a name of its own; and what a
//! browser sends for such a page gets no further than the pages that are meant to be linked to.

mod control;
mod files;
mod oauth;
mod page;
mod slack;
mod watch;

use crate::shared::Shared;
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

/// Where a browser says that a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Every path, behind one look at who asks.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(move |request: Request| {
        let shared = Arc::clone(&shared);
        async move { serve(shared, request).await }
    })
}

async fn serve(shared: Arc<Shared>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if !is_for_us(&parts) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "ask for 127.0.0.1 or localhost",
        );
    }
    let path = parts.uri.path().to_owned();
    let steps: Vec<&str> = path.trim_matches('/').split('/').collect();
    let linked = match steps.as_slice() {
        [
            "api" | "upload" | "files-pri" | "actions" | "link" | "playground",
            ..,
        ] => false,
        _ => parts.method == Method::GET,
    };
    if !linked && is_sent_by_another_page(&parts) {
        return refuse(
            StatusCode::FORBIDDEN,
            "only the page itself and programs may do that",
        );
    }
    match steps.as_slice() {
        ["api", method] => slack::call(&shared, method, &parts, body).await,
        ["upload", "v1", id, ticket] => files::upload(&shared, id, ticket, &parts, body).await,
        ["files-pri", id, ..] => files::download(&shared, id, &parts).await,
        ["actions", _, ticket] => slack::respond(&shared, ticket, &parts, body).await,
        ["link"] => slack::link(&shared, &mut parts),
        ["oauth", "v2", "authorize"] => oauth::authorize(&shared, &parts, body).await,
        ["playground", "events"] => watch::changes(&shared, &parts),
        ["playground", "files", id] => files::for_people(&shared, id),
        ["playground", rest @ ..] => control::serve(&shared, rest, &parts, body).await,
        _ if parts.method == Method::GET => page::file(&path),
        _ => refuse(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// Whether the request names this machine.
fn is_for_us(parts: &Parts) -> bool {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    let Some(host) = host else {
        return false;
    };
    let url = url::Url::parse(&format!("http://{host}/"));
    url.is_ok_and(|url| crate::options::is_loopback(&url))
}

/// Whether a browser sends this for a page that is not ours. Browsers say so by themselves and no page can
/// make them say otherwise; programs say nothing of the kind.
fn is_sent_by_another_page(parts: &Parts) -> bool {
    let site = parts.headers.get(FETCH_SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = host.map(|host| format!("http://{host}"));
    let ours = |origin: &HeaderValue| own.as_deref().is_some_and(|own| origin == own);
    !parts.headers.get_all(ORIGIN).iter().all(ours)
}

/// The whole body, or the answer to one that cannot be read.
async fn read(shared: &Shared, parts: &Parts, incoming: Body) -> Result<bytes::Bytes, Response> {
    let read = body::read(
        incoming,
        &parts.headers,
        &shared.limits,
        ShareKey::Unattributed,
    )
    .await;
    read.map_err(|error| refuse(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string()))
}

fn refuse(status: StatusCode, why: &str) -> Response {
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, headers, format!("{why}\n")).into_response()
}

fn json(status: StatusCode, value: &Value) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, value.to_string()).into_response()
}

/// A parameter of the query.
fn query(parts: &Parts, name: &str) -> Option<String> {
    let query = parts.uri.query().unwrap_or_default();
    let mut all = url::form_urlencoded::parse(query.as_bytes());
    let found = all.find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}
