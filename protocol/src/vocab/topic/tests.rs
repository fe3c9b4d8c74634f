//! Grammar of topics and patterns; the matcher is checked against a brute-force reference.

use super::*;
use proptest::prelude::*;

#[test]
fn topic_grammar_accepts_and_rejects() {
    let longest = "a".repeat(255);
    for good in [
        "a",
        "signal",
        "signal.email.received",
        "A.b-c_d.9",
        "-._",
        "a.b.c.d.e.f.g.h.i.j.k.l",
        &longest,
    ] {
        assert!(Topic::new(good).is_ok(), "{good}");
        assert!(TopicPattern::new(good).is_ok(), "{good}");
    }
    use TopicErrorKind::{Character, Empty, EmptySegment, TooLong, Wildcard};
    let long = "a".repeat(256);
    for (bad, kind, offset) in [
        ("", Empty, 0),
        (long.as_str(), TooLong, 255),
        (".a", EmptySegment, 0),
        ("a.", EmptySegment, 2),
        ("a..b", EmptySegment, 2),
        (".", EmptySegment, 0),
        ("a b", Character, 1),
        ("a.b/c", Character, 3),
        ("a.é", Character, 2),
        ("日本", Character, 0),
        ("a\n", Character, 1),
        ("signal.*", Wildcard, 7),
        ("**", Wildcard, 0),
    ] {
        assert_eq!(Topic::new(bad), Err(InvalidTopic { kind, offset }), "{bad}");
    }
    assert_ne!(Topic::new("Signal").unwrap(), Topic::new("signal").unwrap());
}

#[test]
fn pattern_grammar_accepts_and_rejects() {
    for good in [
        "*",
        "**",
        "signal.*",
        "signal.**",
        "**.received",
        "a.**.d",
        "*.*.**",
        "**.**",
    ] {
        assert!(TopicPattern::new(good).is_ok(), "{good}");
    }
    for bad in ["a*", "*a", "***", "a.b*.c", "**a", "a.*-*"] {
        let kind = TopicPattern::new(bad).unwrap_err().kind;
        assert_eq!(kind, TopicErrorKind::MixedWildcard, "{bad}");
    }
    assert_eq!(
        TopicPattern::new("é.*").unwrap_err().kind,
        TopicErrorKind::Character
    );
    assert_eq!(
        TopicPattern::new("").unwrap_err().kind,
        TopicErrorKind::Empty
    );
    assert_eq!(
        TopicPattern::new("*..a").unwrap_err().kind,
        TopicErrorKind::EmptySegment
    );
    assert!(TopicPattern::new("a.b").unwrap().is_literal());
    assert!(!TopicPattern::new("a.*").unwrap().is_literal());
}

#[test]
fn pattern_matching_table() {
    for (pattern, topic, expected) in [
        ("signal.email", "signal.email", true),
        ("signal.email", "Signal.email", false),
        ("signal.*", "signal.email", true),
        ("signal.*", "signal", false),
        ("signal.*", "signal.email.received", false),
        ("signal.**", "signal.email", true),
        ("signal.**", "signal.email.received", true),
        ("signal.**", "signal", false),
        ("a.*.**", "a.b", false),
        ("a.*.**", "a.b.c", true),
        ("**.received", "signal.email.received", true),
        ("**.received", "received", false),
        ("a.**.d", "a.b.d", true),
        ("a.**.d", "a.b.c.d", true),
        ("a.**.d", "a.d", false),
        ("a.**.d", "a.d.d", true),
        ("a.**.d", "a.b.d.c", false),
        ("**.**", "a", false),
        ("**.**", "a.b", true),
        ("**.b.**.b", "a.b.b.b", true),
        ("**.b.**.b", "a.b.b", false),
    ] {
        let pattern = TopicPattern::new(pattern).unwrap();
        assert_eq!(
            pattern.matches(&Topic::new(topic).unwrap()),
            expected,
            "{pattern} {topic}"
        );
    }
}

#[test]
fn matching_many_wildcards_is_not_exponential() {
    // Backtracking over every wildcard would never finish here.
    let pattern = TopicPattern::new(format!("{}z", "**.a.".repeat(40))).unwrap();
    let topic = Topic::new(format!("{}b", "a.".repeat(120))).unwrap();
    assert!(!pattern.matches(&topic));
}

/// Reference matcher: tries every length for every `**`.
fn matches_brute_force(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern.split_first(), topic.split_first()) {
        (None, None) => true,
        (Some((&"**", pattern_tail)), Some(_)) => {
            (1..=topic.len()).any(|count| matches_brute_force(pattern_tail, &topic[count..]))
        }
        (Some((&expected, pattern_tail)), Some((&segment, topic_tail))) => {
            (expected == "*" || expected == segment)
                && matches_brute_force(pattern_tail, topic_tail)
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn matcher_agrees_with_brute_force(
        pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..7),
        topic in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..9),
    ) {
        let expected = matches_brute_force(&pattern, &topic);
        let pattern = TopicPattern::new(pattern.join(".")).unwrap();
        let topic = Topic::new(topic.join(".")).unwrap();
        prop_assert_eq!(pattern.matches(&topic), expected);
    }

    #[test]
    fn topic_as_pattern_matches_itself(text in "[a-z_-]{1,5}(\\.[A-Z0-9]{1,5}){0,5}") {
        let topic = Topic::new(&text).unwrap();
        prop_assert!(TopicPattern::new(&text).unwrap().matches(&topic));
    }

    #[test]
    fn validating_any_text_never_panics(text in ".{0,60}") {
        let is_topic = Topic::new(&text).is_ok();
        prop_assert!(!is_topic || TopicPattern::new(&text).is_ok());
    }
}
