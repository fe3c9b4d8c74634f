//! The files that came with a question: looked at before they are fetched, bounded while they are, and
//! what is left out is named. What is in them is read by the Execution Zone, and never here.

#[cfg(test)]
mod tests;

use crate::question::SharedFile;
use crate::signs::is_blank;
use crate::slack::api::{Slack, SlackError};
use crate::slack::tokens::Installation;
use crate::texts::LeftOut;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::zone::Attachment;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// Which files are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// How many with one question.
    pub files: usize,
    /// Bytes of a picture.
    pub image: u64,
    /// Bytes of any other file.
    pub document: u64,
    /// Bytes of all together, which the Execution Zone must take in one request.
    pub together: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            files: 5,
            image: 10 * MIB,
            document: 5 * MIB,
            together: 25 * MIB,
        }
    }
}

/// A file that goes along, as it is written down before it is sent, so that another attempt can tell
/// whether it has the same one. The bytes are not kept: Slack has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    id: String,
    /// SHA-256 of the bytes.
    hash: String,
}

/// The files of a question.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) sent: Vec<Sent>,
    /// What does not go along, by name, and why.
    pub(crate) left_out: Vec<(String, LeftOut)>,
}

/// A file could not be had for a reason that passes.
#[derive(Debug)]
pub(crate) struct NotNow {
    pub(crate) why: String,
    pub(crate) after: Option<Duration>,
}

/// How far a file is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Whether there is another try after this one.
    pub(crate) tries: bool,
    /// What is left of the time for an answer.
    pub(crate) left: Duration,
}

impl Patience {
    /// Whether it is worth to come again after such an error. Slack's word for how long to wait is no
    /// failure and takes no try, but nobody waits for longer than for an answer.
    fn lasts(self, error: &SlackError) -> bool {
        match error.retry_after() {
            Some(after) => after <= self.left,
            None => self.tries && error.may_pass(),
        }
    }
}

/// Fetches what may go along. What cannot be had at this moment is waited for as long as patience lasts.
pub(crate) async fn fetch(
    slack: &Slack,
    at: &Installation,
    files: &[SharedFile],
    limits: &FileLimits,
    patience: Patience,
) -> Result<Fetched, NotNow> {
    let mut fetched = Fetched::default();
    let mut room = limits.together;
    for (place, file) in files.iter().enumerate() {
        if place >= limits.files {
            let name = named(&file.name, file);
            fetched.left_out.push((name, LeftOut::TooMany));
            continue;
        }
        match one(slack, at, file, limits, room).await {
            Ok(attachment) => {
                room = room.saturating_sub(attachment.size.unwrap_or(0));
                fetched.sent.push(Sent {
                    id: file.id.to_string(),
                    hash: hash(attachment.content_base64.as_deref().unwrap_or_default()),
                });
                fetched.attachments.push(attachment);
            }
            Err(Missed::Slack(name, error)) if patience.lasts(&error) => {
                tracing::info!(file = %file.id, word = error.word(), name_length = name.len(), "a file is not to be had now");
                return Err(NotNow {
                    why: error.to_string(),
                    after: error.retry_after(),
                });
            }
            Err(Missed::Slack(name, error)) => {
                tracing::warn!(file = %file.id, %error, "a file was not fetched");
                fetched.left_out.push((name, why(&error)));
            }
            Err(Missed::Left(name, why)) => fetched.left_out.push((name, why)),
        }
    }
    Ok(fetched)
}

/// A hash of what is sent; the text of base64 stands for the bytes.
fn hash(content: &str) -> String {
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

enum Missed {
    Slack(String, SlackError),
    Left(String, LeftOut),
}

async fn one(
    slack: &Slack,
    at: &Installation,
    file: &SharedFile,
    limits: &FileLimits,
    room: u64,
) -> Result<Attachment, Missed> {
    let (mut name, mut mimetype) = (file.name.clone(), file.mimetype.clone());
    let (mut size, mut url) = (file.size, file.url.clone());
    if file.check_info {
        let info = slack.files_info(at, &file.id).await;
        let info = info.map_err(|error| Missed::Slack(named(&name, file), error))?;
        url = info.url().map(str::to_owned);
        size = info.size.unwrap_or(0);
        (name, mimetype) = (info.name, info.mimetype);
        let gone = matches!(info.mode.as_deref(), Some("tombstone" | "hidden_by_limit"));
        if gone {
            return Err(Missed::Left(named(&name, file), LeftOut::NotFetched));
        }
    }
    let name = named(&name, file);
    let left = |why| Missed::Left(name.clone(), why);
    let kind = kind(&mimetype, &name).ok_or_else(|| left(LeftOut::Unsupported))?;
    let most = match kind {
        Kind::Image => limits.image,
        Kind::Document => limits.document,
    };
    let most = most.min(room);
    if size > most {
        return Err(left(LeftOut::TooLarge));
    }
    let url = url.ok_or_else(|| left(LeftOut::NotFetched))?;
    let cap = usize::try_from(most).unwrap_or(usize::MAX);
    let download = slack.files_download(at, &url, cap).await;
    let download = download.map_err(|error| Missed::Slack(name.clone(), error))?;
    // Slack shows its login page, and says that all is well, to a token that may not read files.
    if download.mimetype == "text/html" && mimetype != "text/html" {
        return Err(left(LeftOut::NotPermitted));
    }
    if download.bytes.is_empty() {
        return Err(left(LeftOut::Unreadable));
    }
    Ok(Attachment {
        id: Some(file.id.to_string()),
        mimetype,
        size: u64::try_from(download.bytes.len()).ok(),
        content_base64: Some(STANDARD.encode(&download.bytes)),
        presigned_url: None,
        name,
    })
}

fn named(name: &str, file: &SharedFile) -> String {
    if is_blank(name) {
        file.id.to_string()
    } else {
        name.to_owned()
    }
}

fn why(error: &SlackError) -> LeftOut {
    match error {
        SlackError::TooLarge { .. } => LeftOut::TooLarge,
        SlackError::Status {
            status: 401 | 403, ..
        } => LeftOut::NotPermitted,
        error if error.is("missing_scope") || error.is("not_allowed_token_type") => {
            LeftOut::NotPermitted
        }
        _ => LeftOut::NotFetched,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Image,
    Document,
}

/// What kind of file it says to be, by its type or else by its name; none if it is of no use.
fn kind(mimetype: &str, name: &str) -> Option<Kind> {
    let plain = mimetype.split(';').next().unwrap_or_default();
    let by_type = match plain.trim().to_ascii_lowercase().as_str() {
        "image/png" | "image/x-png" | "image/jpeg" | "image/jpg" | "image/pjpeg" | "image/gif"
        | "image/webp" => Some(Kind::Image),
        "application/pdf"
        | "application/x-pdf"
        | "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        | "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
        | "application/vnd.openxmlformats-officedocument.presentationml.presentation"
        | "application/json"
        | "application/csv"
        | "application/markdown" => Some(Kind::Document),
        // Programs and pages come as text too, and can be read as such.
        text if text.starts_with("text/") => Some(Kind::Document),
        _ => None,
    };
    let extension = || {
        name.rsplit_once('.')
            .map(|(_, end)| end.to_ascii_lowercase())
    };
    by_type.or_else(|| match extension()?.as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" => Some(Kind::Image),
        "pdf" | "docx" | "xlsx" | "pptx" | "csv" | "txt" | "text" | "log" | "md" | "markdown"
        | "json" => Some(Kind::Document),
        _ => None,
    })
}
