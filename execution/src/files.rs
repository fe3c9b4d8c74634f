//! Files that agents make: how large they may be, of which types, how many, and what they are called.
//! Nothing may enter that opens a path or a socket.

/// The language of a sentence for users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English, unless there is a sign of another.
    #[default]
    English,
    /// Japanese.
    Japanese,
}

impl Language {
    /// The language in which to answer this: Japanese if it has kana or kanji, else English.
    pub fn of(text: &str) -> Self {
        let japanese = |c: char| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}');
        if text.chars().any(japanese) {
            Self::Japanese
        } else {
            Self::English
        }
    }
}

/// Which files an agent may hand out.
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
        let allow = [
            "text/csv",
            "application/json",
            "text/plain",
            "text/markdown",
            "application/pdf",
            "image/png",
            "image/jpeg",
        ];
        Self {
            max_bytes: 5 * 1024 * 1024,
            allow: allow.map(str::to_owned).to_vec(),
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
        let asked = media_type.split(';').next().unwrap_or_default().trim();
        if self
            .allow
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(asked))
        {
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
        let limit = self.max_bytes;
        if bytes > limit {
            Err(Refused::Size { limit })
        } else {
            Ok(())
        }
    }

    /// Whether a reply may have so many files.
    ///
    /// # Errors
    /// It may not.
    pub fn check_count(&self, files: usize) -> Result<(), Refused> {
        let limit = self.per_reply;
        if files > limit {
            Err(Refused::Count { limit })
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
    pub fn sentence(&self, name: &str, language: Language) -> String {
        match (self, language) {
            (Self::Type, Language::English) => {
                format!("The file \"{name}\" was left out: files of its type are not allowed.")
            }
            (Self::Type, Language::Japanese) => {
                format!("ファイル「{name}」は許可されていない形式のため、添付していません。")
            }
            (Self::Size { limit }, Language::English) => {
                format!("The file \"{name}\" was left out: it is larger than {limit} bytes.")
            }
            (Self::Size { limit }, Language::Japanese) => {
                format!("ファイル「{name}」は上限（{limit}）を超えるため、添付していません。")
            }
            (Self::Count { limit }, Language::English) => {
                format!("The file \"{name}\" was left out: a reply has at most {limit} files.")
            }
            (Self::Count { limit }, Language::Japanese) => {
                format!("ファイル「{name}」は添付していません（1回の返信につき{limit}件まで）。")
            }
        }
    }
}

/// A name that is no path and hides nothing.
pub fn safe_name(name: &str, _media_type: &str) -> String {
    let plain = |c: char| match c {
        '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
        c => c,
    };
    let clean: String = name
        .chars()
        .filter(|c| !c.is_control())
        .map(plain)
        .take(100)
        .collect();
    let clean = clean.trim_matches([' ', '.']);
    if clean.is_empty() {
        "generated_file".to_owned()
    } else {
        clean.to_owned()
    }
}
