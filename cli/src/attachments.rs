//! What is said to an agent: words and files from the command line, as a message.

use crate::exit::Failure;
use crate::input::Input;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Message, Part, PartKind, Role};
use std::path::{Path, PathBuf};

/// How files begin whose kind can be told by that, for those whose name says nothing.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
];

/// Endings of files and what they hold.
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

/// A user's message: the words, then the files. Words that are only `-` are read from standard input.
///
/// # Errors
/// Something cannot be read, or there is nothing to say.
pub(crate) fn message(words: &[String], files: &[PathBuf]) -> Result<Message, Failure> {
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
    Message::new(Role::User, parts).map_err(|_| {
        Failure::Misuse("there is nothing to say; give some words or an --attach".to_owned())
    })
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

/// What a file holds, by its name, or else by how it begins; bytes of no known kind if neither tells.
fn media_type(path: &Path, bytes: &[u8]) -> &'static str {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    if let Some((_, known)) = MEDIA_TYPES.iter().find(|(known, _)| ending == *known) {
        return known;
    }
    let found = BEGINNINGS
        .iter()
        .find(|(beginning, _)| bytes.starts_with(beginning));
    match found {
        Some((_, known)) => known,
        None if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}

/// The ending that a file of this kind has.
pub(crate) fn ending(media_type: &str) -> Option<&'static str> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let known = MEDIA_TYPES.iter().find(|(_, known)| *known == essence);
    known.map(|(ending, _)| *ending)
}

#[cfg(test)]
mod tests {
    use super::{media_type, message};
    use interzone_protocol::vocab::PartKind;
    use std::fs;
    use std::path::Path;

    #[test]
    fn words_and_files_become_parts() {
        let folder = tempfile::tempdir().unwrap();
        let (csv, png) = (folder.path().join("a.csv"), folder.path().join("b.PNG"));
        fs::write(&csv, "a,b\n").unwrap();
        fs::write(&png, "x").unwrap();
        let words = ["look".to_owned(), "here".to_owned()];
        let message = message(&words, &[csv, png]).unwrap();
        assert_eq!(message.text(), "look here");
        let kinds: Vec<_> = message.parts().iter().map(|part| part.kind()).collect();
        assert_eq!(kinds, [PartKind::Text, PartKind::File, PartKind::Image]);
        assert_eq!(message.parts()[1].media_type(), Some("text/csv"));
        assert_eq!(message.parts()[1].size(), Some(4));
    }

    #[test]
    fn a_file_without_an_ending_is_known_by_how_it_begins() {
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
    fn nothing_to_say_is_refused() {
        assert!(message(&["  ".to_owned()], &[]).is_err());
    }
}
