//! Why a file is refused, as a closed set.
//!
//! The process that reads a file answers with one of these and never with text of its own: it may be under
//! the control of the file, and the text goes to people and to models.

use super::{Fault, InputRules, Kind};
use interzone_protocol::zone::ErrorWord;
use serde::{Deserialize, Serialize};

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// It has no bytes.
    Empty,
    /// It has more bytes than are allowed for its kind.
    TooLarge,
    /// It is damaged.
    Damaged,
    /// It has no text.
    NoText,
    /// It unpacks to more than is allowed.
    Bomb,
    /// It is encrypted.
    Encrypted,
    /// It is an Office document with macros.
    Macros,
    /// It is an Office document of the binary format.
    OldOffice,
    /// It is a web page whose format was not declared.
    WebPage,
    /// It is a web page that was declared to be something else.
    UnexpectedWebPage,
    /// Its format is not supported.
    UnsupportedFormat,
    /// It is an image whose format is not supported.
    UnsupportedImage,
    /// Its bytes are not of the kind that was declared.
    Mismatch(Kind),
}

impl Problem {
    /// The stable word for programs.
    pub const fn word(self) -> ErrorWord {
        match self {
            Self::Empty | Self::Damaged | Self::NoText => ErrorWord::ExtractionFailed,
            Self::TooLarge => ErrorWord::FileTooLarge,
            Self::Bomb => ErrorWord::FileBomb,
            Self::Encrypted => ErrorWord::FileEncrypted,
            Self::UnexpectedWebPage => ErrorWord::UnsupportedType,
            Self::UnsupportedImage => ErrorWord::UnsupportedImageType,
            Self::Mismatch(kind) if kind.is_image() => ErrorWord::UnsupportedImageType,
            Self::Macros
            | Self::OldOffice
            | Self::WebPage
            | Self::UnsupportedFormat
            | Self::Mismatch(_) => ErrorWord::UnsupportedFileType,
        }
    }

    /// The word with its text for people.
    pub fn into_fault(self, rules: &InputRules) -> Fault {
        let text = match self {
            Self::TooLarge => return rules.too_large(),
            Self::Mismatch(kind) => {
                let name = kind.extension().to_ascii_uppercase();
                let text = format!("the file is not the {name} that it says it is");
                return Fault::new(self.word(), text);
            }
            Self::Empty => "the file is empty",
            Self::Damaged => "the file cannot be read: it may be damaged",
            Self::NoText => "there is no text in the file: it may be scanned or empty",
            Self::Bomb => "the file unpacks to more than is allowed",
            Self::Encrypted => "the file is locked with a password: send it without one",
            Self::Macros => "files with macros are not supported",
            Self::OldOffice => "the format is an old one of Office: save it as DOCX, XLSX or PPTX",
            Self::WebPage | Self::UnexpectedWebPage => {
                "the file is a web page: it may be what is shown instead of the file"
            }
            Self::UnsupportedFormat => {
                "the format is not supported: send PDF, DOCX, XLSX, PPTX, CSV, TXT, MD, JSON, PNG, JPEG, GIF or WebP"
            }
            Self::UnsupportedImage => "pictures must be PNG, JPEG, GIF or WebP",
        };
        Fault::new(self.word(), text)
    }
}
