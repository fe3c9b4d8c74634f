//! The page on which a person lets the app into the workspace, and the way back to the app.

use super::{query, read, refuse};
use crate::options::is_loopback;
use crate::shared::Shared;
use crate::workspace::seed;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{Method, StatusCode};
use std::fmt::Write;
use std::sync::Arc;
use url::Url;

/// Where the browser may be sent with an answer.
fn way_back(parts: &Parts) -> Option<Url> {
    let redirect = query(parts, "redirect_uri")?;
    Url::parse(&redirect).ok().filter(is_loopback)
}

pub(super) async fn authorize(shared: &Arc<Shared>, parts: &Parts, body: Body) -> Response {
    let client = query(parts, "client_id").unwrap_or_default();
    if !shared.look(|workspace| workspace.tokens.is_client(&client)) {
        return refuse(StatusCode::BAD_REQUEST, "invalid_client_id");
    }
    let Some(mut back) = way_back(parts) else {
        return refuse(StatusCode::BAD_REQUEST, "bad_redirect_uri");
    };
    let scope = query(parts, "scope").unwrap_or_default();
    if scope.is_empty() {
        return refuse(StatusCode::BAD_REQUEST, "invalid_scope");
    }
    if parts.method == Method::GET {
        return page(&scope, &back);
    }
    let body = match read(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let mut form = url::form_urlencoded::parse(&body);
    let allowed = form.any(|(name, value)| name == "decision" && value == "allow");
    let redirect = query(parts, "redirect_uri");
    {
        let mut answer = back.query_pairs_mut();
        if allowed {
            let redirect = redirect.as_deref();
            let code =
                shared.change(|workspace| workspace.tokens.code(&scope, redirect, seed::HANA));
            answer.append_pair("code", &code);
        } else {
            answer.append_pair("error", "access_denied");
        }
        if let Some(state) = query(parts, "state") {
            answer.append_pair("state", &state);
        }
    }
    (StatusCode::FOUND, [(LOCATION, back.as_str())]).into_response()
}

fn page(scope: &str, back: &Url) -> Response {
    let mut list = String::new();
    for word in scope.split([',', ' ']).filter(|word| !word.is_empty()) {
        let _ = write!(list, "<li><code>{}</code></li>", escaped(word));
    }
    let host = escaped(back.host_str().unwrap_or_default());
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
    // The form is sent here, and its answer leads back.
    let policy = format!(
        "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
         form-action 'self' {}",
        back.origin().ascii_serialization()
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, page).into_response()
}

fn escaped(text: &str) -> String {
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
