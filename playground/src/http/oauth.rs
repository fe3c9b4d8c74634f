//! OAuth2 authorization page.

use super::{error_response, query_param, read_body};
use crate::options::is_loopback;
use crate::state::PlaygroundState;
use crate::workspace::seed;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::request::Parts;
use http::{Method, StatusCode};
use interzone_edge::html::{Html, PageShell, html};
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
    let mut head = Html::new();
    html!(head, "<link rel=\"stylesheet\" href=\"/playground.css\">");
    let mut body = Html::new();
    html!(body, "<main><h1>Install Interzone in " (seed::TEAM_NAME) "?</h1><p>It asks for:</p><ul>");
    for name in scope.split([',', ' ']).filter(|word| !word.is_empty()) {
        html!(body, "<li><code>" (name) "</code></li>");
    }
    let host = redirect_url.host_str().unwrap_or_default();
    html!(body, "</ul><p>You will be sent back to <code>" (host) "</code>.</p><form method=\"post\">"
        "<button name=\"decision\" value=\"allow\" class=\"primary\">Allow</button> "
        "<button name=\"decision\" value=\"deny\">Cancel</button></form></main>");
    let origin = redirect_url.origin().ascii_serialization();
    let shell = PageShell {
        head,
        body_class: "plain",
        // The form is sent here and redirects back.
        policy: format!("style-src 'self'; form-action 'self' {origin}"),
        ..PageShell::new("Install")
    };
    shell.response(StatusCode::OK, &body)
}
