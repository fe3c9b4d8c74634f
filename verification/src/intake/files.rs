//! The files that a message carries, or that a message forwarded in it carries. Their bytes are fetched
//! elsewhere.

use super::string;
use crate::question::SharedFile;
use crate::slack::ids::FileId;
use serde_json::Value;

/// The most files that are looked at: Slack's own limit is ten, and each becomes a line of the answer
/// at worst.
const MOST: usize = 20;
/// The longest name that is kept, the longest type, and the longest address.
const NAME: usize = 255;
const TYPE: usize = 127;
const URL: usize = 2_000;

pub(super) fn shared(event: &Value) -> Vec<SharedFile> {
    let own = list(event, "files");
    let forwarded = list(event, "attachments").flat_map(|shared| list(shared, "files"));
    let mut files: Vec<SharedFile> = Vec::new();
    for file in own.chain(forwarded).filter_map(read) {
        if files.len() < MOST && files.iter().all(|known| known.id != file.id) {
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

/// Whatever the event does not say is asked for, so only an id must be there.
fn read(file: &Value) -> Option<SharedFile> {
    let url = ["url_private_download", "url_private"]
        .iter()
        .find_map(|name| string(file, name))
        .filter(|url| url.len() <= URL);
    let stub = string(file, "file_access") == Some("check_file_info");
    let (name, mimetype) = (string(file, "name"), string(file, "mimetype"));
    let mimetype = mimetype.filter(|mimetype| mimetype.len() <= TYPE);
    let size = file.get("size").and_then(Value::as_u64);
    let whole = name.is_some() && mimetype.is_some() && size.is_some() && url.is_some();
    let name: String = name.unwrap_or_default().chars().take(NAME).collect();
    Some(SharedFile {
        id: FileId::new(string(file, "id")?).ok()?,
        name,
        mimetype: mimetype.unwrap_or_default().to_owned(),
        size: size.unwrap_or(0),
        url: url.map(str::to_owned),
        check_info: stub || !whole,
    })
}
