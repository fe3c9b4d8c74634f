//! What a file is: what it says, what its name says, and what its bytes say.

use super::{Fault, InputRules};
use interzone_protocol::zone::ErrorWord;

/// The kinds of files that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
/// # Errors
/// Why the file is not taken.
pub fn examine(
    bytes: &[u8],
    declared: &str,
    name: &str,
    rules: &InputRules,
) -> Result<Kind, Fault> {
    let said = Kind::from_media_type(declared).or_else(|| Kind::from_name(name));
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    match said {
        Some(kind) if size > rules.limit(kind) => Err(rules.too_large()),
        Some(kind) => Ok(kind),
        None => Err(Fault::new(
            ErrorWord::UnsupportedFileType,
            "the file's format is not supported",
        )),
    }
}
