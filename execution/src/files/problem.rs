//! Reasons why a file is rejected, as a closed set.
//!
//! The process that reads a file answers with one of these and never with text of its own: the file may control that
//! process, and the text goes to users and to models.

use super::{FileError, FileKind, InputRules};
use interzone_protocol::zone::ErrorReason;
use serde::{Deserialize, Serialize};

/// Reason why a file is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileProblem {
    /// No bytes.
    Empty,
    /// More bytes than allowed for its kind.
    TooLarge,
    /// Damaged content.
    Damaged,
    /// Document without text.
    NoText,
    /// Unpacked content above the limit.
    Bomb,
    /// Encrypted document.
    Encrypted,
    /// Office document with macros.
    Macros,
    /// Office document of the binary format.
    OldOffice,
    /// Web page without a declared format.
    WebPage,
    /// Web page that was declared as another format.
    UnexpectedWebPage,
    /// Unsupported format.
    UnsupportedFormat,
    /// Unsupported image format.
    UnsupportedImage,
    /// Bytes of another kind than declared.
    Mismatch(FileKind),
}

impl FileProblem {
    /// Returns the error code.
    pub const fn code(self) -> ErrorReason {
        match self {
            Self::Empty | Self::Damaged | Self::NoText => ErrorReason::ExtractionFailed,
            Self::TooLarge => ErrorReason::FileTooLarge,
            Self::Bomb => ErrorReason::FileBomb,
            Self::Encrypted => ErrorReason::FileEncrypted,
            Self::UnexpectedWebPage => ErrorReason::UnsupportedType,
            Self::UnsupportedImage => ErrorReason::UnsupportedImageType,
            Self::Mismatch(kind) if kind.is_image() => ErrorReason::UnsupportedImageType,
            Self::Macros
            | Self::OldOffice
            | Self::WebPage
            | Self::UnsupportedFormat
            | Self::Mismatch(_) => ErrorReason::UnsupportedFileType,
        }
    }

    /// Converts to an error with a text for users.
    pub fn into_file_error(self, rules: &InputRules) -> FileError {
        let text = match self {
            Self::TooLarge => return rules.too_large_error(),
            Self::Mismatch(kind) => {
                let name = kind.extension().to_ascii_uppercase();
                let text = format!("the file was declared as {name}, but its content is not");
                return FileError::new(self.code(), text);
            }
            Self::Empty => "the file is empty",
            Self::Damaged => "the file cannot be read: it may be damaged",
            Self::NoText => "there is no text in the file: it may be scanned or empty",
            Self::Bomb => "the file unpacks to more than is allowed",
            Self::Encrypted => "the file is password-protected: send it without a password",
            Self::Macros => "files with macros are not supported",
            Self::OldOffice => {
                "old Office formats are not supported: save it as DOCX, XLSX or PPTX"
            }
            Self::WebPage | Self::UnexpectedWebPage => {
                "the file is a web page, perhaps an error or sign-in page shown instead of the file"
            }
            Self::UnsupportedFormat => {
                "the format is not supported: send PDF, DOCX, XLSX, PPTX, CSV, TXT, MD, JSON, PNG, JPEG, GIF or WebP"
            }
            Self::UnsupportedImage => "images must be PNG, JPEG, GIF or WebP",
        };
        FileError::new(self.code(), text)
    }
}
