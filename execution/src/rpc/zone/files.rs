//! The files among what an agent made, as they are handed out: by the rules, under safe names, and
//! without a copy of what is large.

use super::convert::artifact_id;
use crate::files::{Language, Refused, safe_name};
use crate::memory::MemoryAccount;
use crate::rpc::content::{INLINE, Large};
use crate::zone::Zone;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_hub::{BlobId, BlobText, HasParts, HubError, Packed};
use interzone_protocol::vocab::{Artifact, Encoding, Message, Part, PartKind};
use interzone_protocol::zone::{ArtifactPart, SharedText, ZoneArtifact};

/// A part that may be a file, and where its content is.
pub(super) struct Candidate<'w> {
    part: &'w Part,
    blob: Option<BlobId>,
    /// By what it is told from others.
    id: String,
    /// What it is called if it does not say.
    usual: &'w str,
}

/// The files of an artifact. Its words count as one only `with_words`.
pub(super) fn of_artifact(packed: &Packed<Artifact>, with_words: bool) -> Vec<Candidate<'_>> {
    let artifact = packed.without_large();
    let id = artifact.artifact_id().as_str();
    candidates(packed, artifact.name(), id, with_words)
}

/// The files of a message; its words are none.
pub(super) fn of_message(packed: &Packed<Message>, place: usize) -> Vec<Candidate<'_>> {
    candidates(packed, "file", &format!("message {place}"), false)
}

fn candidates<'w, T: HasParts>(
    packed: &'w Packed<T>,
    usual: &'w str,
    id: &str,
    with_words: bool,
) -> Vec<Candidate<'w>> {
    let parts = packed.without_large().parts().iter().enumerate();
    parts
        .filter(|(_, part)| with_words || part.kind() != PartKind::Text)
        .map(|(index, part)| Candidate {
            part,
            blob: packed.blob_of(index),
            id: match index {
                0 => id.to_owned(),
                more => format!("{id} {more}"),
            },
            usual,
        })
        .collect()
}

/// The files of one reply while they are collected.
#[derive(Default)]
pub(super) struct Handed {
    pub(super) files: Vec<ZoneArtifact>,
    pub(super) large: Vec<Large>,
    /// What the user is told of those that are left out.
    pub(super) left_out: Vec<String>,
}

impl Handed {
    /// Hands a file out, or says why not.
    pub(super) async fn add(
        &mut self,
        zone: &Zone,
        task: &str,
        candidate: &Candidate<'_>,
        language: Language,
        memory: &MemoryAccount,
    ) -> Result<(), HubError> {
        let kind = media_type(candidate.part);
        let name = candidate.part.filename().unwrap_or(candidate.usual);
        let name = safe_name(name, kind);
        match self.content(zone, candidate, kind, memory).await? {
            Ok(content) => self.files.push(ZoneArtifact {
                artifact_id: artifact_id(task, &candidate.id),
                name: ZoneArtifact::FILE.to_owned(),
                parts: vec![ArtifactPart::File {
                    content_base64: content,
                    file_name: name,
                    mime_type: kind.to_owned(),
                }],
            }),
            Err(Some(refused)) => self.left_out.push(refused.sentence(&name, language)),
            Err(None) => self.left_out.push(unreadable(&name, language)),
        }
        Ok(())
    }

    /// A file's content in base64, or the mark that stands for it.
    async fn content(
        &mut self,
        zone: &Zone,
        candidate: &Candidate<'_>,
        kind: &str,
        memory: &MemoryAccount,
    ) -> Result<Result<SharedText, Option<Refused>>, HubError> {
        let rules = &zone.files;
        // What can be refused before the file is read is.
        let early = rules
            .check_count(self.files.len() + 1)
            .and_then(|()| rules.check_type(kind))
            .and_then(|()| rules.check_size(candidate.part.size().unwrap_or(0)));
        if let Err(refused) = early {
            return Ok(Err(Some(refused)));
        }
        let Some((text, trim)) = self.base64(zone, candidate, memory).await? else {
            return Ok(Err(None));
        };
        let inside = text.get(trim..text.len().saturating_sub(trim));
        let Some(size) = inside.and_then(decoded_size) else {
            return Ok(Err(None));
        };
        if let Err(refused) = rules.check_size(size) {
            return Ok(Err(Some(refused)));
        }
        if let Some(small) = inside.filter(|inside| inside.len() <= INLINE) {
            return Ok(Ok(SharedText::from(small)));
        }
        let large = Large::new(text, trim);
        let mark = SharedText::from(large.mark());
        self.large.push(large);
        Ok(Ok(mark))
    }

    /// A file's base64, and how many bytes at either end do not belong to it.
    async fn base64(
        &self,
        zone: &Zone,
        candidate: &Candidate<'_>,
        memory: &MemoryAccount,
    ) -> Result<Option<(BlobText, usize)>, HubError> {
        let part = candidate.part;
        let is_text =
            part.kind() == PartKind::Text || matches!(part.encoding(), Some(Encoding::Utf8));
        let json: BlobText = match candidate.blob {
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
    let usual = match part.kind() {
        PartKind::Text => "text/plain",
        PartKind::Data => "application/json",
        PartKind::File | PartKind::Image | PartKind::Audio => "application/octet-stream",
    };
    part.media_type().unwrap_or(usual)
}

/// How many bytes base64 stands for; nothing if it is not base64.
fn decoded_size(text: &str) -> Option<u64> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let body = text.get(..text.len().checked_sub(padding)?)?;
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let whole = text.len().is_multiple_of(4) && padding <= 2;
    if !whole || !body.bytes().all(good) {
        return None;
    }
    u64::try_from(body.len().checked_mul(3)? / 4).ok()
}

fn unreadable(name: &str, language: Language) -> String {
    match language {
        Language::English => {
            format!("The file \"{name}\" was left out: its content is not there.")
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
    fn the_size_is_that_of_the_bytes() {
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
