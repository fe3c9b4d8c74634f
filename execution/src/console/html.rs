//! HTML writer. Only string literals are written verbatim; all other text is escaped.

use std::fmt::{self, Display, Write};

/// An HTML fragment.
#[derive(Clone, Debug, Default)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Appends a literal verbatim.
    pub(super) fn raw(&mut self, literal: &'static str) {
        self.0.push_str(literal);
    }

    /// Appends text, escaped.
    pub(super) fn text(&mut self, text: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(HtmlEscaper(&mut self.0), "{text}");
    }

    /// Appends another fragment.
    pub(super) fn put(&mut self, piece: &Self) {
        self.0.push_str(&piece.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_string(self) -> String {
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

/// Appends pieces: a literal verbatim, `(text)` escaped, `[html]` as a fragment.
macro_rules! html {
    (@one $out:ident, $literal:literal) => { $out.raw($literal) };
    (@one $out:ident, ($text:expr)) => { $out.text(&$text) };
    (@one $out:ident, [$piece:expr]) => { $out.put(&$piece) };
    ($out:ident, $($piece:tt)+) => {{ $( html!(@one $out, $piece); )+ }};
}
pub(super) use html;

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
}
