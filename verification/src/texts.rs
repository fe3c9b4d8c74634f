//! Texts shown to users, in Japanese and English, side by side in `table`. They must not contain protocol details:
//! no codes, no protocol terms, no error texts of other systems.

mod table;
#[cfg(test)]
mod tests;

use crate::unicode_hygiene::is_invisible;
use interzone_protocol::zone::{ErrorReason, UserMessageKey};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Language of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Japanese.
    Ja,
    /// English.
    En,
}

impl Language {
    /// Returns the language for a user: by locale if given, else by the text.
    ///
    /// ```
    /// use interzone_verification::Language;
    ///
    /// assert_eq!(Language::detect(Some("ja-JP"), "hello"), Language::Ja);
    /// assert_eq!(Language::detect(Some("de-DE"), "集計して"), Language::En);
    /// assert_eq!(Language::detect(None, "集計して"), Language::Ja);
    /// ```
    pub fn detect(locale: Option<&str>, text: &str) -> Self {
        let is_japanese = match locale {
            Some(locale) => locale
                .get(..2)
                .is_some_and(|start| start.eq_ignore_ascii_case("ja")),
            // Kana are used in no other language; Kanji are.
            None => text
                .chars()
                .any(|sign| matches!(sign, '\u{3041}'..='\u{30ff}')),
        };
        if is_japanese { Self::Ja } else { Self::En }
    }
}

/// Reason why a question is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Slack does not know the workspace, user or channel, or the user may not ask (bot, deactivated).
    UnknownEntity,
    /// Not allowed by the policy.
    NotAllowed,
    /// Rate limited.
    RateLimited {
        /// Time after which the user may ask again.
        after: Duration,
    },
    /// Nothing to answer.
    Empty,
    /// Too long.
    TooLong {
        /// Number of characters.
        length: usize,
        /// Maximum number of characters.
        limit: usize,
    },
    /// The app lacks a permission in Slack.
    MissingPermission,
    /// Slack requested a delay longer than the time for an answer.
    Busy,
    /// Repeated internal errors before access was decided.
    InternalError,
}

/// Reason why an attachment was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Too many attachments.
    TooMany,
    /// Too large.
    TooLarge,
    /// Unsupported file type.
    Unsupported,
    /// Download failed.
    NotFetched,
    /// The app lacks permission to read files.
    NotPermitted,
    /// The content cannot be read.
    Unreadable,
    /// File reading is temporarily unavailable.
    ReadingUnavailable,
}

impl SkipReason {
    /// Returns the reason for an error of the Execution Zone.
    pub const fn from_error_reason(reason: ErrorReason) -> Self {
        match reason.message_key() {
            UserMessageKey::FileTooLarge => Self::TooLarge,
            UserMessageKey::UnsupportedFormat => Self::Unsupported,
            UserMessageKey::AttachmentNotFetched => Self::NotFetched,
            UserMessageKey::AskAdmin => Self::NotPermitted,
            UserMessageKey::FileReadingUnavailable => Self::ReadingUnavailable,
            UserMessageKey::Generic
            | UserMessageKey::ModelSlow
            | UserMessageKey::OutOfTime
            | UserMessageKey::Busy
            | UserMessageKey::UnexpectedReply
            | UserMessageKey::Unreadable
            | UserMessageKey::FileNotMade
            | UserMessageKey::BackgroundFailed
            | UserMessageKey::AskSomething
            | UserMessageKey::Stopped => Self::Unreadable,
        }
    }
}

/// Other texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserPhrase {
    /// Default status while the agent reports none.
    Thinking,
    /// Label of the stop button.
    Stop,
    /// Text next to the stop button.
    StopHint,
    /// The answer is already finished.
    NothingToStop,
    /// Only the asker may stop it.
    NotYours,
    /// The agent returned no answer.
    NoAnswer,
    /// The agent rejected the request.
    Rephrase,
    /// No agent is available.
    NoAgent,
    /// Label of the positive feedback button.
    Good,
    /// Label of the negative feedback button.
    Bad,
}

/// Returns the text for an error key.
pub fn error_text(language: Language, key: UserMessageKey) -> &'static str {
    table::error(key).in_language(language)
}

/// Returns the text for an error reason; some reasons have a more specific text than their key.
pub fn failure_text(language: Language, reason: ErrorReason) -> &'static str {
    match reason {
        ErrorReason::AgentRejected => phrase_text(language, UserPhrase::Rephrase),
        ErrorReason::AgentUnavailable => phrase_text(language, UserPhrase::NoAgent),
        other => error_text(language, other.message_key()),
    }
}

/// Returns the text for a refusal.
pub fn refusal_text(language: Language, refusal: &Refusal) -> String {
    table::refusal(language, refusal)
}

/// Returns a phrase.
pub fn phrase_text(language: Language, phrase: UserPhrase) -> &'static str {
    table::phrase(phrase).in_language(language)
}

/// Maximum characters of a file name in a text.
const MAX_NAME_CHARS: usize = 80;

/// Formats an untrusted file name for a text: as inline code, so that Markdown in it is inert, on one line, without
/// bidirectional controls, and truncated.
fn format_file_name(name: &str) -> String {
    let is_visible = |sign: &char| {
        let is_bidi_or_invisible = matches!(sign, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(sign, '\u{2060}'..='\u{206f}' | '\u{feff}');
        !sign.is_control() && !is_bidi_or_invisible
    };
    let full: String = name.chars().filter(is_visible).collect();
    let full = full.trim().replace('`', "'");
    if is_invisible(&full) {
        return "`?`".to_owned();
    }
    let truncated: String = full.chars().take(MAX_NAME_CHARS).collect();
    let ellipsis = if truncated.len() < full.len() {
        "…"
    } else {
        ""
    };
    format!("`{truncated}{ellipsis}`")
}

/// Returns the notice about a skipped attachment.
pub fn skipped_file_text(language: Language, name: &str, reason: SkipReason) -> String {
    table::skipped_file(language, &format_file_name(name), reason)
}

/// Returns the notice about a generated file that could not be posted.
pub fn file_not_posted_text(language: Language, name: &str) -> String {
    table::file_not_posted(language, &format_file_name(name))
}

/// Returns the notice about a generated file that is too large to post.
pub fn file_too_large_text(language: Language, name: &str) -> String {
    table::file_too_large(language, &format_file_name(name))
}
