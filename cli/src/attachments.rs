//! Builds a user message from the text and files of the command line.

use crate::exit::Failure;
use crate::input::Input;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Message, Part, PartKind, Role};
use std::path::{Path, PathBuf};

/// Magic numbers of file types, for files without a known extension.
const MAGIC_NUMBERS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
];

/// File extensions and their media types.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("csv", "text/csv"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
];

/// Builds a user message: the text, then the files. A text of only `-` is read from standard input.
///
/// # Errors
/// A file cannot be read, or the message is empty.
pub(crate) fn user_message(words: &[String], files: &[PathBuf]) -> Result<Message, Failure> {
    let text = match words {
        [only] if only == "-" => {
            let bytes = Input::Standard.read()?;
            String::from_utf8(bytes)
                .map_err(|_| Failure::Misuse("standard input is not UTF-8; send text".to_owned()))?
        }
        words => words.join(" "),
    };
    let mut parts = Vec::new();
    if !text.trim().is_empty() {
        parts.push(Part::text(text));
    }
    for file in files {
        parts.push(attach(file)?);
    }
    Message::new(Role::User, parts)
        .map_err(|_| Failure::Misuse("the message is empty; give a text or an --attach".to_owned()))
}

fn attach(path: &Path) -> Result<Part, Failure> {
    let bytes = Input::File(path.to_owned()).read()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let media_type = media_type(path, &bytes);
    let kind = match media_type.split('/').next() {
        Some("image") => PartKind::Image,
        Some("audio") => PartKind::Audio,
        _ => PartKind::File,
    };
    let file = Part::file(STANDARD.encode(&bytes));
    let part = match (kind, file.content()) {
        (PartKind::File, _) | (_, None) => file,
        (kind, Some(content)) => Part::new(kind)
            .with_content(content.clone())
            .with_encoding(interzone_protocol::vocab::Encoding::Base64),
    };
    Ok(part
        .with_filename(name)
        .with_media_type(media_type)
        .with_size(bytes.len() as u64))
}

/// Returns the media type by extension, else by content.
fn media_type(path: &Path, bytes: &[u8]) -> &'static str {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if let Some((_, media_type)) = MEDIA_TYPES.iter().find(|(known, _)| extension == *known) {
        return media_type;
    }
    let found = MAGIC_NUMBERS
        .iter()
        .find(|(beginning, _)| bytes.starts_with(beginning));
    match found {
        Some((_, media_type)) => media_type,
        None if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}

/// Returns the file extension for a media type.
pub(crate) fn file_extension(media_type: &str) -> Option<&'static str> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let found = MEDIA_TYPES.iter().find(|(_, known)| *known == essence);
    found.map(|(extension, _)| *extension)
}

#[cfg(test)]
mod tests {
    use super::{media_type, user_message};
    use interzone_protocol::vocab::PartKind;
    use std::fs;
    use std::path::Path;

    #[test]
    fn text_and_files_become_message_parts() {
        let folder = tempfile::tempdir().unwrap();
        let (csv, png) = (folder.path().join("a.csv"), folder.path().join("b.PNG"));
        fs::write(&csv, "a,b\n").unwrap();
        fs::write(&png, "x").unwrap();
        let words = ["look".to_owned(), "here".to_owned()];
        let message = user_message(&words, &[csv, png]).unwrap();
        assert_eq!(message.text(), "look here");
        let kinds: Vec<_> = message.parts().iter().map(|part| part.kind()).collect();
        assert_eq!(kinds, [PartKind::Text, PartKind::File, PartKind::Image]);
        assert_eq!(message.parts()[1].media_type(), Some("text/csv"));
        assert_eq!(message.parts()[1].size(), Some(4));
    }

    #[test]
    fn media_type_is_detected_by_content() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n..."[..], "image/png"),
            (b"%PDF-1.7", "application/pdf"),
            (b"plain words", "text/plain"),
            (b"\x00\x01", "application/octet-stream"),
            (b"\xfe\xfe", "application/octet-stream"),
        ] {
            assert_eq!(media_type(Path::new("report"), bytes), expected);
        }
        assert_eq!(media_type(Path::new("a.docx"), b"PK").len(), 71);
    }

    #[test]
    fn empty_message_is_rejected() {
        assert!(user_message(&["  ".to_owned()], &[]).is_err());
    }
}
