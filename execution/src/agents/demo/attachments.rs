//! Describes attachments: name, type, size and first line.
//!
//! Contents are only read, never executed or fetched.

use super::truncate;
use crate::files::{FileKind, FileOwner, FileReader, InputRules};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use interzone_protocol::vocab::{Encoding, Message, Part, PartKind};
use std::borrow::Cow;
use std::fmt::Write;

/// Number of base64 characters that are decoded to find the first line.
const MAX_DECODED_CHARS: usize = 2_048;

/// Maximum length of a quoted text, in characters.
const MAX_QUOTE_CHARS: usize = 80;

/// File reader, with the owner and the limits that apply.
#[derive(Clone, Copy)]
pub(super) struct DemoReadContext<'a> {
    pub(super) reader: &'a FileReader,
    pub(super) owner: &'a FileOwner,
    pub(super) rules: &'a InputRules,
}

fn is_attachment(part: &&Part) -> bool {
    part.kind() != PartKind::Text
}

pub(super) fn has_attachments(message: &Message) -> bool {
    message.parts().iter().any(|part| is_attachment(&part))
}

/// Lists the attachments, one per line.
pub(super) async fn list(message: &Message, context: Option<DemoReadContext<'_>>) -> String {
    let mut lines = Vec::new();
    for part in message.parts().iter().filter(is_attachment) {
        lines.push(describe(part, context).await);
    }
    lines.join("\n")
}

async fn describe(part: &Part, context: Option<DemoReadContext<'_>>) -> String {
    let (label, default_type) = match part.kind() {
        PartKind::Text => ("text", "text/plain"),
        PartKind::Data => ("data", "application/json"),
        PartKind::File => ("file", "application/octet-stream"),
        PartKind::Image => ("image", "image/*"),
        PartKind::Audio => ("audio", "audio/*"),
    };
    let name = part.filename().map_or(Cow::Borrowed(label), |name| {
        Cow::Owned(format!("{label} \"{}\"", truncate(name, MAX_QUOTE_CHARS)))
    });
    let media_type = part.media_type().unwrap_or(default_type);
    let size = match size(part) {
        Some(1) => "1 byte".to_owned(),
        Some(size) => format!("{size} bytes"),
        None => "size unknown".to_owned(),
    };
    let mut line = format!(
        "- {name} ({}, {size})",
        truncate(media_type, MAX_QUOTE_CHARS)
    );
    let first = match is_text(media_type) {
        true => first_line(part),
        false => None,
    };
    let first = match first {
        Some(first) => Some(first),
        None => read_first_line(part, media_type, context).await,
    };
    if let Some(first) = first {
        // Writing to a string cannot fail.
        let _ = write!(line, ": \"{first}\"");
    }
    line
}

/// Returns the size in bytes; the actual size takes precedence over the declared one.
fn size(part: &Part) -> Option<u64> {
    let actual = match (part.kind(), part.encoding()) {
        (PartKind::Data, _) => part.content().map(|content| content.as_str().len()),
        (_, Some(Encoding::Utf8)) => part.as_text().map(|text| text.len()),
        (_, Some(Encoding::Binary)) => None,
        (_, Some(Encoding::Base64) | None) => part
            .as_text()
            .map(|text| text.trim_end_matches('=').len().saturating_mul(3) / 4),
    };
    actual
        .and_then(|size| u64::try_from(size).ok())
        .or(part.size())
}

fn is_text(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    let plain = media_type.split(';').next().unwrap_or_default().trim();
    plain.starts_with("text/")
        || plain.ends_with("+json")
        || plain.ends_with("+xml")
        || matches!(plain, "application/json" | "application/xml")
}

fn first_line(part: &Part) -> Option<String> {
    if part.kind() == PartKind::Data {
        return part
            .content()
            .and_then(|data| quote_first_line(data.as_str()));
    }
    let content = part.as_text()?;
    if part.encoding() == Some(Encoding::Utf8) {
        return quote_first_line(&content);
    }
    let content = content.trim_end_matches('=');
    let prefix = content.get(..MAX_DECODED_CHARS).unwrap_or(content);
    let bytes = STANDARD_NO_PAD.decode(prefix).ok()?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The decoded prefix may end within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    quote_first_line(text)
}

/// Returns the first line of a document, or of a text that is not UTF-8.
async fn read_first_line(
    part: &Part,
    media_type: &str,
    context: Option<DemoReadContext<'_>>,
) -> Option<String> {
    let DemoReadContext {
        reader,
        owner,
        rules,
    } = context?;
    let kind = FileKind::from_media_type(media_type).filter(|kind| !kind.is_image())?;
    if part.encoding() != Some(Encoding::Base64) {
        return None;
    }
    let bytes = STANDARD.decode(part.as_text()?.as_bytes()).ok()?;
    let text = reader.text(owner, kind, bytes.into(), rules).await.ok()?;
    // Titles of sheets and slides are added by the text extraction.
    let is_title = |line: &&str| line.starts_with('[') && line.ends_with(']');
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && (!kind.is_office() || !is_title(line)))?;
    quote_first_line(line)
}

fn quote_first_line(text: &str) -> Option<String> {
    let line = text.trim_start_matches('\u{feff}').lines().next()?.trim();
    (!line.is_empty()).then(|| truncate(line, MAX_QUOTE_CHARS))
}
