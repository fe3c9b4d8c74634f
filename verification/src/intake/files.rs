//! Files of a message and of messages forwarded in it.

use super::string;
use crate::question::SharedFile;
use crate::slack::ids::FileId;
use serde_json::Value;

/// Maximum number of files: Slack's own limit is ten, and each may become a line of the answer.
const MAX_FILES: usize = 20;
/// Maximum lengths of a stored name, media type and URL.
const MAX_NAME_CHARS: usize = 255;
const MAX_TYPE_BYTES: usize = 127;
const MAX_URL_BYTES: usize = 2_000;

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

pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
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
