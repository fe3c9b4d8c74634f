//! Markdown conversion for Slack: escapes mentions for blocks that accept Markdown, and converts to Slack's mrkdwn
//! for the fallback text.

mod escape_mentions;
mod mrkdwn;

pub(super) use escape_mentions::{escape_mentions, safe_prefix};
pub(super) use mrkdwn::mrkdwn;

use std::borrow::Cow;

/// Escapes `&`, `<` and `>` for mrkdwn.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>']) {
        return Cow::Borrowed(text);
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    Cow::Owned(escaped.replace('>', "&gt;"))
}

#[cfg(test)]
mod tests;
