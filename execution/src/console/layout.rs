//! What all pages have around them: the frame, the headers that keep a browser from doing anything but
//! showing them, the files that they need, and how a page says that something is wrong.

use super::guard::Visitor;
use super::html::{Html, html};
use super::{CHANGE_SCOPE, CONTENT_SCOPE, Console};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Nothing but our own files, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The pages that the navigation leads to.
pub(super) const ROOMS: [(&str, &str); 8] = [
    ("/console", "Overview"),
    ("/console/tasks", "Tasks"),
    ("/console/streams", "Streams"),
    ("/console/conversations", "Conversations"),
    ("/console/topics", "Topics"),
    ("/console/dead-letters", "Dead letters"),
    ("/console/agents", "Agents"),
    ("/console/limits", "Limits"),
];

/// A name for each version of the files, so that browsers may keep them.
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

/// What is wrong, to the person who looks.
#[derive(Debug)]
pub(super) enum Problem {
    /// There is no such thing.
    Nothing(&'static str),
    /// Another scope is needed.
    Needs(&'static str),
    /// A form that is not from our page, or too old.
    Foreign,
    /// It is too late for what was asked.
    TooLate(String),
    SignedOut,
    Stale,
    Declined,
    NoOperator,
    UsedLink,
    Away,
    /// The visitor has too many requests in flight, or there is no memory for the answer.
    Busy,
    /// The hub or its store.
    Hub(HubError),
}

impl From<HubError> for Problem {
    fn from(error: HubError) -> Self {
        match error {
            HubError::TaskNotFound(_) => Self::Nothing("task"),
            HubError::StreamNotFound(_) => Self::Nothing("stream"),
            HubError::TaskFinished { state, .. } => {
                Self::TooLate(format!("The task is {} already.", state.name()))
            }
            HubError::NoMemory => Self::Busy,
            error => Self::Hub(error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Hub(error.into())
    }
}

impl Problem {
    fn told(&self) -> (StatusCode, &'static str, String) {
        let said = |status, title, text: &str| (status, title, text.to_owned());
        match self {
            Self::Nothing(what) => (
                StatusCode::NOT_FOUND,
                "Nothing here",
                format!("There is no such {what}, or it is kept no longer."),
            ),
            Self::Needs(scope) => (
                StatusCode::FORBIDDEN,
                "Not for you",
                format!("This takes the scope {scope}. Ask whoever gives out access to this zone."),
            ),
            Self::Foreign => said(
                StatusCode::FORBIDDEN,
                "Not done",
                "This page is too old, or the request came from elsewhere. Go back, reload, try again.",
            ),
            Self::TooLate(text) => said(StatusCode::CONFLICT, "Too late", text),
            Self::SignedOut => said(
                StatusCode::UNAUTHORIZED,
                "Signed out",
                "Sign in again to go on.",
            ),
            Self::Stale => said(
                StatusCode::BAD_REQUEST,
                "Not signed in",
                "This sign-in took too long or began elsewhere. Please try again.",
            ),
            Self::Declined => said(
                StatusCode::FORBIDDEN,
                "Not signed in",
                "The issuer did not agree. Please try again.",
            ),
            Self::NoOperator => said(
                StatusCode::FORBIDDEN,
                "Not for you",
                "You are known, but not among those who look after this zone.",
            ),
            Self::UsedLink => said(
                StatusCode::FORBIDDEN,
                "This link was used, or is too old",
                "A link is good once and for a few minutes. Ask interzone up for another.",
            ),
            Self::Away => said(
                StatusCode::SERVICE_UNAVAILABLE,
                "Not signed in",
                "The issuer cannot be reached at the moment. Please try again soon.",
            ),
            Self::Busy => said(
                StatusCode::SERVICE_UNAVAILABLE,
                "Not now",
                "Too much is being read at this moment. Try again soon.",
            ),
            Self::Hub(error) => {
                tracing::warn!(%error, "a page of the console could not be shown");
                let text = "The store did not answer in time. Try again soon, and look at /readyz.";
                said(StatusCode::SERVICE_UNAVAILABLE, "Not now", text)
            }
        }
    }
}

/// A page inside the frame, or what is wrong instead.
pub(super) fn page(
    console: &Console,
    visitor: &Visitor,
    here: &str,
    title: &str,
    body: Result<Html, Problem>,
) -> Response {
    match body {
        Ok(body) => framed(console, Some(visitor), StatusCode::OK, here, title, &body),
        Err(wrong) => problem(console, Some(visitor), &wrong),
    }
}

/// A page that says what is wrong.
pub(super) fn problem(console: &Console, visitor: Option<&Visitor>, problem: &Problem) -> Response {
    let (status, title, text) = problem.told();
    let mut body = Html::new();
    html!(body, "<h1>" (title) "</h1><p>" (text) "</p>");
    if visitor.is_none() {
        html!(
            body,
            "<p><a class=\"button primary\" href=\"/console/login\">Sign in</a></p>"
        );
        return door(console, status, title, &body);
    }
    html!(body, "<p><a href=\"/console\">Back to the overview</a></p>");
    framed(console, visitor, status, "", title, &body)
}

fn framed(
    console: &Console,
    visitor: Option<&Visitor>,
    status: StatusCode,
    here: &str,
    title: &str,
    body: &Html,
) -> Response {
    let mut out = head(console, title, None);
    html!(out, "<body class=\"inside\"><a class=\"skip\" href=\"#main\">Skip to content</a><header class=\"top\">"
        "<a class=\"brand\" href=\"/console\"><img src=\"/console/icon.svg?v=" (console.assets.0)
        "\" width=\"24\" height=\"24\" alt=\"\"><span>Interzone</span></a>"
        "<form class=\"search\" role=\"search\" action=\"/console/search\">"
        "<input type=\"search\" name=\"q\" aria-label=\"Search by id, correlation id or name\" "
        "placeholder=\"Find by id or name\" maxlength=\"256\" autocomplete=\"off\"></form>"
        "<nav aria-label=\"Console\"><ul>");
    for (address, name) in ROOMS {
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
            (true, true) => "sees content, may change",
            (true, false) => "sees content",
            (false, true) => "may change, content hidden",
            (false, false) => "content hidden",
        };
        html!(out, "<div class=\"who\"><span class=\"name\" title=\"" (may) "\">" (visitor.caller.principal)
            "</span><span class=\"may\">" (may) "</span>"
            "<form method=\"post\" action=\"/console/logout\">" [token(visitor)]
            "<button class=\"quiet\">Sign out</button></form></div>");
    }
    html!(out, "</header><main id=\"main\" tabindex=\"-1\"");
    if let Some(visitor) = visitor {
        html!(out, " data-mark=\"" (visitor.mark) "\"");
    }
    html!(out, ">" [body] "</main></body></html>");
    answer(status, out)
}

/// A page for somebody who is not inside.
pub(super) fn door(console: &Console, status: StatusCode, title: &str, body: &Html) -> Response {
    answer(status, outside(console, title, None, body))
}

/// A page that goes on to another by itself.
pub(super) fn leading_on(console: &Console, next: &str, body: &Html) -> Response {
    answer(
        StatusCode::OK,
        outside(console, "Signed in", Some(next), body),
    )
}

fn outside(console: &Console, title: &str, next: Option<&str>, body: &Html) -> Html {
    let mut out = head(console, title, next);
    html!(out, "<body class=\"door\"><main id=\"main\"><p class=\"brand\"><img src=\"/console/icon.svg?v="
        (console.assets.0) "\" width=\"32\" height=\"32\" alt=\"\"><span>Interzone</span></p>" [body]
        "</main></body></html>");
    out
}

fn head(console: &Console, title: &str, next: Option<&str>) -> Html {
    let version = &console.assets.0;
    let mut out = Html::new();
    html!(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>" (title)
        " · Interzone</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
        "<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\">");
    if let Some(next) = next {
        html!(out, "<meta http-equiv=\"refresh\" content=\"0;url=" (next) "\">");
    }
    html!(out, "<link rel=\"stylesheet\" href=\"/console/console.css?v=" (version)
        "\"><link rel=\"icon\" type=\"image/svg+xml\" href=\"/console/icon.svg?v=" (version)
        "\"><script src=\"/console/console.js?v=" (version) "\" defer></script></head>");
    out
}

/// What a form must bring along.
pub(super) fn token(visitor: &Visitor) -> Html {
    let mut out = Html::new();
    let token = visitor.form_token.expose();
    html!(out, "<input type=\"hidden\" name=\"token\" value=\"" (token) "\">");
    out
}

/// What stands in the place of content that is not shown.
pub(super) fn hidden(what: &str) -> Html {
    let mut out = Html::new();
    html!(out, "<span class=\"hidden\" title=\"Shown to those with the scope " (CONTENT_SCOPE) "\">"
        (what) " · hidden</span>");
    out
}

/// What is said where somebody could change something and may not.
pub(super) fn may_not_change() -> Html {
    let mut out = Html::new();
    html!(out, "<p class=\"soft\">Changing something takes the scope <code>" (CHANGE_SCOPE) "</code>.</p>");
    out
}

pub(super) fn answer(status: StatusCode, page: Html) -> Response {
    let mut response = (status, Body::from(page.into_string())).into_response();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    protect(&mut response);
    response
}

/// What every answer says to the browser. The policy about referrers still names our own origin to us,
/// by which a form of ours is known.
pub(super) fn protect(response: &mut Response) {
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (opener, "same-origin"),
    ] {
        response
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

pub(super) async fn style(State(_): State<Arc<Console>>) -> Response {
    file("text/css; charset=utf-8", STYLE)
}

pub(super) async fn script(State(_): State<Arc<Console>>) -> Response {
    file("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn icon(State(_): State<Arc<Console>>) -> Response {
    file("image/svg+xml", ICON)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let keep = "public, max-age=31536000, immutable";
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, keep)];
    let mut response = (headers, text).into_response();
    protect(&mut response);
    response
}
