//! Every sentence that a user reads, in Japanese and in English, side by side in `table`. Nothing of the
//! wire may get in: no code, no word of a protocol, nothing of what a peer said went wrong.

mod table;
#[cfg(test)]
mod tests;

use crate::signs::is_blank;
use interzone_protocol::zone::{ErrorWord, MessageKey};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a user reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Japanese.
    Ja,
    /// English.
    En,
}

impl Language {
    /// The language for a user: by the locale if it is known, else by what they wrote.
    ///
    /// ```
    /// use interzone_verification::Language;
    ///
    /// assert_eq!(Language::of(Some("ja-JP"), "hello"), Language::Ja);
    /// assert_eq!(Language::of(Some("de-DE"), "集計して"), Language::En);
    /// assert_eq!(Language::of(None, "集計して"), Language::Ja);
    /// ```
    pub fn of(locale: Option<&str>, text: &str) -> Self {
        let japanese = match locale {
            Some(locale) => locale
                .get(..2)
                .is_some_and(|start| start.eq_ignore_ascii_case("ja")),
            // Kana are written in no other language; the other signs are.
            None => text
                .chars()
                .any(|sign| matches!(sign, '\u{3041}'..='\u{30ff}')),
        };
        if japanese { Self::Ja } else { Self::En }
    }
}

/// Why a question is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Slack does not know the workspace, the user or the channel, or the user is none that may ask.
    UnknownEntity,
    /// The lists do not name them.
    NotAllowed,
    /// They have asked too often.
    RateLimited {
        /// When they may ask again.
        after: Duration,
    },
    /// There is nothing to answer.
    Empty,
    /// It is too long.
    TooLong {
        /// How many characters it has.
        length: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The app lacks a permission in Slack.
    MissingPermission,
    /// Slack wants to be left alone for longer than anybody waits for an answer.
    Busy,
    /// Something went wrong, again and again, before it was known whether they may ask.
    Fault,
}

/// Why a file that came with a question was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// There were more than are taken.
    TooMany,
    /// It is larger than is taken.
    TooLarge,
    /// It is of a kind that is not taken.
    Unsupported,
    /// It could not be fetched.
    NotFetched,
    /// The app may not read files.
    NotPermitted,
    /// It cannot be read.
    Unreadable,
    /// No file can be read at the moment.
    ReadingUnavailable,
}

impl LeftOut {
    /// Why the Execution Zone left a file out.
    pub const fn of(word: ErrorWord) -> Self {
        match word.message_key() {
            MessageKey::FileTooLarge => Self::TooLarge,
            MessageKey::UnsupportedFormat => Self::Unsupported,
            MessageKey::AttachmentNotFetched => Self::NotFetched,
            MessageKey::AskAdmin => Self::NotPermitted,
            MessageKey::FileReadingUnavailable => Self::ReadingUnavailable,
            MessageKey::Generic
            | MessageKey::ModelSlow
            | MessageKey::OutOfTime
            | MessageKey::Busy
            | MessageKey::UnexpectedReply
            | MessageKey::Unreadable
            | MessageKey::FileNotMade
            | MessageKey::BackgroundFailed
            | MessageKey::AskSomething
            | MessageKey::Stopped => Self::Unreadable,
        }
    }
}

/// What else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phrase {
    /// What the app is doing as long as the agent does not say.
    Thinking,
    /// On the button that stops an answer.
    Stop,
    /// Beside that button.
    StopHint,
    /// There is nothing to stop any more.
    NothingToStop,
    /// Only who asked may stop it.
    NotYours,
    /// The agent answered nothing.
    NoAnswer,
    /// The agent does not take it as it is.
    Rephrase,
    /// No agent is there.
    NoAgent,
    /// The good button.
    Good,
    /// The bad button.
    Bad,
}

/// The sentence for an error.
pub fn error(language: Language, key: MessageKey) -> &'static str {
    table::error(key).in_language(language)
}

/// The sentence for an error, by its word: some words say more than the key that they share.
pub fn failure(language: Language, word: ErrorWord) -> &'static str {
    match word {
        ErrorWord::AgentRejected => phrase(language, Phrase::Rephrase),
        ErrorWord::AgentUnavailable => phrase(language, Phrase::NoAgent),
        other => error(language, other.message_key()),
    }
}

/// The sentence for a refusal.
pub fn refusal(language: Language, refusal: &Refusal) -> String {
    table::refusal(language, refusal)
}

/// A phrase.
pub fn phrase(language: Language, phrase: Phrase) -> &'static str {
    table::phrase(phrase).in_language(language)
}

/// The most characters of a name that stands in a sentence.
const LONGEST_NAME: usize = 80;

/// A file's name as it may stand in a sentence. It is somebody else's word: it is shown as code, so that
/// nothing in it is Markdown, on one line that nothing turns around, and not without end.
fn shown(name: &str) -> String {
    let visible = |sign: &char| {
        let turns = matches!(sign, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(sign, '\u{2060}'..='\u{206f}' | '\u{feff}');
        !sign.is_control() && !turns
    };
    let whole: String = name.chars().filter(visible).collect();
    let whole = whole.trim().replace('`', "'");
    if is_blank(&whole) {
        return "`?`".to_owned();
    }
    let short: String = whole.chars().take(LONGEST_NAME).collect();
    let more = if short.len() < whole.len() { "…" } else { "" };
    format!("`{short}{more}`")
}

/// The note on a file that came with a question and was left out.
pub fn left_out(language: Language, name: &str, why: LeftOut) -> String {
    table::left_out(language, &shown(name), why)
}

/// The sentence for a generated file that could not be posted.
pub fn file_not_posted(language: Language, name: &str) -> String {
    table::file_not_posted(language, &shown(name))
}

/// The sentence for a generated file that is larger than may be posted.
pub fn file_too_large(language: Language, name: &str) -> String {
    table::file_too_large(language, &shown(name))
}
