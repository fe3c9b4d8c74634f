//! Downloads the files of a question from Slack, within limits. Skipped files are reported by name. Their content is
//! read by the Execution Zone.

#[cfg(test)]
mod tests;

use crate::question::SharedFile;
use crate::slack::api::{Slack, SlackError};
use crate::slack::tokens::Installation;
use crate::texts::SkipReason;
use crate::unicode_hygiene::is_invisible;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::zone::Attachment;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// Limits for attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum files per question.
    pub files: usize,
    /// Maximum bytes of an image.
    pub image: u64,
    /// Maximum bytes of any other file.
    pub document: u64,
    /// Maximum total bytes, which the Execution Zone must accept in one request.
    pub total: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            files: 5,
            image: 10 * MIB,
            document: 5 * MIB,
            total: 25 * MIB,
        }
    }
}

/// Fingerprint of a file, stored before it is sent, so that a retry can check that it has the same one. The bytes are
/// not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFingerprint {
    id: String,
    /// SHA-256 of the bytes.
    hash: String,
}

/// Downloaded files of a question.
#[derive(Debug, Default)]
pub(crate) struct FetchedFiles {
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) fingerprints: Vec<FileFingerprint>,
    /// Names of skipped files, with the reason.
    pub(crate) skipped: Vec<(String, SkipReason)>,
}

/// A download failed temporarily.
#[derive(Debug)]
pub(crate) struct FetchRetry {
    pub(crate) reason: String,
    pub(crate) delay: Option<Duration>,
}

/// Retry budget of a download.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBudget {
    /// True if another attempt may follow.
    pub(crate) has_attempts_left: bool,
    /// Remaining time for an answer.
    pub(crate) remaining: Duration,
}

impl RetryBudget {
    /// Returns true if a retry is worthwhile. A delay requested by Slack does not count as an attempt, but must fit
    /// into the remaining time.
    fn allows_retry(self, error: &SlackError) -> bool {
        match error.retry_after() {
            Some(after) => after <= self.remaining,
            None => self.has_attempts_left && error.is_retryable(),
        }
    }
}

/// Downloads the files within the limits. Returns an error if a retry later may succeed and the budget allows it.
pub(crate) async fn fetch(
    slack: &Slack,
    installation: &Installation,
    files: &[SharedFile],
    limits: &FileLimits,
    budget: RetryBudget,
) -> Result<FetchedFiles, FetchRetry> {
    let mut fetched = FetchedFiles::default();
    let mut remaining_bytes = limits.total;
    for (index, file) in files.iter().enumerate() {
        if index >= limits.files {
            let name = name_or_id(&file.name, file);
            fetched.skipped.push((name, SkipReason::TooMany));
            continue;
        }
        match fetch_one(slack, installation, file, limits, remaining_bytes).await {
            Ok(attachment) => {
                remaining_bytes = remaining_bytes.saturating_sub(attachment.size.unwrap_or(0));
                fetched.fingerprints.push(FileFingerprint {
                    id: file.id.to_string(),
                    hash: hash_hex(attachment.content_base64.as_deref().unwrap_or_default()),
                });
                fetched.attachments.push(attachment);
            }
            Err(FetchFailure::Slack(name, error)) if budget.allows_retry(&error) => {
                tracing::info!(file = %file.id, code = error.code(), name_length = name.len(), "file download deferred");
                return Err(FetchRetry {
                    reason: error.to_string(),
                    delay: error.retry_after(),
                });
            }
            Err(FetchFailure::Slack(name, error)) => {
                tracing::warn!(file = %file.id, %error, "file download failed");
                fetched.skipped.push((name, skip_reason(&error)));
            }
            Err(FetchFailure::Skipped(name, reason)) => fetched.skipped.push((name, reason)),
        }
    }
    Ok(fetched)
}

/// Returns the SHA-256 of the base64 content as hex.
fn hash_hex(content: &str) -> String {
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

enum FetchFailure {
    Slack(String, SlackError),
    Skipped(String, SkipReason),
}

async fn fetch_one(
    slack: &Slack,
    installation: &Installation,
    file: &SharedFile,
    limits: &FileLimits,
    remaining_bytes: u64,
) -> Result<Attachment, FetchFailure> {
    let (mut name, mut mimetype) = (file.name.clone(), file.mimetype.clone());
    let (mut size, mut url) = (file.size, file.url.clone());
    if file.check_info {
        let info = slack.files_info(installation, &file.id).await;
        let info = info.map_err(|error| FetchFailure::Slack(name_or_id(&name, file), error))?;
        url = info.download_url().map(str::to_owned);
        size = info.size.unwrap_or(0);
        (name, mimetype) = (info.name, info.mimetype);
        let is_gone = matches!(info.mode.as_deref(), Some("tombstone" | "hidden_by_limit"));
        if is_gone {
            return Err(FetchFailure::Skipped(
                name_or_id(&name, file),
                SkipReason::NotFetched,
            ));
        }
    }
    let name = name_or_id(&name, file);
    let skip = |why| FetchFailure::Skipped(name.clone(), why);
    let file_kind = classify_file(&mimetype, &name).ok_or_else(|| skip(SkipReason::Unsupported))?;
    let max_bytes = match file_kind {
        FileKind::Image => limits.image,
        FileKind::Document => limits.document,
    };
    let max_bytes = max_bytes.min(remaining_bytes);
    if size > max_bytes {
        return Err(skip(SkipReason::TooLarge));
    }
    let url = url.ok_or_else(|| skip(SkipReason::NotFetched))?;
    let max_len = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let download = slack.files_download(installation, &url, max_len).await;
    let download = download.map_err(|error| FetchFailure::Slack(name.clone(), error))?;
    // Slack answers 200 with its login page to a token without the files:read scope.
    if download.mimetype == "text/html" && mimetype != "text/html" {
        return Err(skip(SkipReason::NotPermitted));
    }
    if download.bytes.is_empty() {
        return Err(skip(SkipReason::Unreadable));
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

fn name_or_id(name: &str, file: &SharedFile) -> String {
    if is_invisible(name) {
        file.id.to_string()
    } else {
        name.to_owned()
    }
}

fn skip_reason(error: &SlackError) -> SkipReason {
    match error {
        SlackError::TooLarge { .. } => SkipReason::TooLarge,
        SlackError::HttpStatus {
            status: 401 | 403, ..
        } => SkipReason::NotPermitted,
        error if error.is_code("missing_scope") || error.is_code("not_allowed_token_type") => {
            SkipReason::NotPermitted
        }
        _ => SkipReason::NotFetched,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Image,
    Document,
}

/// Returns the kind by media type, else by file extension; `None` if unsupported.
fn classify_file(mimetype: &str, name: &str) -> Option<FileKind> {
    let plain = mimetype.split(';').next().unwrap_or_default();
    let by_type = match plain.trim().to_ascii_lowercase().as_str() {
        "image/png" | "image/x-png" | "image/jpeg" | "image/jpg" | "image/pjpeg" | "image/gif"
        | "image/webp" => Some(FileKind::Image),
        "application/pdf"
        | "application/x-pdf"
        | "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        | "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
        | "application/vnd.openxmlformats-officedocument.presentationml.presentation"
        | "application/json"
        | "application/csv"
        | "application/markdown" => Some(FileKind::Document),
        // Source code and HTML are served as text and can be read as such.
        text if text.starts_with("text/") => Some(FileKind::Document),
        _ => None,
    };
    let extension = || {
        name.rsplit_once('.')
            .map(|(_, end)| end.to_ascii_lowercase())
    };
    by_type.or_else(|| match extension()?.as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" => Some(FileKind::Image),
        "pdf" | "docx" | "xlsx" | "pptx" | "csv" | "txt" | "text" | "log" | "md" | "markdown"
        | "json" => Some(FileKind::Document),
        _ => None,
    })
}
