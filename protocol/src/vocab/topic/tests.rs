//! The grammar row by row, and the matcher against one that is slow and obvious.

use super::*;
use proptest::prelude::*;

#[test]
fn topics() {
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
    use TopicFault::{Character, Empty, EmptySegment, TooLong, Wildcard};
    let long = "a".repeat(256);
    for (bad, fault, at) in [
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
        assert_eq!(Topic::new(bad), Err(InvalidTopic { fault, at }), "{bad}");
    }
    assert_ne!(Topic::new("Signal").unwrap(), Topic::new("signal").unwrap());
}

#[test]
fn patterns() {
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
        let fault = TopicPattern::new(bad).unwrap_err().fault;
        assert_eq!(fault, TopicFault::MixedWildcard, "{bad}");
    }
    assert_eq!(
        TopicPattern::new("é.*").unwrap_err().fault,
        TopicFault::Character
    );
    assert_eq!(TopicPattern::new("").unwrap_err().fault, TopicFault::Empty);
    assert_eq!(
        TopicPattern::new("*..a").unwrap_err().fault,
        TopicFault::EmptySegment
    );
    assert!(TopicPattern::new("a.b").unwrap().is_literal());
    assert!(!TopicPattern::new("a.*").unwrap().is_literal());
}

#[test]
fn matching() {
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
fn many_wildcards_stay_cheap() {
    // Backtracking over every wildcard would take more steps here than there are atoms.
    let pattern = TopicPattern::new(format!("{}z", "**.a.".repeat(40))).unwrap();
    let topic = Topic::new(format!("{}b", "a.".repeat(120))).unwrap();
    assert!(!pattern.matches(&topic));
}

/// Tries every length for every `**`.
fn slow_and_obvious(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern.split_first(), topic.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), Some(_)) => {
            (1..=topic.len()).any(|swallowed| slow_and_obvious(rest, &topic[swallowed..]))
        }
        (Some((&wanted, rest)), Some((&segment, left))) => {
            (wanted == "*" || wanted == segment) && slow_and_obvious(rest, left)
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn the_matcher_agrees_with_the_obvious_one(
        pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..7),
        topic in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..9),
    ) {
        let expected = slow_and_obvious(&pattern, &topic);
        let pattern = TopicPattern::new(pattern.join(".")).unwrap();
        let topic = Topic::new(topic.join(".")).unwrap();
        prop_assert_eq!(pattern.matches(&topic), expected);
    }

    #[test]
    fn a_topic_is_a_pattern_that_matches_itself(text in "[a-z_-]{1,5}(\\.[A-Z0-9]{1,5}){0,5}") {
        let topic = Topic::new(&text).unwrap();
        prop_assert!(TopicPattern::new(&text).unwrap().matches(&topic));
    }

    #[test]
    fn any_text_is_judged_without_panic(text in ".{0,60}") {
        let is_topic = Topic::new(&text).is_ok();
        prop_assert!(!is_topic || TopicPattern::new(&text).is_ok());
    }
}
