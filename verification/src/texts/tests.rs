//! Tests of completeness, languages and safety of the texts.

use super::*;
use std::fmt::Write;

const KEYS: &[UserMessageKey] = &[
    UserMessageKey::Generic,
    UserMessageKey::ModelSlow,
    UserMessageKey::OutOfTime,
    UserMessageKey::Busy,
    UserMessageKey::AskAdmin,
    UserMessageKey::UnexpectedReply,
    UserMessageKey::AttachmentNotFetched,
    UserMessageKey::FileTooLarge,
    UserMessageKey::UnsupportedFormat,
    UserMessageKey::Unreadable,
    UserMessageKey::FileReadingUnavailable,
    UserMessageKey::FileNotMade,
    UserMessageKey::BackgroundFailed,
    UserMessageKey::AskSomething,
    UserMessageKey::Stopped,
];

const PHRASES: &[UserPhrase] = &[
    UserPhrase::Thinking,
    UserPhrase::Stop,
    UserPhrase::StopHint,
    UserPhrase::NothingToStop,
    UserPhrase::NotYours,
    UserPhrase::NoAnswer,
    UserPhrase::Rephrase,
    UserPhrase::NoAgent,
    UserPhrase::Good,
    UserPhrase::Bad,
];

const REASONS: &[SkipReason] = &[
    SkipReason::TooMany,
    SkipReason::TooLarge,
    SkipReason::Unsupported,
    SkipReason::NotFetched,
    SkipReason::NotPermitted,
    SkipReason::Unreadable,
    SkipReason::ReadingUnavailable,
];

fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::UnknownEntity,
        Refusal::NotAllowed,
        Refusal::RateLimited {
            after: Duration::from_millis(12_300),
        },
        Refusal::Empty,
        Refusal::TooLong {
            length: 4_711,
            limit: 4_000,
        },
        Refusal::MissingPermission,
        Refusal::Busy,
        Refusal::InternalError,
    ]
}

/// Returns all texts of a language, with their names.
fn all_texts(language: Language) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for key in KEYS {
        texts.push((
            format!("error {key:?}"),
            error_text(language, *key).to_owned(),
        ));
    }
    for one in refusals() {
        texts.push((format!("refusal {one:?}"), refusal_text(language, &one)));
    }
    for one in PHRASES {
        texts.push((
            format!("phrase {one:?}"),
            phrase_text(language, *one).to_owned(),
        ));
    }
    for why in REASONS {
        texts.push((
            format!("left out {why:?}"),
            skipped_file_text(language, "売上.csv", *why),
        ));
    }
    texts.push((
        "file not posted".to_owned(),
        file_not_posted_text(language, "a.csv"),
    ));
    texts.push((
        "file too large".to_owned(),
        file_too_large_text(language, "a.csv"),
    ));
    texts
}

#[test]
fn user_texts_match_snapshot() {
    let mut table = String::new();
    for ((name, ja), (_, en)) in all_texts(Language::Ja)
        .into_iter()
        .zip(all_texts(Language::En))
    {
        writeln!(table, "{name}\n  {ja}\n  {en}").unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn error_texts_exist_and_contain_no_protocol_terms() {
    for reason in ErrorReason::ALL {
        for language in [Language::Ja, Language::En] {
            let text = failure_text(language, *reason);
            assert!(!text.is_empty());
            assert!(!text.contains(reason.name()), "{text}");
        }
    }
    for language in [Language::Ja, Language::En] {
        for (_, text) in all_texts(language) {
            for banned in [
                "JSON", "RPC", "-32", "HTTP", "bedrock", "Bedrock", "token", "_",
            ] {
                assert!(!text.contains(banned), "{banned} in {text}");
            }
        }
    }
}

#[test]
fn texts_are_in_their_language() {
    for ((name, ja), (_, en)) in all_texts(Language::Ja)
        .into_iter()
        .zip(all_texts(Language::En))
    {
        assert_ne!(ja, en, "{name}");
        let kana_or_kanji = |text: &str| text.chars().any(|sign| sign >= '\u{3041}');
        assert!(kana_or_kanji(&ja), "{name}: {ja}");
        let en = en.replace("売上.csv", "");
        assert!(!kana_or_kanji(&en), "{name}: {en}");
    }
}

#[test]
fn file_names_are_escaped_and_truncated() {
    let long = "x".repeat(300);
    for (name, expected) in [
        ("売上.csv", "`売上.csv`".to_owned()),
        ("a_b*c*.csv", "`a_b*c*.csv`".to_owned()),
        ("a\n# b\r\n\u{1b}[1m.csv", "`a# b[1m.csv`".to_owned()),
        ("x` <!channel> `y", "`x' <!channel> 'y`".to_owned()),
        ("gpj\u{202e}.exe", "`gpj.exe`".to_owned()),
        (&long, format!("`{}…`", "x".repeat(80))),
        (" \u{200b} ", "`?`".to_owned()),
        ("\u{3164}\u{ad}", "`?`".to_owned()),
    ] {
        for language in [Language::Ja, Language::En] {
            for text in [
                skipped_file_text(language, name, SkipReason::TooMany),
                file_not_posted_text(language, name),
                file_too_large_text(language, name),
            ] {
                assert!(text.contains(&format!(" {expected} ")), "{text}");
            }
        }
    }
}

#[test]
fn specific_reasons_have_their_own_text() {
    let en = |word| failure_text(Language::En, word);
    assert!(en(ErrorReason::AgentRejected).contains("rephrase"));
    assert!(en(ErrorReason::AgentUnavailable).starts_with("No agent"));
    assert_eq!(
        en(ErrorReason::ModelTimeout),
        error_text(Language::En, UserMessageKey::ModelSlow)
    );
}

#[test]
fn rate_limit_wait_is_rounded_up() {
    for (wait, expected) in [
        (0, "1 second."),
        (1, "1 second."),
        (1_000, "1 second."),
        (1_001, "2 seconds."),
    ] {
        let after = Duration::from_millis(wait);
        let text = refusal_text(Language::En, &Refusal::RateLimited { after });
        assert!(text.ends_with(expected), "{wait}: {text}");
    }
}

#[test]
fn language_follows_locale_then_text() {
    for (locale, text, expected) in [
        (Some("ja-JP"), "hello", Language::Ja),
        (Some("JA"), "hello", Language::Ja),
        (Some("en-US"), "こんにちは", Language::En),
        (Some(""), "こんにちは", Language::En),
        (Some("日"), "x", Language::En),
        (None, "こんにちは", Language::Ja),
        (None, "カタカナ", Language::Ja),
        (None, "你好", Language::En),
        (None, "hello", Language::En),
    ] {
        assert_eq!(
            Language::detect(locale, text),
            expected,
            "{locale:?} {text}"
        );
    }
}
