//! Whether every sentence is there, in both languages, and says nothing of the wire.

use super::*;
use std::fmt::Write;

const KEYS: &[MessageKey] = &[
    MessageKey::Generic,
    MessageKey::ModelSlow,
    MessageKey::OutOfTime,
    MessageKey::Busy,
    MessageKey::AskAdmin,
    MessageKey::UnexpectedReply,
    MessageKey::AttachmentNotFetched,
    MessageKey::FileTooLarge,
    MessageKey::UnsupportedFormat,
    MessageKey::Unreadable,
    MessageKey::FileReadingUnavailable,
    MessageKey::FileNotMade,
    MessageKey::BackgroundFailed,
    MessageKey::AskSomething,
    MessageKey::Stopped,
];

const PHRASES: &[Phrase] = &[
    Phrase::Thinking,
    Phrase::Stop,
    Phrase::StopHint,
    Phrase::NothingToStop,
    Phrase::NotYours,
    Phrase::NoAnswer,
    Phrase::Rephrase,
    Phrase::NoAgent,
    Phrase::Good,
    Phrase::Bad,
];

const REASONS: &[LeftOut] = &[
    LeftOut::TooMany,
    LeftOut::TooLarge,
    LeftOut::Unsupported,
    LeftOut::NotFetched,
    LeftOut::NotPermitted,
    LeftOut::Unreadable,
    LeftOut::ReadingUnavailable,
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
        Refusal::Fault,
    ]
}

/// Everything that can be said in a language, with its name.
fn all(language: Language) -> Vec<(String, String)> {
    let mut said = Vec::new();
    for key in KEYS {
        said.push((format!("error {key:?}"), error(language, *key).to_owned()));
    }
    for one in refusals() {
        said.push((format!("refusal {one:?}"), refusal(language, &one)));
    }
    for one in PHRASES {
        said.push((format!("phrase {one:?}"), phrase(language, *one).to_owned()));
    }
    for why in REASONS {
        said.push((
            format!("left out {why:?}"),
            left_out(language, "売上.csv", *why),
        ));
    }
    said.push((
        "file not posted".to_owned(),
        file_not_posted(language, "a.csv"),
    ));
    said.push((
        "file too large".to_owned(),
        file_too_large(language, "a.csv"),
    ));
    said
}

#[test]
fn the_whole_table_reads_well() {
    let mut table = String::new();
    for ((name, ja), (_, en)) in all(Language::Ja).into_iter().zip(all(Language::En)) {
        writeln!(table, "{name}\n  {ja}\n  {en}").unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn every_error_of_the_zones_has_words_and_none_of_the_wire() {
    for word in ErrorWord::ALL {
        for language in [Language::Ja, Language::En] {
            let said = failure(language, *word);
            assert!(!said.is_empty());
            assert!(!said.contains(word.name()), "{said}");
        }
    }
    for language in [Language::Ja, Language::En] {
        for (_, said) in all(language) {
            for banned in [
                "JSON", "RPC", "-32", "HTTP", "bedrock", "Bedrock", "token", "_",
            ] {
                assert!(!said.contains(banned), "{banned} in {said}");
            }
        }
    }
}

#[test]
fn the_languages_differ_and_are_what_they_say() {
    for ((name, ja), (_, en)) in all(Language::Ja).into_iter().zip(all(Language::En)) {
        assert_ne!(ja, en, "{name}");
        let kana_or_kanji = |text: &str| text.chars().any(|sign| sign >= '\u{3041}');
        assert!(kana_or_kanji(&ja), "{name}: {ja}");
        let en = en.replace("売上.csv", "");
        assert!(!kana_or_kanji(&en), "{name}: {en}");
    }
}

#[test]
fn a_files_name_is_shown_as_it_is_and_does_nothing() {
    let long = "x".repeat(300);
    for (name, shown) in [
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
            for said in [
                left_out(language, name, LeftOut::TooMany),
                file_not_posted(language, name),
                file_too_large(language, name),
            ] {
                assert!(said.contains(&format!(" {shown} ")), "{said}");
            }
        }
    }
}

#[test]
fn what_shares_a_key_may_still_say_more() {
    let en = |word| failure(Language::En, word);
    assert!(en(ErrorWord::AgentRejected).contains("rephrase"));
    assert!(en(ErrorWord::AgentUnavailable).starts_with("No agent"));
    assert_eq!(
        en(ErrorWord::ModelTimeout),
        error(Language::En, MessageKey::ModelSlow)
    );
}

#[test]
fn who_waits_as_told_is_not_refused_again() {
    for (wait, told) in [
        (0, "1 second."),
        (1, "1 second."),
        (1_000, "1 second."),
        (1_001, "2 seconds."),
    ] {
        let after = Duration::from_millis(wait);
        let said = refusal(Language::En, &Refusal::RateLimited { after });
        assert!(said.ends_with(told), "{wait}: {said}");
    }
}

#[test]
fn the_language_is_the_users() {
    for (locale, text, wanted) in [
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
        assert_eq!(Language::of(locale, text), wanted, "{locale:?} {text}");
    }
}
