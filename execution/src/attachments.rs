//! Attachment loading: downloads, validates and either passes on or skips the attachments of a turn.
//!
//! An agent only sees files whose content matches their type, within the size and type limits; it never sees
//! their source. A download URL is a capability: it is not logged, not sent in messages, and removed after the
//! first attempt to use it. Files are parsed by [`FileReader`], and [`Egress`] blocks internal addresses.

mod download;
mod skipped_notice;
#[cfg(test)]
mod tests;

pub(crate) use skipped_notice::{StreamDetector, append_skipped};

use crate::files::{
    FileError, FileKind, FileOwner, FileReader, InputRules, Language, declared_kind, safe_name,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use interzone_backoff::Backoff;
use interzone_edge::egress::Egress;
use interzone_hub::{FETCH_URL_FIELD, Turn, failure_message};
use interzone_protocol::vocab::{Encoding, Message, Part, PartKind, VerbatimJson};
use interzone_protocol::zone::{ErrorReason, SkippedAttachment};
use tokio::time::{Instant, timeout_at};

/// Field of a part that marks it as an attachment to load.
pub const ATTACHMENT_FIELD: &str = "attachment";

/// Field of a part with the error code of a skipped attachment, so that a retry reports the same.
pub(crate) const REFUSED_FIELD: &str = "refused";

/// Loader of attachments.
#[derive(Clone, Debug)]
pub struct AttachmentLoader {
    egress: Egress,
    reader: FileReader,
    input: InputRules,
    /// Retry delays of downloads.
    backoff: Backoff,
}

/// A turn with its attachments loaded.
pub struct PreparedTurn {
    /// The turn with the loaded attachments.
    pub turn: Turn,
    /// Skipped attachments.
    pub skipped: Vec<SkippedAttachment>,
    /// User message about skipped attachments; empty if there are none.
    pub skipped_sentence: String,
    /// The message to store in place of the original, if it changed.
    pub stored_message: Option<Message>,
}

/// A turn none of whose attachments could be loaded.
pub struct AttachmentFailure {
    /// Failure message of the turn.
    pub failure: Message,
    /// The message to store in place of the original, if it changed.
    pub stored_message: Option<Message>,
}

/// Result of loading one attachment.
struct LoadedAttachment {
    /// The part to store.
    stored: Part,
    /// The part for the agent.
    loaded: Result<Part, FileError>,
}

impl AttachmentLoader {
    /// Creates a loader with these rules.
    pub const fn new(egress: Egress, reader: FileReader, input: InputRules) -> Self {
        Self {
            egress,
            reader,
            input,
            backoff: download::RETRY_BACKOFF,
        }
    }

    /// True if a turn has attachments.
    pub fn has_attachments(turn: &Turn) -> bool {
        let marked = |part: &Part| part.extra().get(ATTACHMENT_FIELD).is_some();
        let mut messages = turn.history.iter().chain([&turn.message]);
        messages.any(|message| message.parts().iter().any(marked))
    }

    /// Maximum memory for the attachments that have to be downloaded; their content is held as base64.
    pub(crate) fn bytes_to_fetch(&self, message: &Message) -> usize {
        let parts = message.parts().iter();
        let missing = parts.filter(|part| {
            part.extra().get(ATTACHMENT_FIELD).is_some()
                && part.content().is_none()
                && fetch_url(part).is_some()
        });
        let largest = self.input.max_file_bytes();
        let limit = |part: &Part| download_limit(part).min(largest);
        let bytes = missing.map(limit).fold(0, u64::saturating_add);
        let bytes = bytes.min(self.input.message_bytes);
        usize::try_from(bytes.div_ceil(3).saturating_mul(4)).unwrap_or(usize::MAX)
    }

    /// Loads the attachments of a turn one after another. Attachments that an earlier attempt skipped are skipped
    /// again without loading them.
    ///
    /// # Errors
    /// There were attachments and none could be loaded; fails with the error code of the first.
    pub async fn prepare(&self, mut turn: Turn) -> Result<PreparedTurn, Box<AttachmentFailure>> {
        for message in &mut turn.history {
            remove_refused(message);
        }
        let language = Language::detect(&turn.message.text());
        let owner = FileOwner::from(&turn.task);
        let (mut loaded_parts, mut stored_parts, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let (mut budget, mut changed, mut loaded) =
            (AttachmentBudget::new(&self.input), false, 0_usize);
        for part in turn.message.parts() {
            if part.extra().get(ATTACHMENT_FIELD).is_none() {
                loaded_parts.push(part.clone());
                stored_parts.push(part.clone());
                continue;
            }
            let attachment = self.load(part, &owner, &mut budget).await;
            changed |= attachment.stored != *part;
            stored_parts.push(attachment.stored);
            match attachment.loaded {
                Ok(part) => {
                    loaded += 1;
                    loaded_parts.push(part);
                }
                Err(error) => errors.push((display_name(part), error)),
            }
        }
        let stored_message = changed.then(|| turn.message.clone().replace_parts(stored_parts));
        let skipped_sentence = skipped_notice::skipped_sentence(&errors, language);
        if let (0, Some((_, first))) = (loaded, errors.first()) {
            let failure_message = failure_message(first.code.name(), skipped_sentence);
            return Err(Box::new(AttachmentFailure {
                failure: failure_message,
                stored_message,
            }));
        }
        turn.message = turn.message.replace_parts(loaded_parts);
        let skipped = errors.into_iter().map(|(name, error)| SkippedAttachment {
            name,
            error_code: error.code.name().to_owned(),
        });
        Ok(PreparedTurn {
            skipped: skipped.collect(),
            turn,
            skipped_sentence,
            stored_message,
        })
    }

    /// Loads one attachment, from the message or by download.
    async fn load(
        &self,
        part: &Part,
        owner: &FileOwner,
        budget: &mut AttachmentBudget<'_>,
    ) -> LoadedAttachment {
        let clean = part.clone().without_extra(FETCH_URL_FIELD);
        if let Some(error) = self.recorded_error(part) {
            return LoadedAttachment {
                stored: clean,
                loaded: Err(error),
            };
        }
        match self.validate(part, owner, budget).await {
            Ok((kind, loaded)) => {
                let name = safe_name(part.filename().unwrap_or_default(), kind.media_type());
                let loaded = loaded
                    .with_filename(name)
                    .with_media_type(kind.media_type());
                // Downloaded content is stored as loaded; inline content as it was sent.
                let stored = match part.content() {
                    Some(_) => clean,
                    None => loaded.clone(),
                };
                LoadedAttachment {
                    stored,
                    loaded: Ok(loaded),
                }
            }
            Err(error) => {
                let stored = match VerbatimJson::from_value(error.code.name()) {
                    Ok(code) => clean.with_extra(REFUSED_FIELD, code),
                    Err(_) => clean,
                };
                LoadedAttachment {
                    stored,
                    loaded: Err(error),
                }
            }
        }
    }

    /// Returns the recorded error if the attachment was skipped before: by an earlier attempt, or because it
    /// exceeded the message size limit on arrival.
    fn recorded_error(&self, part: &Part) -> Option<FileError> {
        let code: String = part.extra().get(REFUSED_FIELD)?.decode().ok()?;
        Some(match ErrorReason::from_name(&code) {
            Some(ErrorReason::FileTooLarge) => self.input.too_large_error(),
            Some(ErrorReason::FileReaderUnavailable) => FileError::reader_unavailable(),
            Some(code) => FileError::new(code, "it was skipped by an earlier attempt"),
            None => FileError::new(
                ErrorReason::AttachmentDownloadFailed,
                "it was skipped by an earlier attempt",
            ),
        })
    }

    async fn validate(
        &self,
        part: &Part,
        owner: &FileOwner,
        budget: &mut AttachmentBudget<'_>,
    ) -> Result<(FileKind, Part), FileError> {
        let declared = part.media_type().unwrap_or_default();
        let name = part.filename().unwrap_or_default();
        // Checks that need no content come first.
        let declared_kind = declared_kind(declared, name)
            .map_err(|problem| problem.into_file_error(&self.input))?;
        budget.check_count(declared_kind)?;
        let limit = declared_kind.map_or(self.input.max_file_bytes(), |kind| {
            self.input.max_bytes_for(kind)
        });
        let limit = limit.min(budget.bytes);
        if part.size().is_some_and(|size| size > limit) {
            return Err(self.input.too_large_error());
        }
        let (bytes, content) = match (inline_content(part)?, fetch_url(part)) {
            (Some(bytes), _) => (bytes, part.content().cloned()),
            (None, Some(url)) => {
                let limit = limit.min(download_limit(part));
                let fetched = timeout_at(
                    budget.download_deadline,
                    download::download(self, &url, limit),
                );
                let bytes = fetched
                    .await
                    .unwrap_or_else(|_| Err(download::download_failed()))?;
                (bytes, None)
            }
            (None, None) => return Err(download::url_not_available()),
        };
        if len_u64(&bytes) > limit {
            return Err(self.input.too_large_error());
        }
        check_declared_size(part, &bytes)?;
        // A document without text is skipped here rather than in the middle of an answer.
        let checked = self
            .reader
            .check(owner, bytes.clone(), (declared, name), &self.input);
        let kind = checked.await?;
        budget.consume(kind, len_u64(&bytes))?;
        let size = len_u64(&bytes);
        let content = match content {
            Some(content) => content,
            None => {
                let encoded = STANDARD.encode(&bytes);
                drop(bytes);
                VerbatimJson::from_text(encoded).map_err(|_| download::download_failed())?
            }
        };
        let part_kind = match kind.is_image() {
            true => PartKind::Image,
            false => PartKind::File,
        };
        let id = part.extra().get(ATTACHMENT_FIELD).cloned();
        let loaded = Part::new(part_kind)
            .with_content(content)
            .with_encoding(Encoding::Base64)
            .with_size(size);
        let loaded = match id {
            Some(id) => loaded.with_extra(ATTACHMENT_FIELD, id),
            None => loaded,
        };
        Ok((kind, loaded))
    }
}

/// Remaining capacity of a message for attachments.
struct AttachmentBudget<'r> {
    rules: &'r InputRules,
    images: usize,
    documents: usize,
    bytes: u64,
    /// Deadline of all downloads.
    download_deadline: Instant,
}

impl<'r> AttachmentBudget<'r> {
    fn new(rules: &'r InputRules) -> Self {
        Self {
            rules,
            images: rules.images,
            documents: rules.documents,
            bytes: rules.message_bytes,
            download_deadline: Instant::now() + download::TOTAL_DOWNLOAD_TIMEOUT,
        }
    }

    fn check_count(&self, kind: Option<FileKind>) -> Result<(), FileError> {
        let remaining = match kind {
            Some(kind) if kind.is_image() => self.images,
            Some(_) => self.documents,
            None => self.images.max(self.documents),
        };
        match remaining {
            0 => Err(FileError::new(
                ErrorReason::FileTooLarge,
                format!(
                    "a message may have {} images and {} documents",
                    self.rules.images, self.rules.documents
                ),
            )),
            _ => Ok(()),
        }
    }

    fn consume(&mut self, kind: FileKind, bytes: u64) -> Result<(), FileError> {
        self.check_count(Some(kind))?;
        self.bytes = self.bytes.saturating_sub(bytes);
        let remaining = match kind.is_image() {
            true => &mut self.images,
            false => &mut self.documents,
        };
        *remaining = remaining.saturating_sub(1);
        Ok(())
    }
}

fn len_u64(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Returns the inline content of a part.
fn inline_content(part: &Part) -> Result<Option<Bytes>, FileError> {
    let Some(content) = part.as_text() else {
        return Ok(None);
    };
    if part.encoding() == Some(Encoding::Utf8) {
        return Ok(Some(Bytes::from(content.into_owned().into_bytes())));
    }
    let bytes = STANDARD.decode(content.as_bytes()).map_err(|_| {
        FileError::new(
            ErrorReason::AttachmentDownloadFailed,
            "the file's content is not valid base64",
        )
    })?;
    Ok(Some(Bytes::from(bytes)))
}

/// Compares the size with the declared one. Less than half is an error, since the file is truncated; any other
/// difference is logged and the actual size counts.
fn check_declared_size(part: &Part, bytes: &Bytes) -> Result<(), FileError> {
    let (actual, declared) = (
        len_u64(bytes),
        part.size().unwrap_or_else(|| len_u64(bytes)),
    );
    if actual.saturating_mul(2) < declared {
        return Err(FileError::new(
            ErrorReason::AttachmentDownloadFailed,
            "the file arrived incomplete: send it again",
        ));
    }
    if actual != declared {
        tracing::info!(
            declared,
            actual,
            "attachment size differs from its declaration"
        );
    }
    Ok(())
}

/// Download limit of a file: twice its declared size plus 64 KiB. Memory is reserved for that much.
fn download_limit(part: &Part) -> u64 {
    const SLACK: u64 = 64 * 1024;
    // A declared size of zero counts as undeclared.
    let declared = part.size().filter(|size| *size > 0);
    declared.map_or(u64::MAX, |size| {
        size.saturating_mul(2).saturating_add(SLACK)
    })
}

fn fetch_url(part: &Part) -> Option<String> {
    part.extra().get(FETCH_URL_FIELD)?.decode().ok()
}

/// Removes skipped attachments from an earlier message.
fn remove_refused(message: &mut Message) {
    let is_loaded = |part: &&Part| part.extra().get(REFUSED_FIELD).is_none();
    let parts: Vec<Part> = message.parts().iter().filter(is_loaded).cloned().collect();
    if parts.len() < message.parts().len() {
        *message = message.clone().replace_parts(parts);
    }
}

/// Returns an attachment's display name.
fn display_name(part: &Part) -> String {
    let declared = part.media_type().unwrap_or_default();
    match part.filename() {
        Some(name) => safe_name(name, declared),
        None => safe_name("attachment", declared),
    }
}
