//! Files, and their JSON form in Slack's API and events.

use bytes::Bytes;
use serde_json::{Value, json};

/// A file, from the request for its upload URL on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaygroundFile {
    /// File id.
    pub id: String,
    /// File name.
    pub name: String,
    /// Displayed title.
    pub title: String,
    /// Media type.
    pub mimetype: String,
    /// Uploader.
    pub user: String,
    /// Creation time in Unix seconds.
    pub created: u64,
    /// Announced size in bytes.
    pub length: usize,
    /// Content, once uploaded.
    pub bytes: Option<Bytes>,
    /// Channel, message and thread of each share.
    pub shares: Vec<(String, String, Option<String>)>,
    /// True if events contain only the id, as with Slack Connect, so that `files.info` must be called.
    pub is_stub: bool,
    /// True if the bytes were dropped to make space for newer files.
    pub is_dropped: bool,
    /// Sequence number in the workspace.
    pub(crate) number: u64,
    pub(crate) ticket: String,
}

impl PlaygroundFile {
    pub(crate) fn to_json(&self, base: &str, team: &str) -> Value {
        let (id, name) = (&self.id, path_name(&self.name));
        let channels: Vec<&String> = self.shares.iter().map(|(channel, _, _)| channel).collect();
        json!({
            "id": id, "created": self.created, "timestamp": self.created, "name": self.name,
            "title": self.title, "mimetype": self.mimetype, "filetype": filetype(&self.name),
            "pretty_type": filetype(&self.name), "user": self.user, "user_team": team,
            "editable": false, "size": self.length, "mode": "hosted", "is_external": false,
            "external_type": "", "is_public": true, "public_url_shared": false,
            "display_as_bot": false, "username": "",
            "url_private": format!("{base}/files-pri/{team}-{id}/{name}"),
            "url_private_download": format!("{base}/files-pri/{team}-{id}/download/{name}"),
            "permalink": format!("{base}/files/{}/{id}/{name}", self.user),
            "channels": channels, "has_rich_preview": false, "file_access": "visible",
        })
    }

    /// Returns the JSON form in events.
    pub(crate) fn to_event_json(&self, base: &str, team: &str) -> Value {
        if self.is_stub {
            return json!({
                "id": self.id, "created": self.created, "timestamp": self.created,
                "mode": "file_access", "file_access": "check_file_info",
            });
        }
        self.to_json(base, team)
    }
}

/// Converts a name to a URL path segment.
fn path_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let lower = name.to_lowercase();
    lower
        .chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .collect()
}

fn filetype(name: &str) -> &str {
    name.rsplit_once('.')
        .map_or("binary", |(_, extension)| extension)
}

/// Returns the media type by file extension. Slack also looks at the bytes.
pub(crate) fn mimetype(name: &str) -> &'static str {
    let extension = filetype(name).to_ascii_lowercase();
    match extension.as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "json" => "application/json",
        "html" => "text/html",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}
