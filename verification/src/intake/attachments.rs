//! Content attached to a message: files, and forwarded messages.

use super::slack_text::to_plain_text;
use super::string;
use crate::question::{ForwardedMessage, SharedFile};
use crate::slack::ids::FileId;
use crate::unicode_hygiene::is_invisible;
use serde_json::Value;

/// Maximum number of files: Slack's own limit is ten, and each may become a line of the answer.
const MAX_FILES: usize = 20;
/// Maximum lengths of a stored name, media type and URL.
const MAX_NAME_CHARS: usize = 255;
const MAX_TYPE_BYTES: usize = 127;
const MAX_URL_BYTES: usize = 2_000;
/// Maximum number of forwarded messages. Slack forwards one at a time.
const MAX_FORWARDED: usize = 3;
/// Maximum characters of a message, and of its author.
const MAX_TEXT_CHARS: usize = 4_000;
const MAX_AUTHOR_CHARS: usize = 80;

/// Parses the files of a message and of messages forwarded in it.
pub(super) fn parse_files(event: &Value) -> Vec<SharedFile> {
    let own = list(event, "files");
    let forwarded = list(event, "attachments").flat_map(|shared| list(shared, "files"));
    let mut files: Vec<SharedFile> = Vec::new();
    for file in own.chain(forwarded).filter_map(parse_file) {
        if files.len() < MAX_FILES && files.iter().all(|other| other.id != file.id) {
            files.push(file);
        }
    }
    files
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Parses a file. Missing details are fetched later, so only the id is required.
fn parse_file(file: &Value) -> Option<SharedFile> {
    let url = ["url_private_download", "url_private"]
        .iter()
        .find_map(|name| string(file, name))
        .filter(|url| url.len() <= MAX_URL_BYTES);
    let is_stub = string(file, "file_access") == Some("check_file_info");
    let (name, mimetype) = (string(file, "name"), string(file, "mimetype"));
    let mimetype = mimetype.filter(|mimetype| mimetype.len() <= MAX_TYPE_BYTES);
    let size = file.get("size").and_then(Value::as_u64);
    let is_complete = name.is_some() && mimetype.is_some() && size.is_some() && url.is_some();
    let name: String = name
        .unwrap_or_default()
        .chars()
        .take(MAX_NAME_CHARS)
        .collect();
    Some(SharedFile {
        id: FileId::new(string(file, "id")?).ok()?,
        name,
        mimetype: mimetype.unwrap_or_default().to_owned(),
        size: size.unwrap_or(0),
        url: url.map(str::to_owned),
        check_info: is_stub || !is_complete,
    })
}

/// Parses the messages forwarded with a question, with their authors.
pub(super) fn parse_forwarded(event: &Value) -> Vec<ForwardedMessage> {
    let is_message = |shared: &&Value| {
        let is = |name: &str| shared.get(name) == Some(&Value::Bool(true));
        is("is_share") || is("is_msg_unfurl")
    };
    let shared = list(event, "attachments").filter(is_message);
    shared
        .filter_map(parse_forwarded_message)
        .take(MAX_FORWARDED)
        .collect()
}

fn parse_forwarded_message(attachment: &Value) -> Option<ForwardedMessage> {
    let text = to_plain_text(string(attachment, "text")?);
    let text: String = text.trim().chars().take(MAX_TEXT_CHARS).collect();
    let author = string(attachment, "author_name").or_else(|| string(attachment, "author_subname"));
    let author = author.map(|name| name.chars().take(MAX_AUTHOR_CHARS).collect());
    (!is_invisible(&text)).then_some(ForwardedMessage { author, text })
}

/// Joins the texts of all messages.
pub(super) fn join_texts(forwarded: &[ForwardedMessage]) -> String {
    let texts: Vec<&str> = forwarded.iter().map(|one| one.text.as_str()).collect();
    texts.join("\n\n")
}
