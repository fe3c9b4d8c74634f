//! OAuth2 authorization page.

use super::{error_response, query_param, read_body};
use crate::options::is_loopback;
use crate::state::PlaygroundState;
use crate::workspace::seed;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{Method, StatusCode};
use std::fmt::Write;
use std::sync::Arc;
use url::Url;

/// Returns the redirect URI, if it is loopback.
fn redirect_uri(parts: &Parts) -> Option<Url> {
    let redirect = query_param(parts, "redirect_uri")?;
    Url::parse(&redirect).ok().filter(is_loopback)
}

pub(super) async fn authorize(
    shared: &Arc<PlaygroundState>,
    parts: &Parts,
    body: Body,
) -> Response {
    let client = query_param(parts, "client_id").unwrap_or_default();
    if !shared.inspect(|workspace| workspace.tokens.is_client(&client)) {
        return error_response(StatusCode::BAD_REQUEST, "invalid_client_id");
    }
    let Some(mut redirect_url) = redirect_uri(parts) else {
        return error_response(StatusCode::BAD_REQUEST, "bad_redirect_uri");
    };
    let scope = query_param(parts, "scope").unwrap_or_default();
    if scope.is_empty() {
        return error_response(StatusCode::BAD_REQUEST, "invalid_scope");
    }
    if parts.method == Method::GET {
        return page(&scope, &redirect_url);
    }
    let body = match read_body(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let mut form = url::form_urlencoded::parse(&body);
    let is_allowed = form.any(|(name, value)| name == "decision" && value == "allow");
    let redirect = query_param(parts, "redirect_uri");
    {
        let mut params = redirect_url.query_pairs_mut();
        if is_allowed {
            let redirect = redirect.as_deref();
            let code = shared
                .change(|workspace| workspace.tokens.issue_code(&scope, redirect, seed::HANA));
            params.append_pair("code", &code);
        } else {
            params.append_pair("error", "access_denied");
        }
        if let Some(state) = query_param(parts, "state") {
            params.append_pair("state", &state);
        }
    }
    (StatusCode::FOUND, [(LOCATION, redirect_url.as_str())]).into_response()
}

fn page(scope: &str, redirect_url: &Url) -> Response {
    let mut list = String::new();
    for name in scope.split([',', ' ']).filter(|word| !word.is_empty()) {
        let _ = write!(list, "<li><code>{}</code></li>", escape_html(name));
    }
    let host = escape_html(redirect_url.host_str().unwrap_or_default());
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Install</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"stylesheet\" href=\"/playground.css\"></head><body class=\"plain\"><main>\
         <h1>Install Interzone in {}?</h1><p>It asks for:</p><ul>{list}</ul>\
         <p>You will be sent back to <code>{host}</code>.</p><form method=\"post\">\
         <button name=\"decision\" value=\"allow\" class=\"primary\">Allow</button> \
         <button name=\"decision\" value=\"deny\">Cancel</button></form></main></body></html>",
        seed::TEAM_NAME
    );
    // The form is sent here and redirects back.
    let policy = format!(
        "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
         form-action 'self' {}",
        redirect_url.origin().ascii_serialization()
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, page).into_response()
}

fn escape_html(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
