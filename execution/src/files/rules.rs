//! How large files may be, of which types, and how many; and what users are told when one is refused.
//!
//! Every number can be configured; none can be absent.

use super::kinds::plain;
use super::{Kind, Language};
use interzone_protocol::zone::ErrorWord;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Which files an agent may hand out.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRules {
    /// Bytes of one file.
    pub max_bytes: u64,
    /// The media types that are let out.
    pub allow: Vec<String>,
    /// Files of one reply.
    pub per_reply: usize,
}

impl Default for FileRules {
    fn default() -> Self {
        let kinds = [
            Kind::Csv,
            Kind::Json,
            Kind::Text,
            Kind::Markdown,
            Kind::Xlsx,
            Kind::Docx,
            Kind::Pptx,
            Kind::Pdf,
            Kind::Png,
            Kind::Jpeg,
        ];
        Self {
            max_bytes: 5 * MIB,
            allow: kinds.map(|kind| kind.media_type().to_owned()).to_vec(),
            per_reply: 1,
        }
    }
}

impl FileRules {
    /// Whether a file of this type may leave. Case and parameters do not matter.
    ///
    /// # Errors
    /// It may not.
    pub fn check_type(&self, media_type: &str) -> Result<(), Refused> {
        let asked = plain(media_type);
        if self.allow.iter().any(|allowed| plain(allowed) == asked) {
            Ok(())
        } else {
            Err(Refused::Type)
        }
    }

    /// Whether a file of so many bytes may leave.
    ///
    /// # Errors
    /// It may not.
    pub fn check_size(&self, bytes: u64) -> Result<(), Refused> {
        if bytes > self.max_bytes {
            Err(Refused::Size {
                limit: self.max_bytes,
            })
        } else {
            Ok(())
        }
    }

    /// Whether a reply may have so many files.
    ///
    /// # Errors
    /// It may not.
    pub fn check_count(&self, files: usize) -> Result<(), Refused> {
        if files > self.per_reply {
            Err(Refused::Count {
                limit: self.per_reply,
            })
        } else {
            Ok(())
        }
    }
}

/// Why a file is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Its type is not among those that are let out.
    #[error("the file's type is not allowed; see [files] allow")]
    Type,
    /// It is too large.
    #[error("the file is larger than {limit} bytes; see [files] max_bytes")]
    Size {
        /// How many bytes it may have.
        limit: u64,
    },
    /// There are others already.
    #[error("a reply has at most {limit} files; see [files] per_reply")]
    Count {
        /// How many there may be.
        limit: usize,
    },
}

impl Refused {
    /// What the user is told. The name must be a safe one.
    ///
    /// ```
    /// use interzone_execution::files::{Language, Refused};
    ///
    /// let said = Refused::Size { limit: 5 << 20 }.sentence("a.csv", Language::English);
    /// assert_eq!(said, "The file \"a.csv\" was left out: it is larger than 5 MiB.");
    /// ```
    pub fn sentence(&self, name: &str, language: Language) -> String {
        match (self, language) {
            (Self::Type, Language::English) => {
                format!("The file \"{name}\" was left out: files of its type are not allowed.")
            }
            (Self::Type, Language::Japanese) => {
                format!("ファイル「{name}」は許可されていない形式のため、添付していません。")
            }
            (Self::Size { limit }, Language::English) => format!(
                "The file \"{name}\" was left out: it is larger than {}.",
                size(*limit)
            ),
            (Self::Size { limit }, Language::Japanese) => format!(
                "ファイル「{name}」は上限（{}）を超えるため、添付していません。",
                size(*limit)
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

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    if bytes >= MIB && bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else if bytes >= KIB && bytes.is_multiple_of(KIB) {
        format!("{} KiB", bytes / KIB)
    } else {
        format!("{bytes} bytes")
    }
}

/// Which files are taken from outside, and how much of them is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRules {
    /// Bytes of a picture.
    pub image_bytes: u64,
    /// Bytes of a document.
    pub document_bytes: u64,
    /// Pictures of one message.
    pub images: usize,
    /// Documents of one message.
    pub documents: usize,
    /// Bytes of all attachments of one message.
    pub message_bytes: u64,
    /// Bytes that all of a document may have once it is unpacked.
    pub unpacked_bytes: u64,
    /// How many times its packed size a part of a document may have, if it is not small.
    pub unpacked_ratio: u64,
    /// Parts of an Office document.
    pub entries: usize,
    /// Pages of a PDF.
    pub pages: usize,
    /// Characters of a document's text; the rest is cut off, and the text says so.
    pub text_chars: usize,
    /// Processor time for reading one file, rounded up to whole seconds. On the clock it may take
    /// [`WALL_TIME_FACTOR`](super::WALL_TIME_FACTOR) times as long.
    pub extract_time: Duration,
    /// Bytes of address space of the process that reads a file.
    pub extract_memory: u64,
    /// How many files are read at once.
    pub extract_processes: usize,
    /// How long one attempt to fetch a file may take.
    pub fetch_time: Duration,
    /// How often it is tried to fetch a file.
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
            extract_time: Duration::from_secs(10),
            extract_memory: 512 * MIB,
            extract_processes: 4,
            fetch_time: Duration::from_secs(30),
            fetch_attempts: 3,
        }
    }
}

impl InputRules {
    /// The largest file that is taken at all.
    pub fn largest(&self) -> u64 {
        self.image_bytes.max(self.document_bytes)
    }

    /// How many bytes a file of this kind may have.
    pub const fn limit(&self, kind: Kind) -> u64 {
        if kind.is_image() {
            self.image_bytes
        } else {
            self.document_bytes
        }
    }

    pub(crate) fn too_large(&self) -> Fault {
        Fault::new(
            ErrorWord::FileTooLarge,
            format!(
                "the file is too large: images may have {}, documents {}, all of a message {}",
                size(self.image_bytes),
                size(self.document_bytes),
                size(self.message_bytes)
            ),
        )
    }
}

/// Why a file is not taken, or was not made: a stable word for programs and words for people, which
/// name nothing of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// What went wrong, for programs.
    pub word: ErrorWord,
    /// What went wrong, for people: English, from the middle of a sentence.
    pub text: String,
}

impl Fault {
    pub(crate) fn new(word: ErrorWord, text: impl Into<String>) -> Self {
        Self {
            word,
            text: text.into(),
        }
    }

    /// The zone cannot read any file at the moment; nothing is known of this one.
    pub(crate) fn reader_unavailable() -> Self {
        Self::new(
            ErrorWord::FileReaderUnavailable,
            "file reading is temporarily unavailable: try again in a minute",
        )
    }

    /// The same in this language.
    pub fn told(&self, language: Language) -> String {
        match language {
            Language::English => self.text.clone(),
            Language::Japanese => in_japanese(self.word).to_owned(),
        }
    }
}

const fn in_japanese(word: ErrorWord) -> &'static str {
    match word {
        ErrorWord::FileTooLarge => "サイズが上限を超えています",
        ErrorWord::FileBomb => "展開後のサイズが大きすぎます",
        ErrorWord::UnsupportedFileType
        | ErrorWord::UnsupportedImageType
        | ErrorWord::UnsupportedType => "対応していない形式か、内容が形式と一致しません",
        ErrorWord::ExtractionFailed => "内容を読み取れません（破損の可能性があります）",
        ErrorWord::FileReaderUnavailable => {
            "現在ファイルを読み取れません。1分ほど待ってからもう一度お試しください"
        }
        ErrorWord::FileEncrypted => "パスワードで保護されています",
        ErrorWord::AttachmentDownloadFailed | ErrorWord::DownloadFailed => {
            "取得できませんでした。もう一度アップロードしてください"
        }
        ErrorWord::UrlNotAvailable => "取得先のURLを利用できません",
        ErrorWord::ToolFailure => "ファイルを作成できませんでした",
        _ => "処理できませんでした",
    }
}
