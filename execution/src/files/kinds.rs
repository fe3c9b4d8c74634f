//! What a file is: what it says, what its name says, and what its bytes say.

use super::extract::{Package, decode, is_encrypted_pdf};
use super::{InputRules, Problem, pictures};
use serde::{Deserialize, Serialize};

/// The kinds of files that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A picture.
    Png,
    /// A picture.
    Jpeg,
    /// A picture, perhaps a moving one.
    Gif,
    /// A picture.
    WebP,
    /// A document.
    Pdf,
    /// A Word document.
    Docx,
    /// An Excel workbook.
    Xlsx,
    /// PowerPoint slides.
    Pptx,
    /// A table as text.
    Csv,
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
    /// JSON.
    Json,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Png,
        Self::Jpeg,
        Self::Gif,
        Self::WebP,
        Self::Pdf,
        Self::Docx,
        Self::Xlsx,
        Self::Pptx,
        Self::Csv,
        Self::Text,
        Self::Markdown,
        Self::Json,
    ];

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
            Self::Pdf => "application/pdf",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Pptx => {
                "application/vnd.openxmlformats-officedocument.presentationml.presentation"
            }
            Self::Csv => "text/csv",
            Self::Text => "text/plain",
            Self::Markdown => "text/markdown",
            Self::Json => "application/json",
        }
    }

    /// What the names of such files end with, after the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::WebP => "webp",
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Xlsx => "xlsx",
            Self::Pptx => "pptx",
            Self::Csv => "csv",
            Self::Text => "txt",
            Self::Markdown => "md",
            Self::Json => "json",
        }
    }

    /// Whether it is a picture.
    pub const fn is_image(self) -> bool {
        matches!(self, Self::Png | Self::Jpeg | Self::Gif | Self::WebP)
    }

    /// Whether its bytes are text.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Text | Self::Markdown | Self::Json)
    }

    /// Whether it is a zip archive of XML.
    pub const fn is_office(self) -> bool {
        matches!(self, Self::Docx | Self::Xlsx | Self::Pptx)
    }

    /// The kind that a media type means. Case and parameters do not matter.
    ///
    /// ```
    /// use interzone_execution::files::Kind;
    ///
    /// assert_eq!(Kind::from_media_type("IMAGE/PNG; q=1"), Some(Kind::Png));
    /// assert_eq!(Kind::from_media_type("application/octet-stream"), None);
    /// ```
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        let asked = plain(media_type);
        let known = Self::ALL
            .into_iter()
            .find(|kind| kind.media_type() == asked);
        known.or(match asked.as_str() {
            "image/jpg" | "image/pjpeg" => Some(Self::Jpeg),
            "image/x-png" => Some(Self::Png),
            "application/x-pdf" => Some(Self::Pdf),
            "application/csv" | "text/x-csv" | "text/comma-separated-values" => Some(Self::Csv),
            "text/x-markdown" | "application/markdown" => Some(Self::Markdown),
            "text/json" => Some(Self::Json),
            _ => None,
        })
    }

    /// The kind that the end of a name means, without the dot.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        let known = Self::ALL
            .into_iter()
            .find(|kind| kind.extension() == extension);
        known.or(match extension.as_str() {
            "jpeg" | "jpe" | "jfif" => Some(Self::Jpeg),
            "markdown" => Some(Self::Markdown),
            "text" | "log" => Some(Self::Text),
            _ => None,
        })
    }

    /// The kind that a file's name means.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_extension(name.rsplit_once('.')?.1)
    }
}

/// A media type without its parameters, in small letters.
pub(super) fn plain(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Finds out what a file is, from its bytes and what is said about it, and refuses what is too large,
/// lies about its type, is locked, or would unpack to too much.
///
/// A type that says nothing (none, or `application/octet-stream`) leaves it to the bytes and, for text,
/// to the name. It runs in this process, so only the child process that reads files calls it: see
/// [`FileReader`](super::FileReader).
///
/// # Errors
/// Why the file is not taken.
pub fn examine(
    bytes: &[u8],
    declared: &str,
    name: &str,
    rules: &InputRules,
) -> Result<Kind, Problem> {
    let said = said(declared, name)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > said.map_or(rules.largest(), |kind| rules.limit(kind)) {
        return Err(Problem::TooLarge);
    }
    if bytes.is_empty() {
        return Err(Problem::Empty);
    }
    let found = found(bytes, said, name, rules)?;
    match said {
        Some(said) if said != found => Err(Problem::Mismatch(said)),
        _ if size > rules.limit(found) => Err(Problem::TooLarge),
        _ => Ok(found),
    }
}

/// What a file says it is, if it says anything.
pub(crate) fn said(declared: &str, name: &str) -> Result<Option<Kind>, Problem> {
    let plain = plain(declared);
    let by_name = Kind::from_name(name);
    match plain.as_str() {
        "" | "application/octet-stream" | "binary/octet-stream" => Ok(None),
        // What Windows calls tables in text, wherever Excel is installed.
        "application/vnd.ms-excel" if by_name == Some(Kind::Csv) => Ok(by_name),
        // Plain text is also what those send who know no better.
        "text/plain" if by_name.is_some_and(Kind::is_text) => Ok(by_name),
        plain => match Kind::from_media_type(plain) {
            Some(kind) => Ok(Some(kind)),
            None if plain.starts_with("image/") => Err(Problem::UnsupportedImage),
            None => Err(Problem::UnsupportedFormat),
        },
    }
}

/// What a file is by its bytes.
fn found(
    bytes: &[u8],
    said: Option<Kind>,
    name: &str,
    rules: &InputRules,
) -> Result<Kind, Problem> {
    if let Some(image) = pictures::begins_as(bytes) {
        pictures::check(image, bytes)?;
        return Ok(image);
    }
    if bytes.starts_with(b"%PDF-") {
        return match is_encrypted_pdf(bytes) {
            true => Err(Problem::Encrypted),
            false => Ok(Kind::Pdf),
        };
    }
    // What Office makes of a document with a password, and what it made long ago.
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        let office = said.or_else(|| Kind::from_name(name));
        return Err(match office {
            _ if holds_package(bytes) => Problem::Encrypted,
            Some(kind) if !kind.is_office() => Problem::Mismatch(kind),
            _ => Problem::OldOffice,
        });
    }
    if bytes.starts_with(b"PK\x03\x04") {
        let mut package = Package::open(bytes, rules)?;
        let kind = package
            .kind()
            .ok_or_else(|| said.map_or(Problem::UnsupportedFormat, Problem::Mismatch))?;
        if package.has_macros() {
            return Err(Problem::Macros);
        }
        package.measure()?;
        return Ok(kind);
    }
    let by_name = said.or_else(|| Kind::from_name(name));
    match by_name {
        Some(kind) if !kind.is_text() => Err(Problem::Mismatch(kind)),
        Some(_) if is_html(bytes) => Err(Problem::UnexpectedWebPage),
        None if is_html(bytes) => Err(Problem::WebPage),
        _ if decode(bytes).is_none() => {
            Err(by_name.map_or(Problem::UnsupportedFormat, Problem::Mismatch))
        }
        Some(kind) => Ok(kind),
        None => Err(Problem::UnsupportedFormat),
    }
}

/// Whether an old container holds a document that is locked with a password: then its folder has a stream
/// of a name that nothing else has. The entries of a folder stand at multiples of their own length.
fn holds_package(bytes: &[u8]) -> bool {
    const NAME: &str = "EncryptedPackage";
    let (entries, _) = bytes.as_chunks::<128>();
    entries.iter().any(|entry| {
        let (name, rest) = entry.split_at(64);
        let (letters, _) = name.as_chunks::<2>();
        let letters = letters.iter().map(|pair| u16::from_le_bytes(*pair));
        let wanted = NAME.encode_utf16().chain([0]);
        let is_stream = rest.starts_with(&[34, 0, 2]);
        is_stream && letters.take(NAME.len() + 1).eq(wanted)
    })
}

/// Whether the bytes are a web page.
fn is_html(bytes: &[u8]) -> bool {
    let beginning = bytes.get(..1_024).unwrap_or(bytes);
    let text = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    ["<!doctype html", "<html", "<head", "<body", "<script"]
        .iter()
        .any(|tag| text.starts_with(tag))
}
