//! The page on which a person decides. It works without scripts, loads nothing, and shows nothing
//! that was not escaped.

use super::Scope;
use super::authorize::Asked;
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

/// How long somebody may think about it, in seconds.
const THINKING: u64 = 600;
/// `__Host-` binds it to this very origin.
const COOKIE_NAME: &str = "__Host-interzone-consent";

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:30rem;margin:3rem auto;\
padding:0 1rem;color:#1a1a1a;background:#fff}h1{font-size:1.4rem}label{display:block;margin:1rem 0 .2rem}\
input{font:inherit;width:100%;padding:.5rem;box-sizing:border-box;border:1px solid #767676;border-radius:4px}\
button{font:inherit;padding:.6rem 1.4rem;margin:1.5rem .8rem 0 0;border-radius:4px;border:1px solid #1a1a1a;\
background:#fff;color:#1a1a1a}button.allow{background:#1a1a1a;color:#fff}.problem{border-left:4px solid #b00020;\
padding-left:.8rem}code{font-size:.9em;overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}input,button{background:#222;color:#eee;\
border-color:#999}button.allow{background:#eee;color:#161616}}";

/// Proof that a form was shown by us, to this browser, for this request. Without it another page
/// could send a form here in the person's name.
pub(super) struct Ticket {
    cookie: String,
    field: String,
}

impl Ticket {
    pub(super) fn new(key: &[u8], asked: &Asked, now: u64) -> Option<Self> {
        let cookie = credential::random::<32>().ok()?;
        let until = now.saturating_add(THINKING);
        let field = format!("{until}.{}", seal(key, &cookie, until, asked));
        Some(Self { cookie, field })
    }

    pub(super) fn is_good(
        key: &[u8],
        headers: &HeaderMap,
        field: Option<&str>,
        asked: &Asked,
        now: u64,
    ) -> bool {
        let Some((until, given)) = field.and_then(|field| field.split_once('.')) else {
            return false;
        };
        let Ok(until) = until.parse::<u64>() else {
            return false;
        };
        let Some(cookie) = cookie_of(headers) else {
            return false;
        };
        let expected = seal(key, cookie, until, asked);
        let same = aws_lc_rs::constant_time::verify_slices_are_equal(
            expected.as_bytes(),
            given.as_bytes(),
        );
        now < until && same.is_ok()
    }
}

fn seal(key: &[u8], cookie: &str, until: u64, asked: &Asked) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    let until = until.to_string();
    let parts = [
        cookie,
        &until,
        &asked.client.id,
        &asked.redirect_text,
        asked.state.as_deref().unwrap_or_default(),
        asked.scope.as_deref().unwrap_or_default(),
        &asked.challenge,
    ];
    for part in parts {
        // With its length, so that no part can lend letters to its neighbour.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(context.sign())
}

fn cookie_of(headers: &HeaderMap) -> Option<&str> {
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

/// Everything that the page says.
pub(super) struct Consent<'a> {
    pub(super) issuer: &'a str,
    pub(super) asked: &'a Asked,
    pub(super) scopes: &'a [Scope],
    pub(super) ticket: Ticket,
    pub(super) problem: Option<&'a str>,
}

impl Consent<'_> {
    pub(super) fn page(&self, status: StatusCode) -> Response {
        let asked = self.asked;
        let name = Escaped(&asked.client.name);
        let mut body = format!("<h1>Allow {name} to act for you?</h1>");
        if let Some(problem) = self.problem {
            let _ = write!(
                body,
                "<p class=\"problem\" role=\"alert\">{}</p>",
                Escaped(problem)
            );
        }
        let _ = write!(
            body,
            "<p><strong>{name}</strong> (<code>{}</code>) asks at <code>{}</code> to:</p><ul>",
            Escaped(&asked.client.id),
            Escaped(self.issuer),
        );
        for scope in self.scopes {
            let word = Escaped(&scope.name);
            let _ = match scope.meaning.is_empty() {
                true => write!(body, "<li><code>{word}</code></li>"),
                false => write!(
                    body,
                    "<li>{} (<code>{word}</code>)</li>",
                    Escaped(&scope.meaning)
                ),
            };
        }
        let _ = write!(
            body,
            "</ul><p>You will be sent back to <code>{}</code>.</p>\
             <form method=\"post\" action=\"/oauth2/authorize\" autocomplete=\"on\">",
            Escaped(&asked.redirect.origin()),
        );
        let redirect = asked.redirect_named.then_some(asked.redirect_text.as_str());
        let hidden = [
            ("response_type", Some("code")),
            ("client_id", Some(asked.client.id.as_str())),
            ("redirect_uri", redirect),
            ("state", asked.state.as_deref()),
            ("scope", asked.scope.as_deref()),
            ("code_challenge", Some(asked.challenge.as_str())),
            ("code_challenge_method", Some("S256")),
            ("ticket", Some(self.ticket.field.as_str())),
        ];
        for (field, value) in hidden {
            if let Some(value) = value {
                let value = Escaped(value);
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
        let mut answer = html(
            status,
            "Allow access?",
            &body,
            Some(&asked.redirect.origin()),
        );
        let cookie = format!(
            "{COOKIE_NAME}={}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={THINKING}",
            self.ticket.cookie
        );
        if let Ok(cookie) = cookie.parse() {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        answer
    }
}

/// A page that says what is wrong and leads nowhere.
pub(super) fn problem(status: StatusCode, text: &str) -> Response {
    let body = format!(
        "<h1>This request cannot be answered</h1><p class=\"problem\">{}</p>\
         <p>Nothing was allowed. Go back to the program that sent you here.</p>",
        Escaped(text)
    );
    html(status, "Something is wrong", &body, None)
}

/// `leads_to`: where the form's answer may send the browser, which some browsers count as the form's
/// doing.
fn html(status: StatusCode, title: &str, body: &str, leads_to: Option<&str>) -> Response {
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    );
    let style = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    let form = leads_to.map_or_else(|| "'none'".to_owned(), |origin| format!("'self' {origin}"));
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

/// Text in a page, whatever it says.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
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
