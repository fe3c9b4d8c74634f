//! HTML pages: a writer that escapes everything but string literals, and the shell of all pages with its security
//! headers.

pub use crate::write_html as html;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use std::fmt::{self, Display, Write};

/// An HTML fragment.
#[derive(Clone, Debug, Default)]
pub struct Html(String);

impl Html {
    /// Creates an empty fragment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a literal verbatim.
    pub fn raw(&mut self, literal: &'static str) {
        self.0.push_str(literal);
    }

    /// Appends text, escaped.
    pub fn text(&mut self, text: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(HtmlEscaper(&mut self.0), "{text}");
    }

    /// Appends another fragment.
    pub fn put(&mut self, piece: &Self) {
        self.0.push_str(&piece.0);
    }

    /// Returns true if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the HTML.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Escapes text written through it, for element content and quoted attributes.
struct HtmlEscaper<'s>(&'s mut String);

impl Write for HtmlEscaper<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut remaining = text;
        while let Some(index) = remaining.find(['&', '<', '>', '"', '\'', '\0']) {
            let (plain, special) = remaining.split_at(index);
            self.0.push_str(plain);
            let mut characters = special.chars();
            self.0.push_str(match characters.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\'') => "&#39;",
                // NUL cannot be represented in HTML.
                _ => "\u{fffd}",
            });
            remaining = characters.as_str();
        }
        self.0.push_str(remaining);
        Ok(())
    }
}

/// Appends pieces to an [`Html`]: a literal verbatim, `(text)` escaped, `[html]` as a fragment.
#[macro_export]
macro_rules! write_html {
    (@one $out:ident, $literal:literal) => { $out.raw($literal) };
    (@one $out:ident, ($text:expr)) => { $out.text(&$text) };
    (@one $out:ident, [$piece:expr]) => { $out.put(&$piece) };
    ($out:ident, $($piece:tt)+) => {{ $( $crate::write_html!(@one $out, $piece); )+ }};
}

/// Shell of a page: head, content security policy and the other security headers.
///
/// The policy forbids everything that the page does not name, and frames.
#[derive(Clone, Debug)]
pub struct PageShell<'a> {
    /// Language of the texts, as a language tag.
    pub language: &'static str,
    /// Title of the document.
    pub title: &'a str,
    /// Style sheet in the page, allowed by its hash.
    pub inline_style: Option<&'static str>,
    /// Further elements of the head, such as links to files.
    pub head: Html,
    /// Class of the body; empty for none.
    pub body_class: &'static str,
    /// Directives of the content security policy for what the page needs, such as `form-action 'self'`.
    pub policy: String,
    /// Referrer policy.
    pub referrer: &'static str,
}

impl<'a> PageShell<'a> {
    /// Creates the shell of an English page without files, forms and referrer.
    pub fn new(title: &'a str) -> Self {
        Self {
            language: "en",
            title,
            inline_style: None,
            head: Html::new(),
            body_class: "",
            policy: "form-action 'none'".to_owned(),
            referrer: "no-referrer",
        }
    }

    /// Returns the page with this content of its `body` element. It is not cached.
    pub fn response(&self, status: StatusCode, body: &Html) -> Response {
        let mut page = Html::new();
        html!(page, "<!doctype html><html lang=\"" (self.language) "\"><head><meta charset=\"utf-8\"><title>"
            (self.title) "</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
            [self.head]);
        let mut policy = self.policy.clone();
        if let Some(style) = self.inline_style {
            html!(page, "<style>");
            page.raw(style);
            html!(page, "</style>");
            let hash = STANDARD.encode(Sha256::digest(style.as_bytes()));
            let _ = write!(policy, "; style-src 'sha256-{hash}'");
        }
        html!(page, "</head><body");
        if !self.body_class.is_empty() {
            html!(page, " class=\"" (self.body_class) "\"");
        }
        html!(page, ">" [body] "</body></html>");
        let mut response = (status, Body::from(page.into_string())).into_response();
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static("text/html; charset=utf-8");
        headers.insert(CONTENT_TYPE, content_type);
        set_security_headers(headers, &policy, self.referrer);
        response
    }
}

/// Sets the security headers that the response does not have yet. `policy`: directives of the content security policy
/// for what is allowed.
pub fn set_security_headers(headers: &mut HeaderMap, policy: &str, referrer: &'static str) {
    let policy = format!("default-src 'none'; {policy}; base-uri 'none'; frame-ancestors 'none'");
    // A policy with characters that a header cannot have allows nothing.
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static(
        "default-src 'none'; frame-ancestors 'none'",
    ));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, referrer),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_text_is_escaped() {
        let mut out = Html::new();
        let hostile = "<script>alert('1')</script>\" onload=\"x & y\0";
        html!(out, "<p title=\"" (hostile) "\">" (hostile) "</p>");
        let mut around = Html::new();
        html!(around, "<div>" [out] "</div>");
        let page = around.into_string();
        assert_eq!(page.matches('<').count(), 4, "{page}");
        assert_eq!(page.matches('"').count(), 2, "{page}");
        assert!(!page.contains(['\'', '\0']), "{page}");
        assert!(page.contains("x &amp; y\u{fffd}"), "{page}");
    }

    #[test]
    fn numbers_and_unicode_are_written_unchanged() {
        let mut out = Html::new();
        html!(out, (1.5) " " ("こんにちは & 世界"));
        assert_eq!(out.into_string(), "1.5 こんにちは &amp; 世界");
    }

    #[test]
    fn page_escapes_its_title_and_allows_only_what_it_names() {
        let mut body = Html::new();
        html!(body, "<main>" ("a < b") "</main>");
        let shell = PageShell {
            inline_style: Some("body{margin:0}"),
            ..PageShell::new("A & B")
        };
        let response = shell.response(StatusCode::OK, &body);
        assert_eq!(
            response.headers()[CONTENT_SECURITY_POLICY],
            "default-src 'none'; form-action 'none'; \
             style-src 'sha256-IAdwN3biDCQ3brrgp1m8kBEsPQYyqfREKOEfeoREopc='; base-uri 'none'; frame-ancestors 'none'"
        );
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (X_FRAME_OPTIONS, "DENY"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ] {
            assert_eq!(response.headers()[&name], value, "{name}");
        }
    }

    #[test]
    fn security_headers_keep_values_of_the_response() {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        set_security_headers(&mut headers, "img-src 'self'\n", "same-origin");
        assert_eq!(headers[CACHE_CONTROL], "public");
        assert_eq!(
            headers[CONTENT_SECURITY_POLICY],
            "default-src 'none'; frame-ancestors 'none'"
        );
    }
}
