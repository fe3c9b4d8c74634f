//! Detection of file kinds from the declared type, the name and the bytes.

use super::extract::{OfficePackage, decode, is_encrypted_pdf};
use super::{FileProblem, InputRules, images};
use serde::{Deserialize, Serialize};

/// Supported kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileKind {
    /// PNG image.
    Png,
    /// JPEG image.
    Jpeg,
    /// GIF image, possibly animated.
    Gif,
    /// WebP image.
    WebP,
    /// PDF document.
    Pdf,
    /// Word document.
    Docx,
    /// Excel workbook.
    Xlsx,
    /// PowerPoint slides.
    Pptx,
    /// CSV table.
    Csv,
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
    /// JSON.
    Json,
}

impl FileKind {
    /// All kinds.
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

    /// Returns the media type.
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

    /// Returns the file name extension, without the dot.
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

    /// Returns true if it is an image.
    pub const fn is_image(self) -> bool {
        matches!(self, Self::Png | Self::Jpeg | Self::Gif | Self::WebP)
    }

    /// Returns true if its bytes are text.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Text | Self::Markdown | Self::Json)
    }

    /// Returns true if it is a zip archive of XML.
    pub const fn is_office(self) -> bool {
        matches!(self, Self::Docx | Self::Xlsx | Self::Pptx)
    }

    /// Returns the kind for a media type. Case and parameters are ignored.
    ///
    /// ```
    /// use interzone_execution::files::FileKind;
    ///
    /// assert_eq!(FileKind::from_media_type("IMAGE/PNG; q=1"), Some(FileKind::Png));
    /// assert_eq!(FileKind::from_media_type("application/octet-stream"), None);
    /// ```
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type_essence(media_type);
        let exact = Self::ALL
            .into_iter()
            .find(|kind| kind.media_type() == essence);
        exact.or(match essence.as_str() {
            "image/jpg" | "image/pjpeg" => Some(Self::Jpeg),
            "image/x-png" => Some(Self::Png),
            "application/x-pdf" => Some(Self::Pdf),
            "application/csv" | "text/x-csv" | "text/comma-separated-values" => Some(Self::Csv),
            "text/x-markdown" | "application/markdown" => Some(Self::Markdown),
            "text/json" => Some(Self::Json),
            _ => None,
        })
    }

    /// Returns the kind for a file name extension, without the dot.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        let exact = Self::ALL
            .into_iter()
            .find(|kind| kind.extension() == extension);
        exact.or(match extension.as_str() {
            "jpeg" | "jpe" | "jfif" => Some(Self::Jpeg),
            "markdown" => Some(Self::Markdown),
            "text" | "log" => Some(Self::Text),
            _ => None,
        })
    }

    /// Returns the kind for a file name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_extension(name.rsplit_once('.')?.1)
    }
}

/// Returns a media type without its parameters, in lower case.
pub(super) fn media_type_essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Detects the kind of a file from its bytes and the declared type and name. Rejects files that are too large, do not
/// match their declared type, are encrypted, or would unpack to too much.
///
/// An unspecific type (none, or `application/octet-stream`) leaves it to the bytes and, for text, to the name. It runs
/// in this process, so only the child process that reads files calls it: see [`FileReader`](super::FileReader).
///
/// # Errors
/// The reason why the file is rejected.
pub fn detect_kind(
    bytes: &[u8],
    declared: &str,
    name: &str,
    rules: &InputRules,
) -> Result<FileKind, FileProblem> {
    let expected = declared_kind(declared, name)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > expected.map_or(rules.max_file_bytes(), |kind| rules.max_bytes_for(kind)) {
        return Err(FileProblem::TooLarge);
    }
    if bytes.is_empty() {
        return Err(FileProblem::Empty);
    }
    let detected = detect_from_bytes(bytes, expected, name, rules)?;
    match expected {
        Some(expected) if expected != detected => Err(FileProblem::Mismatch(expected)),
        _ if size > rules.max_bytes_for(detected) => Err(FileProblem::TooLarge),
        _ => Ok(detected),
    }
}

/// Returns the declared kind of a file, if its type is specific.
pub(crate) fn declared_kind(declared: &str, name: &str) -> Result<Option<FileKind>, FileProblem> {
    let essence = media_type_essence(declared);
    let by_name = FileKind::from_name(name);
    match essence.as_str() {
        "" | "application/octet-stream" | "binary/octet-stream" => Ok(None),
        // Windows declares CSV files like this if Excel is installed.
        "application/vnd.ms-excel" if by_name == Some(FileKind::Csv) => Ok(by_name),
        // Plain text is also sent as a generic type.
        "text/plain" if by_name.is_some_and(FileKind::is_text) => Ok(by_name),
        plain => match FileKind::from_media_type(plain) {
            Some(kind) => Ok(Some(kind)),
            None if plain.starts_with("image/") => Err(FileProblem::UnsupportedImage),
            None => Err(FileProblem::UnsupportedFormat),
        },
    }
}

/// Detects the kind of a file from its bytes.
fn detect_from_bytes(
    bytes: &[u8],
    expected: Option<FileKind>,
    name: &str,
    rules: &InputRules,
) -> Result<FileKind, FileProblem> {
    if let Some(image) = images::sniff_format(bytes) {
        images::validate(image, bytes)?;
        return Ok(image);
    }
    if bytes.starts_with(b"%PDF-") {
        return match is_encrypted_pdf(bytes) {
            true => Err(FileProblem::Encrypted),
            false => Ok(FileKind::Pdf),
        };
    }
    // OLE container: a password-protected Office document, or one of the old binary formats.
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        let office = expected.or_else(|| FileKind::from_name(name));
        return Err(match office {
            _ if is_encrypted_package(bytes) => FileProblem::Encrypted,
            Some(kind) if !kind.is_office() => FileProblem::Mismatch(kind),
            _ => FileProblem::OldOffice,
        });
    }
    if bytes.starts_with(b"PK\x03\x04") {
        let mut package = OfficePackage::open(bytes, rules)?;
        let kind = package.kind().ok_or_else(|| {
            expected.map_or(FileProblem::UnsupportedFormat, FileProblem::Mismatch)
        })?;
        if package.has_macros() {
            return Err(FileProblem::Macros);
        }
        package.check_unpacked_size()?;
        return Ok(kind);
    }
    let by_name = expected.or_else(|| FileKind::from_name(name));
    match by_name {
        Some(kind) if !kind.is_text() => Err(FileProblem::Mismatch(kind)),
        Some(_) if is_html(bytes) => Err(FileProblem::UnexpectedWebPage),
        None if is_html(bytes) => Err(FileProblem::WebPage),
        _ if decode(bytes).is_none() => {
            Err(by_name.map_or(FileProblem::UnsupportedFormat, FileProblem::Mismatch))
        }
        Some(kind) => Ok(kind),
        None => Err(FileProblem::UnsupportedFormat),
    }
}

/// Returns true if an OLE container holds a password-protected Office document: its directory then has a stream with
/// a name that nothing else has. Directory entries are aligned to their own length.
fn is_encrypted_package(bytes: &[u8]) -> bool {
    const NAME: &str = "EncryptedPackage";
    let (entries, _) = bytes.as_chunks::<128>();
    entries.iter().any(|entry| {
        let (name, rest) = entry.split_at(64);
        let (units, _) = name.as_chunks::<2>();
        let units = units.iter().map(|pair| u16::from_le_bytes(*pair));
        let wanted = NAME.encode_utf16().chain([0]);
        let is_stream = rest.starts_with(&[34, 0, 2]);
        is_stream && units.take(NAME.len() + 1).eq(wanted)
    })
}

/// Returns true if the bytes are an HTML page.
fn is_html(bytes: &[u8]) -> bool {
    let prefix = bytes.get(..1_024).unwrap_or(bytes);
    let text = String::from_utf8_lossy(prefix).to_ascii_lowercase();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    ["<!doctype html", "<html", "<head", "<body", "<script"]
        .iter()
        .any(|tag| text.starts_with(tag))
}
