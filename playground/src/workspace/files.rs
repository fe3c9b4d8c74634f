//! Files, and how Slack tells about them.

use bytes::Bytes;
use serde_json::{Value, json};

/// A file, from the moment somebody asked where to upload it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The id.
    pub id: String,
    /// What it is called on disk.
    pub name: String,
    /// What people see.
    pub title: String,
    /// Its media type.
    pub mimetype: String,
    /// Who brought it.
    pub user: String,
    /// When, in seconds since 1970.
    pub created: u64,
    /// How many bytes were announced.
    pub length: usize,
    /// What is in it, once it was uploaded.
    pub bytes: Option<Bytes>,
    /// The channel, message and thread in which it was shared.
    pub shares: Vec<(String, String, Option<String>)>,
    /// Slack Connect tells only the id of a file and wants `files.info` to be asked.
    pub stub: bool,
    /// Its bytes were dropped to make room for newer files.
    pub is_dropped: bool,
    /// Which file of the workspace it is, counted from the first.
    pub(crate) number: u64,
    pub(crate) ticket: String,
}

impl File {
    pub(crate) fn json(&self, base: &str, team: &str) -> Value {
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

    /// As an event tells it.
    pub(crate) fn in_event(&self, base: &str, team: &str) -> Value {
        if self.stub {
            return json!({
                "id": self.id, "created": self.created, "timestamp": self.created,
                "mode": "file_access", "file_access": "check_file_info",
            });
        }
        self.json(base, team)
    }
}

/// A name as the last part of a path.
fn path_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let lower = name.to_lowercase();
    lower
        .chars()
        .map(|c| if keep(c) { c } else { '_' })
        .collect()
}

fn filetype(name: &str) -> &str {
    name.rsplit_once('.')
        .map_or("binary", |(_, extension)| extension)
}

/// What a name says about what is inside. Slack looks at the bytes too; the names are enough here.
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
