//! Writes HTML. What is not part of a page's own text is escaped, by type: only a literal goes in as it
//! is. What a page says is not known here.

use std::fmt::{self, Display, Write};

/// A piece of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Our own words, as they are.
    pub(super) fn raw(&mut self, literal: &'static str) {
        self.0.push_str(literal);
    }

    /// Anybody's words, escaped.
    pub(super) fn text(&mut self, text: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(Escaping(&mut self.0), "{text}");
    }

    /// Another piece, which was escaped when it was written.
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

/// Escapes what is written through it, for text and for quoted attributes alike.
struct Escaping<'s>(&'s mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '\0']) {
            let (plain, special) = rest.split_at(at);
            self.0.push_str(plain);
            let mut characters = special.chars();
            self.0.push_str(match characters.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\'') => "&#39;",
                // There is no way to write this one in a page.
                _ => "\u{fffd}",
            });
            rest = characters.as_str();
        }
        self.0.push_str(rest);
        Ok(())
    }
}

/// Writes pieces one after another: a literal as it is, `(text)` escaped, `[html]` as a piece.
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
    fn what_others_say_is_only_ever_text() {
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
    fn numbers_and_other_languages_are_themselves() {
        let mut out = Html::new();
        html!(out, (1.5) " " ("こんにちは & 世界"));
        assert_eq!(out.into_string(), "1.5 こんにちは &amp; 世界");
    }
}
