//! Messages that somebody forwards: what they say, and who said it. They are words of others, however they
//! came here; the files in them are looked at elsewhere.

use super::files::list;
use super::string;
use super::text::readable;
use crate::question::Forwarded;
use crate::signs::is_blank;
use serde_json::Value;

/// The most messages that are looked at. Slack forwards one at a time.
const MOST: usize = 3;
/// Characters of one message, and of a name.
const LONGEST: usize = 4_000;
const NAME: usize = 80;

pub(super) fn shared(event: &Value) -> Vec<Forwarded> {
    let is_message = |shared: &&Value| {
        let is = |name: &str| shared.get(name) == Some(&Value::Bool(true));
        is("is_share") || is("is_msg_unfurl")
    };
    let shared = list(event, "attachments").filter(is_message);
    shared.filter_map(read).take(MOST).collect()
}

fn read(shared: &Value) -> Option<Forwarded> {
    let text = readable(string(shared, "text")?);
    let text: String = text.trim().chars().take(LONGEST).collect();
    let author = string(shared, "author_name").or_else(|| string(shared, "author_subname"));
    let author = author.map(|name| name.chars().take(NAME).collect());
    (!is_blank(&text)).then_some(Forwarded { author, text })
}

/// What all of them say.
pub(super) fn together(forwarded: &[Forwarded]) -> String {
    let texts: Vec<&str> = forwarded.iter().map(|one| one.text.as_str()).collect();
    texts.join("\n\n")
}
