//! Consent page: HTML without scripts or external resources; all values are escaped.

use super::ScopeDefinition;
use super::authorize::AuthorizationRequest;
use super::credential;
use aws_lc_rs::{digest, hmac};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use std::fmt::Write;

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
        let name = HtmlEscaped(&request.client.name);
        let mut body = format!("<h1>Allow {name} to act for you?</h1>");
        if let Some(problem) = self.error_text {
            let _ = write!(
                body,
                "<p class=\"problem\" role=\"alert\">{}</p>",
                HtmlEscaped(problem)
            );
        }
        let _ = write!(
            body,
            "<p><strong>{name}</strong> (<code>{}</code>) requests access at <code>{}</code> to:</p><ul>",
            HtmlEscaped(&request.client.id),
            HtmlEscaped(self.issuer),
        );
        for scope in self.scopes {
            let scope_name = HtmlEscaped(&scope.name);
            let _ = match scope.description.is_empty() {
                true => write!(body, "<li><code>{scope_name}</code></li>"),
                false => write!(
                    body,
                    "<li>{} (<code>{scope_name}</code>)</li>",
                    HtmlEscaped(&scope.description)
                ),
            };
        }
        let _ = write!(
            body,
            "</ul><p>You will be sent back to <code>{}</code>.</p>\
             <form method=\"post\" action=\"/oauth2/authorize\" autocomplete=\"on\">",
            HtmlEscaped(&request.redirect.origin()),
        );
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
                let value = HtmlEscaped(value);
                let _ = write!(
                    body,
                    "<input type=\"hidden\" name=\"{field}\" value=\"{value}\">"
                );
            }
        }
        body.push_str(
            "<label for=\"name\">Your name</label>\
             <input id=\"name\" name=\"name\" autocomplete=\"username\" autocapitalize=\"none\" \
             maxlength=\"64\">\
             <label for=\"passphrase\">Your passphrase</label>\
             <input id=\"passphrase\" name=\"passphrase\" type=\"password\" \
             autocomplete=\"current-password\" maxlength=\"200\">\
             <button class=\"allow\" name=\"decision\" value=\"allow\">Allow</button>\
             <button name=\"decision\" value=\"deny\">Deny</button></form>",
        );
        let mut response = html_page(
            status,
            "Allow access?",
            &body,
            Some(&request.redirect.origin()),
        );
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
    let body = format!(
        "<h1>This request cannot be completed</h1><p class=\"problem\">{}</p>\
         <p>No access was granted. Go back to the program that sent you here.</p>",
        HtmlEscaped(text)
    );
    html_page(status, "Request failed", &body, None)
}

/// Returns an HTML page. `redirect_origin` is the origin that the form's response may redirect to, which some
/// browsers check against `form-action`.
fn html_page(
    status: StatusCode,
    title: &str,
    body: &str,
    redirect_origin: Option<&str>,
) -> Response {
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    );
    let style = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    let form =
        redirect_origin.map_or_else(|| "'none'".to_owned(), |origin| format!("'self' {origin}"));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action {form}; \
         frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (X_FRAME_OPTIONS, "DENY".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (status, headers, page).into_response()
}

/// HTML-escaped text.
struct HtmlEscaped<'a>(&'a str);

impl std::fmt::Display for HtmlEscaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
