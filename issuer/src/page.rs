//! Consent page: HTML without scripts or external resources.

use super::ScopeDefinition;
use super::authorize::AuthorizationRequest;
use super::credential;
use aws_lc_rs::hmac;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use interzone_edge::html::{Html, PageShell, html};

/// Lifetime of the consent form, in seconds.
const FORM_TTL: u64 = 600;
/// The `__Host-` prefix binds the cookie to this origin.
const COOKIE_NAME: &str = "__Host-interzone-consent";

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:30rem;margin:3rem auto;\
padding:0 1rem;color:#1a1a1a;background:#fff}h1{font-size:1.4rem}label{display:block;margin:1rem 0 .2rem}\
input{font:inherit;width:100%;padding:.5rem;box-sizing:border-box;border:1px solid #767676;border-radius:4px}\
button{font:inherit;padding:.6rem 1.4rem;margin:1.5rem .8rem 0 0;border-radius:4px;border:1px solid #1a1a1a;\
background:#fff;color:#1a1a1a}button.allow{background:#1a1a1a;color:#fff}.problem{border-left:4px solid #b00020;\
padding-left:.8rem}code{font-size:.9em;overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}input,button{background:#222;color:#eee;\
border-color:#999}button.allow{background:#eee;color:#161616}}";

/// CSRF ticket: proves that the form was shown by this issuer, to this browser, for this request. Without it
/// another site could submit the form on the user's behalf.
pub(super) struct CsrfTicket {
    cookie: String,
    field: String,
}

impl CsrfTicket {
    pub(super) fn new(key: &[u8], request: &AuthorizationRequest, now: u64) -> Option<Self> {
        let cookie = credential::random_base64::<32>().ok()?;
        let until = now.saturating_add(FORM_TTL);
        let field = format!("{until}.{}", ticket_mac(key, &cookie, until, request));
        Some(Self { cookie, field })
    }

    pub(super) fn is_valid(
        key: &[u8],
        headers: &HeaderMap,
        field: Option<&str>,
        request: &AuthorizationRequest,
        now: u64,
    ) -> bool {
        let Some((until, given)) = field.and_then(|field| field.split_once('.')) else {
            return false;
        };
        let Ok(until) = until.parse::<u64>() else {
            return false;
        };
        let Some(cookie) = find_cookie(headers) else {
            return false;
        };
        let expected = ticket_mac(key, cookie, until, request);
        let is_equal = aws_lc_rs::constant_time::verify_slices_are_equal(
            expected.as_bytes(),
            given.as_bytes(),
        );
        now < until && is_equal.is_ok()
    }
}

fn ticket_mac(key: &[u8], cookie: &str, until: u64, request: &AuthorizationRequest) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    let until = until.to_string();
    let parts = [
        cookie,
        &until,
        &request.client.id,
        &request.redirect_text,
        request.state.as_deref().unwrap_or_default(),
        request.scope.as_deref().unwrap_or_default(),
        &request.challenge,
    ];
    for part in parts {
        // Each part is prefixed with its length, so that no two different lists have the same input.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(context.sign())
}

fn find_cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut pairs = all
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| name.trim() == COOKIE_NAME);
    found.map(|(_, value)| value.trim())
}

/// Content of the consent page.
pub(super) struct ConsentPage<'a> {
    pub(super) issuer: &'a str,
    pub(super) request: &'a AuthorizationRequest,
    pub(super) scopes: &'a [ScopeDefinition],
    pub(super) ticket: CsrfTicket,
    pub(super) error_text: Option<&'a str>,
}

impl ConsentPage<'_> {
    pub(super) fn render(&self, status: StatusCode) -> Response {
        let request = self.request;
        let name = &request.client.name;
        let mut body = Html::new();
        html!(body, "<main><h1>Allow " (name) " to act for you?</h1>");
        if let Some(problem) = self.error_text {
            html!(body, "<p class=\"problem\" role=\"alert\">" (problem) "</p>");
        }
        html!(body, "<p><strong>" (name) "</strong> (<code>" (request.client.id)
            "</code>) requests access at <code>" (self.issuer) "</code> to:</p><ul>");
        for scope in self.scopes {
            match scope.description.is_empty() {
                true => html!(body, "<li><code>" (scope.name) "</code></li>"),
                false => {
                    html!(body, "<li>" (scope.description) " (<code>" (scope.name) "</code>)</li>");
                }
            }
        }
        html!(body, "</ul><p>You will be sent back to <code>" (request.redirect.origin()) "</code>.</p>"
            "<form method=\"post\" action=\"/oauth2/authorize\" autocomplete=\"on\">");
        let redirect = request
            .redirect_named
            .then_some(request.redirect_text.as_str());
        let hidden = [
            ("response_type", Some("code")),
            ("client_id", Some(request.client.id.as_str())),
            ("redirect_uri", redirect),
            ("state", request.state.as_deref()),
            ("scope", request.scope.as_deref()),
            ("code_challenge", Some(request.challenge.as_str())),
            ("code_challenge_method", Some("S256")),
            ("ticket", Some(self.ticket.field.as_str())),
        ];
        for (field, value) in hidden {
            if let Some(value) = value {
                html!(body, "<input type=\"hidden\" name=\"" (field) "\" value=\"" (value) "\">");
            }
        }
        html!(
            body,
            "<label for=\"name\">Your name</label>\
             <input id=\"name\" name=\"name\" autocomplete=\"username\" autocapitalize=\"none\" \
             maxlength=\"64\">\
             <label for=\"passphrase\">Your passphrase</label>\
             <input id=\"passphrase\" name=\"passphrase\" type=\"password\" \
             autocomplete=\"current-password\" maxlength=\"200\">\
             <button class=\"allow\" name=\"decision\" value=\"allow\">Allow</button>\
             <button name=\"decision\" value=\"deny\">Deny</button></form></main>"
        );
        // Some browsers check the redirect after the form against `form-action` too.
        let shell = PageShell {
            policy: format!("form-action 'self' {}", request.redirect.origin()),
            ..page_shell("Allow access?")
        };
        let mut response = shell.response(status, &body);
        let cookie = format!(
            "{COOKIE_NAME}={}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={FORM_TTL}",
            self.ticket.cookie
        );
        if let Ok(cookie) = cookie.parse() {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

/// Returns an error page without links.
pub(super) fn error_page(status: StatusCode, text: &str) -> Response {
    let mut body = Html::new();
    html!(body, "<main><h1>This request cannot be completed</h1><p class=\"problem\">" (text) "</p>"
        "<p>No access was granted. Go back to the program that sent you here.</p></main>");
    page_shell("Request failed").response(status, &body)
}

fn page_shell(title: &str) -> PageShell<'_> {
    PageShell {
        inline_style: Some(STYLE),
        ..PageShell::new(title)
    }
}
