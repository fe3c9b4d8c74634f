//! Limits on the size, type and number of files, and the texts for users about rejected files.
//!
//! Every limit is configurable; none can be absent.

use super::file_kind::media_type_essence;
use super::{FileKind, Language};
use interzone_protocol::zone::ErrorReason;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Rules for files that an agent may send.
///
/// ```
/// use interzone_execution::files::FileRules;
///
/// let rules = FileRules::default();
/// assert!(rules.check_type("text/CSV; charset=utf-8").is_ok());
/// assert!(rules.check_type("application/x-msdownload").is_err());
/// assert!(rules.check_size(5 * 1024 * 1024).is_ok());
/// assert!(rules.check_size(5 * 1024 * 1024 + 1).is_err());
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct FileRules {
    /// Maximum size of a file, in bytes.
    #[serde(deserialize_with = "interzone_options::size")]
    pub max_bytes: u64,
    /// Allowed media types.
    #[serde(deserialize_with = "media_types")]
    pub allow: Vec<String>,
    /// Maximum number of files per reply.
    pub per_reply: usize,
}

impl Default for FileRules {
    fn default() -> Self {
        let kinds = [
            FileKind::Csv,
            FileKind::Json,
            FileKind::Text,
            FileKind::Markdown,
            FileKind::Xlsx,
            FileKind::Docx,
            FileKind::Pptx,
            FileKind::Pdf,
            FileKind::Png,
            FileKind::Jpeg,
        ];
        Self {
            max_bytes: 5 * MIB,
            allow: kinds.map(|kind| kind.media_type().to_owned()).to_vec(),
            per_reply: 1,
        }
    }
}

/// Deserializes the allowed media types.
fn media_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let plain = |part: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c);
        !part.is_empty() && part.chars().all(good)
    };
    let is_type = |text: &String| matches!(text.split_once('/'), Some((kind, subtype)) if plain(kind) && plain(subtype));
    let types = Vec::<String>::deserialize(deserializer)?;
    if types.iter().all(is_type) {
        return Ok(types);
    }
    Err(D::Error::custom("write media types, as in \"text/csv\""))
}

impl FileRules {
    /// Checks that a file of this type may be sent. Case and parameters are ignored.
    ///
    /// # Errors
    /// The type is not allowed.
    pub fn check_type(&self, media_type: &str) -> Result<(), OutputRefused> {
        let essence = media_type_essence(media_type);
        if self
            .allow
            .iter()
            .any(|allowed| media_type_essence(allowed) == essence)
        {
            Ok(())
        } else {
            Err(OutputRefused::Type)
        }
    }

    /// Checks that a file of this size may be sent.
    ///
    /// # Errors
    /// The file is too large.
    pub fn check_size(&self, bytes: u64) -> Result<(), OutputRefused> {
        if bytes > self.max_bytes {
            Err(OutputRefused::Size {
                limit: self.max_bytes,
            })
        } else {
            Ok(())
        }
    }

    /// Checks that a reply may have this many files.
    ///
    /// # Errors
    /// There are too many files.
    pub fn check_count(&self, files: usize) -> Result<(), OutputRefused> {
        if files > self.per_reply {
            Err(OutputRefused::Count {
                limit: self.per_reply,
            })
        } else {
            Ok(())
        }
    }
}

/// Reason why a file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputRefused {
    /// Type that is not allowed.
    #[error("the file's type is not allowed; see [files] allow")]
    Type,
    /// File above the size limit.
    #[error("the file is larger than {limit} bytes; see [files] max_bytes")]
    Size {
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The reply has too many files.
    #[error("a reply has at most {limit} files; see [files] per_reply")]
    Count {
        /// Maximum number of files.
        limit: usize,
    },
}

impl OutputRefused {
    /// Returns the text for the user. The name must be a safe one.
    ///
    /// ```
    /// use interzone_execution::files::{Language, OutputRefused};
    ///
    /// let text = OutputRefused::Size { limit: 5 << 20 }.user_message("a.csv", Language::English);
    /// assert_eq!(text, "The file \"a.csv\" was left out: it is larger than 5 MiB.");
    /// ```
    pub fn user_message(&self, name: &str, language: Language) -> String {
        match (self, language) {
            (Self::Type, Language::English) => {
                format!("The file \"{name}\" was left out: files of its type are not allowed.")
            }
            (Self::Type, Language::Japanese) => {
                format!("ファイル「{name}」は許可されていない形式のため、添付していません。")
            }
            (Self::Size { limit }, Language::English) => format!(
                "The file \"{name}\" was left out: it is larger than {}.",
                format_size(*limit)
            ),
            (Self::Size { limit }, Language::Japanese) => format!(
                "ファイル「{name}」は上限（{}）を超えるため、添付していません。",
                format_size(*limit)
            ),
            (Self::Count { limit }, Language::English) => format!(
                "The file \"{name}\" was left out: a reply has at most {limit} {}.",
                if *limit == 1 { "file" } else { "files" }
            ),
            (Self::Count { limit }, Language::Japanese) => {
                format!("ファイル「{name}」は添付していません（1回の返信につき{limit}件まで）。")
            }
        }
    }
}

/// Formats a size for users.
fn format_size(bytes: u64) -> String {
    if bytes >= MIB && bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else if bytes >= KIB && bytes.is_multiple_of(KIB) {
        format!("{} KiB", bytes / KIB)
    } else {
        format!("{bytes} bytes")
    }
}

/// Limits for files from outside.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputRules {
    /// Maximum size of an image, in bytes.
    #[serde(deserialize_with = "interzone_options::size")]
    pub image_bytes: u64,
    /// Maximum size of a document, in bytes.
    #[serde(deserialize_with = "interzone_options::size")]
    pub document_bytes: u64,
    /// Maximum number of images per message.
    pub images: usize,
    /// Maximum number of documents per message.
    pub documents: usize,
    /// Maximum total size of the attachments of a message, in bytes.
    #[serde(deserialize_with = "interzone_options::size")]
    pub message_bytes: u64,
    /// Maximum unpacked size of a document, in bytes.
    #[serde(deserialize_with = "interzone_options::size")]
    pub unpacked_bytes: u64,
    /// Maximum compression ratio of a part of a document, unless the part is small.
    #[serde(skip)]
    pub unpacked_ratio: u64,
    /// Maximum number of parts of an Office document.
    #[serde(skip)]
    pub entries: usize,
    /// Maximum number of pages of a PDF.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub pages: usize,
    /// Maximum length of a document's text, in characters; a longer text is truncated, with a marker at its end.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub text_chars: usize,
    /// Processor time limit for reading one file, rounded up to whole seconds. The wall-clock limit is
    /// [`WALL_TIME_FACTOR`](super::WALL_TIME_FACTOR) times as long.
    pub extract_cpu_time: Duration,
    /// Address space limit of the process that reads a file, in bytes.
    #[serde(deserialize_with = "extract_memory")]
    pub extract_memory: u64,
    /// Maximum number of files that are read at once.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub extract_processes: usize,
    /// Timeout of one attempt to download a file.
    pub fetch_timeout: Duration,
    /// Maximum number of attempts to download a file.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub fetch_attempts: u32,
}

impl Default for InputRules {
    fn default() -> Self {
        Self {
            image_bytes: 10 * MIB,
            document_bytes: 5 * MIB,
            images: 20,
            documents: 5,
            message_bytes: 25 * MIB,
            unpacked_bytes: 64 * MIB,
            unpacked_ratio: 200,
            entries: 4_096,
            pages: 2_000,
            text_chars: 1_000_000,
            extract_cpu_time: Duration::from_secs(10),
            extract_memory: 512 * MIB,
            extract_processes: 4,
            fetch_timeout: Duration::from_secs(30),
            fetch_attempts: 3,
        }
    }
}

/// Deserializes the memory for reading one file. With less than this minimum, the file reader process does not start.
fn extract_memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let memory = interzone_options::size(deserializer)?;
    if memory < 128 * MIB {
        return Err(D::Error::custom("write 128MiB or more"));
    }
    Ok(memory)
}

impl InputRules {
    /// Returns the maximum size of any file.
    pub fn max_file_bytes(&self) -> u64 {
        self.image_bytes.max(self.document_bytes)
    }

    /// Returns the maximum size of a file of this kind.
    pub const fn max_bytes_for(&self, kind: FileKind) -> u64 {
        if kind.is_image() {
            self.image_bytes
        } else {
            self.document_bytes
        }
    }

    pub(crate) fn too_large_error(&self) -> FileError {
        FileError::new(
            ErrorReason::FileTooLarge,
            format!(
                "the file is too large: images may have {}, documents {}, all of a message {}",
                format_size(self.image_bytes),
                format_size(self.document_bytes),
                format_size(self.message_bytes)
            ),
        )
    }
}

/// Error of a file that was rejected or could not be generated: a stable error code and a text for users, without
/// internal details.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct FileError {
    /// Error code.
    pub code: ErrorReason,
    /// Text for users: English, to be used within a sentence.
    pub text: String,
}

impl FileError {
    pub(crate) fn new(code: ErrorReason, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// The zone cannot read any file at the moment; this file may be valid.
    pub(crate) fn reader_unavailable() -> Self {
        Self::new(
            ErrorReason::FileReaderUnavailable,
            "file reading is temporarily unavailable: try again in a minute",
        )
    }

    /// Returns the text in this language.
    pub fn localized(&self, language: Language) -> String {
        match language {
            Language::English => self.text.clone(),
            Language::Japanese => japanese_text(self.code).to_owned(),
        }
    }
}

const fn japanese_text(code: ErrorReason) -> &'static str {
    match code {
        ErrorReason::FileTooLarge => "サイズが上限を超えています",
        ErrorReason::FileBomb => "展開後のサイズが大きすぎます",
        ErrorReason::UnsupportedFileType
        | ErrorReason::UnsupportedImageType
        | ErrorReason::UnsupportedType => "対応していない形式か、内容が形式と一致しません",
        ErrorReason::ExtractionFailed => "内容を読み取れません（破損の可能性があります）",
        ErrorReason::FileReaderUnavailable => {
            "現在ファイルを読み取れません。1分ほど待ってからもう一度お試しください"
        }
        ErrorReason::FileEncrypted => "パスワードで保護されています",
        ErrorReason::AttachmentDownloadFailed | ErrorReason::DownloadFailed => {
            "取得できませんでした。もう一度アップロードしてください"
        }
        ErrorReason::UrlNotAvailable => "取得先のURLを利用できません",
        ErrorReason::ToolFailure => "ファイルを作成できませんでした",
        _ => "処理できませんでした",
    }
}
