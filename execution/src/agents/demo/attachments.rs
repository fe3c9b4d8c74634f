//! What the demo agent says about what was attached: a name, a type, a size, and a first line.
//!
//! Contents are looked at, never run or fetched.

use super::shortened;
use crate::files::{FileOwner, FileReader, InputRules, Kind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use interzone_protocol::vocab::{Encoding, Message, Part, PartKind};
use std::borrow::Cow;
use std::fmt::Write;

/// How much of a file is looked at for its first line, in characters of base64.
const LOOK: usize = 2_048;

/// How much of a first line is quoted.
const QUOTE: usize = 80;

/// How documents are read, and for whom.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) reader: &'a FileReader,
    pub(super) owner: &'a FileOwner,
    pub(super) rules: &'a InputRules,
}

fn is_attachment(part: &&Part) -> bool {
    part.kind() != PartKind::Text
}

pub(super) fn any(message: &Message) -> bool {
    message.parts().iter().any(|part| is_attachment(&part))
}

/// A line for each attachment.
pub(super) async fn list(message: &Message, reading: Option<Reading<'_>>) -> String {
    let mut lines = Vec::new();
    for part in message.parts().iter().filter(is_attachment) {
        lines.push(describe(part, reading).await);
    }
    lines.join("\n")
}

async fn describe(part: &Part, reading: Option<Reading<'_>>) -> String {
    let (what, usual) = match part.kind() {
        PartKind::Text => ("text", "text/plain"),
        PartKind::Data => ("data", "application/json"),
        PartKind::File => ("file", "application/octet-stream"),
        PartKind::Image => ("image", "image/*"),
        PartKind::Audio => ("audio", "audio/*"),
    };
    let name = part.filename().map_or(Cow::Borrowed(what), |name| {
        Cow::Owned(format!("{what} \"{}\"", shortened(name, QUOTE)))
    });
    let media_type = part.media_type().unwrap_or(usual);
    let size = match size(part) {
        Some(1) => "1 byte".to_owned(),
        Some(size) => format!("{size} bytes"),
        None => "size unknown".to_owned(),
    };
    let mut line = format!("- {name} ({}, {size})", shortened(media_type, QUOTE));
    let first = match is_text(media_type) {
        true => first_line(part),
        false => None,
    };
    let first = match first {
        Some(first) => Some(first),
        None => read(part, media_type, reading).await,
    };
    if let Some(first) = first {
        // Writing to a string cannot fail.
        let _ = write!(line, ": \"{first}\"");
    }
    line
}

/// The size in bytes: what is there counts more than what was declared.
fn size(part: &Part) -> Option<u64> {
    let inside = match (part.kind(), part.encoding()) {
        (PartKind::Data, _) => part.content().map(|content| content.as_str().len()),
        (_, Some(Encoding::Utf8)) => part.as_text().map(|text| text.len()),
        (_, Some(Encoding::Binary)) => None,
        (_, Some(Encoding::Base64) | None) => part
            .as_text()
            .map(|text| text.trim_end_matches('=').len().saturating_mul(3) / 4),
    };
    inside
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
        return part.content().and_then(|data| quoted(data.as_str()));
    }
    let content = part.as_text()?;
    if part.encoding() == Some(Encoding::Utf8) {
        return quoted(&content);
    }
    let content = content.trim_end_matches('=');
    let beginning = content.get(..LOOK).unwrap_or(content);
    let bytes = STANDARD_NO_PAD.decode(beginning).ok()?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // What was looked at may end within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    quoted(text)
}

/// The first line of a document, and of a text that is not in UTF-8.
async fn read(part: &Part, media_type: &str, reading: Option<Reading<'_>>) -> Option<String> {
    let Reading {
        reader,
        owner,
        rules,
    } = reading?;
    let kind = Kind::from_media_type(media_type).filter(|kind| !kind.is_image())?;
    if part.encoding() != Some(Encoding::Base64) {
        return None;
    }
    let bytes = STANDARD.decode(part.as_text()?.as_bytes()).ok()?;
    let text = reader.text(owner, kind, bytes.into(), rules).await.ok()?;
    // The titles of sheets and slides are not theirs.
    let title = |line: &&str| line.starts_with('[') && line.ends_with(']');
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && (!kind.is_office() || !title(line)))?;
    quoted(line)
}

fn quoted(text: &str) -> Option<String> {
    let line = text.trim_start_matches('\u{feff}').lines().next()?.trim();
    (!line.is_empty()).then(|| shortened(line, QUOTE))
}
