//! Files of a reply: checked against the rules, with safe names, and without copies of large content.

use super::convert::artifact_id;
use crate::files::{Language, OutputRefused, safe_name};
use crate::memory::MemoryAccount;
use crate::rpc::body::{MAX_INLINE_BYTES, SplicedText};
use crate::state::ExecutionState;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_hub::{BlobContent, BlobId, HasParts, HubError, Offloaded};
use interzone_protocol::vocab::{Artifact, Encoding, Message, Part, PartKind};
use interzone_protocol::zone::{ArtifactPart, SharedStr, ZoneArtifact};

/// A part that may be a file, with its blob.
pub(super) struct FileCandidate<'w> {
    part: &'w Part,
    blob: Option<BlobId>,
    /// Distinguishes it from other files of the task.
    id: String,
    /// Name if the part has none.
    default_name: &'w str,
}

/// Returns the files of an artifact. Text parts count as files only `with_words`.
pub(super) fn artifact_files(
    offloaded: &Offloaded<Artifact>,
    include_text: bool,
) -> Vec<FileCandidate<'_>> {
    let artifact = offloaded.inline();
    let id = artifact.artifact_id().as_str();
    candidates(offloaded, artifact.name(), id, include_text)
}

/// Returns the files of a message, without text parts.
pub(super) fn message_files(
    offloaded: &Offloaded<Message>,
    index: usize,
) -> Vec<FileCandidate<'_>> {
    candidates(offloaded, "file", &format!("message {index}"), false)
}

fn candidates<'w, T: HasParts>(
    offloaded: &'w Offloaded<T>,
    default_name: &'w str,
    id: &str,
    include_text: bool,
) -> Vec<FileCandidate<'w>> {
    let parts = offloaded.inline().parts().iter().enumerate();
    parts
        .filter(|(_, part)| include_text || part.kind() != PartKind::Text)
        .map(|(index, part)| FileCandidate {
            part,
            blob: offloaded.blob_for_part(index),
            id: match index {
                0 => id.to_owned(),
                more => format!("{id} {more}"),
            },
            default_name,
        })
        .collect()
}

/// Collected files of one reply.
#[derive(Default)]
pub(super) struct ReplyFiles {
    pub(super) files: Vec<ZoneArtifact>,
    pub(super) spliced: Vec<SplicedText>,
    /// User messages about skipped files.
    pub(super) skipped: Vec<String>,
}

impl ReplyFiles {
    /// Adds a file, or the message why it is skipped.
    pub(super) async fn add(
        &mut self,
        zone: &ExecutionState,
        task: &str,
        candidate: &FileCandidate<'_>,
        language: Language,
        memory: &MemoryAccount,
    ) -> Result<(), HubError> {
        let media_type = media_type(candidate.part);
        let name = candidate.part.filename().unwrap_or(candidate.default_name);
        let name = safe_name(name, media_type);
        match self
            .load_content(zone, candidate, media_type, memory)
            .await?
        {
            Ok(content) => self.files.push(ZoneArtifact {
                artifact_id: artifact_id(task, &candidate.id),
                name: ZoneArtifact::FILE_NAME.to_owned(),
                parts: vec![ArtifactPart::File {
                    content_base64: content,
                    file_name: name,
                    mime_type: media_type.to_owned(),
                }],
            }),
            Err(Some(refusal)) => self.skipped.push(refusal.user_message(&name, language)),
            Err(None) => self.skipped.push(missing_content_message(&name, language)),
        }
        Ok(())
    }

    /// Returns a file's content in base64, or the placeholder for it.
    async fn load_content(
        &mut self,
        zone: &ExecutionState,
        candidate: &FileCandidate<'_>,
        media_type: &str,
        memory: &MemoryAccount,
    ) -> Result<Result<SharedStr, Option<OutputRefused>>, HubError> {
        let rules = &zone.files;
        // Checks that need no content come first.
        let checked = rules
            .check_count(self.files.len() + 1)
            .and_then(|()| rules.check_type(media_type))
            .and_then(|()| rules.check_size(candidate.part.size().unwrap_or(0)));
        if let Err(refusal) = checked {
            return Ok(Err(Some(refusal)));
        }
        let Some((text, trim)) = self.load_base64(zone, candidate, memory).await? else {
            return Ok(Err(None));
        };
        let base64 = text.get(trim..text.len().saturating_sub(trim));
        let Some(size) = base64.and_then(decoded_size) else {
            return Ok(Err(None));
        };
        if let Err(refusal) = rules.check_size(size) {
            return Ok(Err(Some(refusal)));
        }
        if let Some(small) = base64.filter(|base64| base64.len() <= MAX_INLINE_BYTES) {
            return Ok(Ok(SharedStr::from(small)));
        }
        let spliced = SplicedText::new(text, trim);
        let placeholder = SharedStr::from(spliced.placeholder());
        self.spliced.push(spliced);
        Ok(Ok(placeholder))
    }

    /// Loads a file's base64, and the number of bytes at either end that are not part of it.
    async fn load_base64(
        &self,
        zone: &ExecutionState,
        candidate: &FileCandidate<'_>,
        memory: &MemoryAccount,
    ) -> Result<Option<(BlobContent, usize)>, HubError> {
        let part = candidate.part;
        let is_text =
            part.kind() == PartKind::Text || matches!(part.encoding(), Some(Encoding::Utf8));
        let json: BlobContent = match candidate.blob {
            None => match part.content() {
                Some(content) => content.as_str().into(),
                None => return Ok(None),
            },
            Some(id) => match zone.hub.blob_within(id, Some(memory)).await? {
                Some(blob) => blob,
                None => return Ok(None),
            },
        };
        if part.kind() == PartKind::Data {
            return Ok(Some((STANDARD.encode(&*json).into(), 0)));
        }
        if !is_text && json.len() >= 2 && json.starts_with('"') && !json.contains('\\') {
            return Ok(Some((json, 1)));
        }
        let Ok(text) = serde_json::from_str::<String>(&json) else {
            return Ok(None);
        };
        Ok(Some(if is_text {
            (STANDARD.encode(text).into(), 0)
        } else {
            (text.into(), 0)
        }))
    }
}

fn media_type(part: &Part) -> &str {
    let default = match part.kind() {
        PartKind::Text => "text/plain",
        PartKind::Data => "application/json",
        PartKind::File | PartKind::Image | PartKind::Audio => "application/octet-stream",
    };
    part.media_type().unwrap_or(default)
}

/// Returns the decoded size of base64; `None` if it is invalid.
fn decoded_size(text: &str) -> Option<u64> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let body = text.get(..text.len().checked_sub(padding)?)?;
    let is_base64_char = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let is_padded = text.len().is_multiple_of(4) && padding <= 2;
    if !is_padded || !body.bytes().all(is_base64_char) {
        return None;
    }
    u64::try_from(body.len().checked_mul(3)? / 4).ok()
}

fn missing_content_message(name: &str, language: Language) -> String {
    match language {
        Language::English => {
            format!("The file \"{name}\" was left out: its content is missing.")
        }
        Language::Japanese => {
            format!("ファイル「{name}」は内容を取得できないため、添付していません。")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::decoded_size;

    #[test]
    fn decoded_size_matches_base64_content() {
        for (text, size) in [
            ("", Some(0)),
            ("aGk=", Some(2)),
            ("aA==", Some(1)),
            ("aGkh", Some(3)),
            ("+/+/", Some(3)),
            ("aGk", None),
            ("a===", None),
            ("====", None),
            ("aG k", None),
            ("aGk\"", None),
            ("a=Gk", None),
            ("äöüß", None),
        ] {
            assert_eq!(decoded_size(text), size, "{text}");
        }
    }
}
