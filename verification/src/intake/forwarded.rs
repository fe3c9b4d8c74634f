//! Messages forwarded with a question, with their authors.

use super::files::list;
use super::slack_text::to_plain_text;
use super::string;
use crate::question::ForwardedMessage;
use crate::unicode_hygiene::is_invisible;
use serde_json::Value;

/// Maximum number of forwarded messages. Slack forwards one at a time.
const MAX_MESSAGES: usize = 3;
/// Maximum characters of a message, and of a name.
const MAX_TEXT_CHARS: usize = 4_000;
const MAX_NAME_CHARS: usize = 80;

pub(super) fn parse_forwarded(event: &Value) -> Vec<ForwardedMessage> {
    let is_message = |shared: &&Value| {
        let is = |name: &str| shared.get(name) == Some(&Value::Bool(true));
        is("is_share") || is("is_msg_unfurl")
    };
    let shared = list(event, "attachments").filter(is_message);
    shared
        .filter_map(parse_message)
        .take(MAX_MESSAGES)
        .collect()
}

fn parse_message(attachment: &Value) -> Option<ForwardedMessage> {
    let text = to_plain_text(string(attachment, "text")?);
    let text: String = text.trim().chars().take(MAX_TEXT_CHARS).collect();
    let author = string(attachment, "author_name").or_else(|| string(attachment, "author_subname"));
    let author = author.map(|name| name.chars().take(MAX_NAME_CHARS).collect());
    (!is_invisible(&text)).then_some(ForwardedMessage { author, text })
}

/// Joins the texts of all messages.
pub(super) fn join_texts(forwarded: &[ForwardedMessage]) -> String {
    let texts: Vec<&str> = forwarded.iter().map(|one| one.text.as_str()).collect();
    texts.join("\n\n")
}
