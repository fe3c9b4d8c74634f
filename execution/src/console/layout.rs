//! Page layout, security headers, static assets and error pages.

use super::auth_middleware::SignedInUser;
use super::{CHANGE_SCOPE, CONTENT_SCOPE, Console};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use interzone_edge::html::{self, Html, PageShell, html};
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Content security policy: only our own files, nothing inline.
const CONTENT_POLICY: &str =
    "script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'";
/// Still sends our own origin to us, which the CSRF check needs.
const REFERRER: &str = "same-origin";

/// Pages in the navigation.
pub(super) const NAV_PAGES: [(&str, &str); 8] = [
    ("/console", "Overview"),
    ("/console/tasks", "Tasks"),
    ("/console/streams", "Streams"),
    ("/console/conversations", "Conversations"),
    ("/console/topics", "Topics"),
    ("/console/dead-letters", "Dead letters"),
    ("/console/agents", "Agents"),
    ("/console/limits", "Limits"),
];

/// Hash of the static assets, used in their URLs so that browsers can cache them.
pub(super) struct Assets(String);

impl Assets {
    pub(super) fn new() -> Self {
        let mut hash = Sha256::new();
        for file in [STYLE, SCRIPT, ICON] {
            hash.update(file);
        }
        let hash = hash.finalize();
        Self(
            hash.iter()
                .take(6)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }
}

/// Error shown as a page.
#[derive(Debug)]
pub(super) enum PageError {
    /// The resource does not exist.
    NotFound(&'static str),
    /// A scope is missing.
    MissingScope(&'static str),
    /// A form that is not from our page, or outdated (CSRF check).
    ForgedForm,
    /// The state does not allow the action any more.
    Conflict(String),
    SignedOut,
    ExpiredSignIn,
    SignInRefused,
    NotAnOperator,
    UsedLink,
    IssuerUnavailable,
    /// The visitor has too many requests in flight, or there is no memory for the answer.
    Busy,
    /// Error of the hub or its store.
    Hub(HubError),
}

impl From<HubError> for PageError {
    fn from(error: HubError) -> Self {
        match error {
            HubError::TaskNotFound(_) => Self::NotFound("task"),
            HubError::StreamNotFound(_) => Self::NotFound("stream"),
            HubError::TaskFinished { state, .. } => {
                Self::Conflict(format!("The task is already {}.", state.name()))
            }
            HubError::NoMemory => Self::Busy,
            error => Self::Hub(error),
        }
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self::Hub(error.into())
    }
}

impl PageError {
    fn describe(&self) -> (StatusCode, &'static str, String) {
        let describe_as = |status, title, text: &str| (status, title, text.to_owned());
        match self {
            Self::NotFound(what) => (
                StatusCode::NOT_FOUND,
                "Not found",
                format!("This {what} does not exist or is no longer stored."),
            ),
            Self::MissingScope(scope) => (
                StatusCode::FORBIDDEN,
                "Access denied",
                format!("This requires the scope {scope}. Ask an administrator of this zone."),
            ),
            Self::ForgedForm => describe_as(
                StatusCode::FORBIDDEN,
                "Request rejected",
                "The page is out of date, or the request came from another site. Go back, reload and try again.",
            ),
            Self::Conflict(text) => describe_as(StatusCode::CONFLICT, "Already finished", text),
            Self::SignedOut => describe_as(
                StatusCode::UNAUTHORIZED,
                "Signed out",
                "Sign in again to continue.",
            ),
            Self::ExpiredSignIn => describe_as(
                StatusCode::BAD_REQUEST,
                "Not signed in",
                "The sign-in expired or was started in another browser. Please try again.",
            ),
            Self::SignInRefused => describe_as(
                StatusCode::FORBIDDEN,
                "Not signed in",
                "The issuer refused the sign-in. Please try again.",
            ),
            Self::NotAnOperator => describe_as(
                StatusCode::FORBIDDEN,
                "Access denied",
                "You are signed in, but you are not an operator of this zone.",
            ),
            Self::UsedLink => describe_as(
                StatusCode::FORBIDDEN,
                "This link was already used or has expired",
                "A link works once and expires after a few minutes. Get a new one from interzone up.",
            ),
            Self::IssuerUnavailable => describe_as(
                StatusCode::SERVICE_UNAVAILABLE,
                "Not signed in",
                "The issuer cannot be reached at the moment. Please try again soon.",
            ),
            Self::Busy => describe_as(
                StatusCode::SERVICE_UNAVAILABLE,
                "Temporarily unavailable",
                "The server is busy. Try again soon.",
            ),
            Self::Hub(error) => {
                tracing::warn!(%error, "console page failed");
                let text = "The store did not answer in time. Try again soon, and check /readyz.";
                describe_as(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Temporarily unavailable",
                    text,
                )
            }
        }
    }
}

/// Renders a page in the layout, or an error page.
pub(super) fn page(
    console: &Console,
    visitor: &SignedInUser,
    here: &str,
    title: &str,
    body: Result<Html, PageError>,
) -> Response {
    match body {
        Ok(body) => console_page(console, Some(visitor), StatusCode::OK, here, title, &body),
        Err(error) => error_page(console, Some(visitor), &error),
    }
}

/// Renders an error page.
pub(super) fn error_page(
    console: &Console,
    visitor: Option<&SignedInUser>,
    error: &PageError,
) -> Response {
    let (status, title, text) = error.describe();
    let mut body = Html::new();
    html!(body, "<h1>" (title) "</h1><p>" (text) "</p>");
    if visitor.is_none() {
        html!(
            body,
            "<p><a class=\"button primary\" href=\"/console/login\">Sign in</a></p>"
        );
        return public_page(console, status, title, &body);
    }
    html!(body, "<p><a href=\"/console\">Back to the overview</a></p>");
    console_page(console, visitor, status, "", title, &body)
}

fn console_page(
    console: &Console,
    visitor: Option<&SignedInUser>,
    status: StatusCode,
    here: &str,
    title: &str,
    body: &Html,
) -> Response {
    let mut out = Html::new();
    html!(out, "<a class=\"skip\" href=\"#main\">Skip to content</a><header class=\"top\">"
        "<a class=\"brand\" href=\"/console\"><img src=\"/console/icon.svg?v=" (console.assets.0)
        "\" width=\"24\" height=\"24\" alt=\"\"><span>Interzone</span></a>"
        "<form class=\"search\" role=\"search\" action=\"/console/search\">"
        "<input type=\"search\" name=\"q\" aria-label=\"Search by id, correlation id or name\" "
        "placeholder=\"Find by id or name\" maxlength=\"256\" autocomplete=\"off\"></form>"
        "<nav aria-label=\"Console\"><ul>");
    for (address, name) in NAV_PAGES {
        html!(out, "<li><a href=\"" (address) "\"");
        if address == here {
            html!(out, " aria-current=\"page\"");
        }
        html!(out, ">" (name) "</a></li>");
    }
    html!(out, "</ul></nav>");
    if let Some(visitor) = visitor {
        let rights = visitor.rights;
        let may = match (rights.content, rights.change) {
            (true, true) => "can read content · can make changes",
            (true, false) => "can read content",
            (false, true) => "can make changes · content hidden",
            (false, false) => "content hidden",
        };
        html!(out, "<div class=\"who\"><span class=\"name\" title=\"" (may) "\">" (visitor.caller.principal)
            "</span><span class=\"may\">" (may) "</span>"
            "<form method=\"post\" action=\"/console/logout\">" [csrf_field(visitor)]
            "<button class=\"quiet\">Sign out</button></form></div>");
    }
    html!(out, "</header><main id=\"main\" tabindex=\"-1\"");
    if let Some(visitor) = visitor {
        html!(out, " data-mark=\"" (visitor.cursor) "\"");
    }
    html!(out, ">" [body] "</main>");
    document(console, status, title, "inside", None, &out)
}

/// A page without navigation, for users who are not signed in.
pub(super) fn public_page(
    console: &Console,
    status: StatusCode,
    title: &str,
    body: &Html,
) -> Response {
    public_document(console, status, title, None, body)
}

/// A page that redirects by itself.
pub(super) fn redirect_page(console: &Console, next: &str, body: &Html) -> Response {
    public_document(console, StatusCode::OK, "Signed in", Some(next), body)
}

fn public_document(
    console: &Console,
    status: StatusCode,
    title: &str,
    next: Option<&str>,
    body: &Html,
) -> Response {
    let mut out = Html::new();
    html!(out, "<main id=\"main\"><p class=\"brand\"><img src=\"/console/icon.svg?v="
        (console.assets.0) "\" width=\"32\" height=\"32\" alt=\"\"><span>Interzone</span></p>" [body]
        "</main>");
    document(console, status, title, "public", next, &out)
}

/// Returns a complete page; with `next`, it redirects there at once.
fn document(
    console: &Console,
    status: StatusCode,
    title: &str,
    body_class: &'static str,
    next: Option<&str>,
    body: &Html,
) -> Response {
    let version = &console.assets.0;
    let mut head = Html::new();
    html!(
        head,
        "<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\">"
    );
    if let Some(next) = next {
        html!(head, "<meta http-equiv=\"refresh\" content=\"0;url=" (next) "\">");
    }
    html!(head, "<link rel=\"stylesheet\" href=\"/console/console.css?v=" (version)
        "\"><link rel=\"icon\" type=\"image/svg+xml\" href=\"/console/icon.svg?v=" (version)
        "\"><script src=\"/console/console.js?v=" (version) "\" defer></script>");
    let title = format!("{title} · Interzone");
    let shell = PageShell {
        head,
        body_class,
        policy: CONTENT_POLICY.to_owned(),
        referrer: REFERRER,
        ..PageShell::new(&title)
    };
    let mut response = shell.response(status, body);
    set_security_headers(&mut response);
    response
}

/// Hidden form field with the CSRF token.
pub(super) fn csrf_field(visitor: &SignedInUser) -> Html {
    let mut out = Html::new();
    let token = visitor.form_token.expose();
    html!(out, "<input type=\"hidden\" name=\"token\" value=\"" (token) "\">");
    out
}

/// Placeholder for content that the user may not read.
pub(super) fn hidden_content(what: &str) -> Html {
    let mut out = Html::new();
    html!(out, "<span class=\"hidden\" title=\"Requires the scope " (CONTENT_SCOPE) "\">"
        (what) " · hidden</span>");
    out
}

/// Notice that the user may not make changes.
pub(super) fn missing_change_scope_notice() -> Html {
    let mut out = Html::new();
    html!(out, "<p class=\"soft\">Making changes requires the scope <code>" (CHANGE_SCOPE) "</code>.</p>");
    out
}

/// Returns a fragment that replaces a part of a page.
pub(super) fn fragment_response(fragment: Html) -> Response {
    let content_type = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    let mut response = (content_type, fragment.into_string()).into_response();
    set_security_headers(&mut response);
    response
}

/// Sets the security headers of a response.
pub(super) fn set_security_headers(response: &mut Response) {
    let headers = response.headers_mut();
    html::set_security_headers(headers, CONTENT_POLICY, REFERRER);
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers
        .entry(opener)
        .or_insert(HeaderValue::from_static("same-origin"));
}

pub(super) async fn style(State(_): State<Arc<Console>>) -> Response {
    asset_response("text/css; charset=utf-8", STYLE)
}

pub(super) async fn script(State(_): State<Arc<Console>>) -> Response {
    asset_response("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn icon(State(_): State<Arc<Console>>) -> Response {
    asset_response("image/svg+xml", ICON)
}

fn asset_response(kind: &'static str, text: &'static str) -> Response {
    let cache_control = "public, max-age=31536000, immutable";
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, cache_control)];
    let mut response = (headers, text).into_response();
    set_security_headers(&mut response);
    response
}
