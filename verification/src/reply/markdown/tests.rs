//! Whether Markdown becomes Slack's own form, and nobody is called by it.

use super::calls::{JOINER, starts_with};
use super::*;
use proptest::prelude::*;

/// The text as Markdown reads it: strokes before signs are gone, and spelled signs are signs.
fn as_read(text: &str) -> String {
    let mut read = text.to_owned();
    for (spelled, sign) in [
        ("&lt;", "<"),
        ("&LT;", "<"),
        ("&#60;", "<"),
        ("&#060;", "<"),
        ("&#x3c;", "<"),
        ("&#X3C;", "<"),
        ("&excl;", "!"),
        ("&#33;", "!"),
        ("&#x21;", "!"),
        ("&commat;", "@"),
        ("&#64;", "@"),
        ("&num;", "#"),
        ("&#35;", "#"),
        ("\\", ""),
    ] {
        read = read.replace(spelled, sign);
    }
    read
}

#[test]
fn markdown_becomes_slacks_own_form() {
    for (markdown, wanted) in [
        ("plain", "plain"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("***both***", "*_both_*"),
        (
            "**bold with *italic* inside**",
            "*bold with _italic_ inside*",
        ),
        ("~~gone~~", "~gone~"),
        (
            "snake_case_name and 2 * 3 * 4",
            "snake_case_name and 2 * 3 * 4",
        ),
        ("これは**太字**です", "これは*太字*です"),
        ("\\*not\\* italic", "*not* italic"),
        ("`**code** <b>`", "`**code** &lt;b&gt;`"),
        ("``a ` b``", "`a ` b`"),
        ("an open ` tick", "an open ` tick"),
        (
            "[site](https://example.com/?a=1&b=2)",
            "<https://example.com/?a=1&amp;b=2|site>",
        ),
        (
            "[wiki](https://example.com/a_(b))",
            "<https://example.com/a_(b)|wiki>",
        ),
        (
            "[t](https://example.com \"title\")",
            "<https://example.com|t>",
        ),
        (
            "![picture](https://example.com/p.png)",
            "<https://example.com/p.png|picture>",
        ),
        ("[x](javascript:alert(1))", "x (javascript:alert(1))"),
        ("[x](!channel)", "x (!channel)"),
        (
            "[<!channel>](https://example.com)",
            "<https://example.com|&lt;!channel&gt;>",
        ),
        ("<https://example.com>", "<https://example.com>"),
        ("a < b && b > c", "a &lt; b &amp;&amp; b &gt; c"),
        ("# Title", "*Title*"),
        ("## **Bold** title ##", "*Bold title*"),
        ("#hashtag", "#hashtag"),
        ("- one\n  * two\n+ three", "• one\n  • two\n• three"),
        ("1. first\n2. second", "1. first\n2. second"),
        ("> quoted **words**", "> quoted *words*"),
        (">> deep\n>  > - twice", "> > deep\n> > • twice"),
        ("---", "──────────"),
        (
            "```rust\nlet a: &str = \"**\";\n```",
            "```\nlet a: &amp;str = \"**\";\n```",
        ),
        ("~~~\n```\n~~~", "```\n```\n```"),
        ("```\nnever closed", "```\nnever closed\n```"),
        (
            "| a | b |\n|---|---|\n| **1** | < |\n\nafter",
            "```\n| a | b |\n|---|---|\n| **1** | &lt; |\n```\n\nafter",
        ),
    ] {
        assert_eq!(mrkdwn(markdown), wanted, "{markdown}");
    }
}

#[test]
fn nobody_is_called_and_nothing_of_slacks_is_forged_by_an_answer() {
    for call in [
        "<!channel>",
        "<!here|here>",
        "<!everyone>",
        "<!subteam^S123>",
        "<!date^1392734382^{date_short}|soon>",
        "<!something_of_next_year>",
        "<@U123>",
        "<@W9|x>",
        "<@S123>",
        "<#C123|general>",
        "<#G1>",
        "<!CHANNEL>",
        "&lt;!channel&gt;",
        "&LT;!channel>",
        "<\\!channel>",
        "<!\\channel>",
        "\\<!channel>",
        "<\\@U123>",
        "&#60;!channel>",
        "&#060;!channel>",
        "&#x3c;!here>",
        "&#X3C;@U1>",
        "&#60;&#33;channel>",
        "<&#33;channel>",
        "<&#x21;channel>",
        "<&excl;channel>",
        "<&commat;U123>",
        "<&#64;U123>",
        "<&num;C123>",
        "<!&#99;hannel>",
        "<\\&#33;channel>",
        "<<!channel>>",
    ] {
        let text = format!("hello {call} and `{call}`\n```\n{call}\n```");
        let safe = defuse(&text);
        let read = as_read(&safe);
        for form in ["<!", "<@", "<#"] {
            assert!(!read.contains(form), "{call}: {read}");
        }
        // Nothing but the signs in between was added.
        assert_eq!(safe.replace(JOINER, ""), text);
        // What is safe already stays as it is.
        assert!(matches!(defuse(&safe), Cow::Borrowed(_)), "{call}");
        // The text beside the blocks spells every such sign out.
        for text in [&text, &*safe] {
            let own = mrkdwn(text);
            assert!(!own.contains('<'), "{own}");
        }
    }
}

#[test]
fn what_only_looks_like_a_call_stays_as_it_is() {
    for text in [
        "<!DOCTYPE html>",
        "<!-- a comment -->",
        "<![CDATA[x]]>",
        "<!ELEMENT br EMPTY>",
        "<#if x>",
        "AT&T &amp; co",
        "&#12345; &#x1F600;",
        "a <= b << 2 &num; 3",
        "a <b> & c",
        "<@media>",
        "mail @usual",
        "Vec<&str>",
        "x &lt; y",
    ] {
        assert!(matches!(defuse(text), Cow::Borrowed(_)), "{text}");
    }
}

#[test]
fn a_growing_text_waits_where_a_call_may_begin() {
    for (text, wanted) in [
        ("a <", "a "),
        ("a <!", "a "),
        ("a <!chan", "a <!chan"),
        ("a <<<", "a "),
        ("a <&#33;&", "a "),
        ("a <@", "a "),
        ("a &l", "a "),
        ("a &lt;!", "a "),
        ("a &lt;!he", "a &lt;!he"),
        ("a <!channel", "a <!channel"),
        ("a <b", "a <b"),
        ("a < b", "a < b"),
        ("a <!DOC", "a "),
        ("a <!DOCTYPE", "a <!DOCTYPE"),
        ("a <!da", "a <!da"),
        ("a <\\", "a "),
        ("a &#6", "a "),
        ("a &#60", "a "),
        ("a &#x3", "a "),
        ("a &#12", "a &#12"),
        ("a <&#3", "a "),
        ("a <&#33;", "a "),
        ("AT&T", "AT&T"),
        ("あ", "あ"),
    ] {
        assert_eq!(settled(text), wanted, "{text}");
    }
}

#[test]
fn quotes_may_be_as_deep_as_an_answer_is_long() {
    let depth = 100_000;
    let text = format!("{}# deep", ">".repeat(depth));
    assert_eq!(mrkdwn(&text), format!("{}*deep*", "> ".repeat(depth)));
}

#[test]
fn a_text_that_is_all_signs_is_looked_at_once() {
    // Looked at again from each of them, it would take minutes.
    for sign in ["<", "&", "<!", "&#60;", "<\\", "&lt;"] {
        let text = sign.repeat(400_000 / sign.len());
        assert!(settled(&text).len() <= text.len());
        assert_eq!(defuse(&text).replace(JOINER, ""), text);
    }
}

proptest! {
    #[test]
    fn a_defused_text_only_grows(text in "(<|&lt;|&#60;|&#x3c;|&#33;|&num;|\\\\|!|@|#|U|W|C|channel|here|date|doctype|[ 0-9a-zあ&;]){0,40}") {
        let mut said = String::new();
        for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let now = defuse(settled(&text[..at])).into_owned();
            prop_assert!(now.starts_with(&said), "{said:?} {now:?}");
            said = now;
        }
        prop_assert!(defuse(&text).starts_with(&said));
    }

    #[test]
    fn nothing_gets_through_that_slack_would_read(text in "\\PC{0,200}|[<>!@&|a-zU`*_~()\\[\\]\n-]{0,200}") {
        let own = mrkdwn(&text);
        for (at, _) in own.match_indices('<') {
            let rest = &own[at + 1..];
            prop_assert!(
                ["http", "mailto:"].iter().any(|scheme| starts_with(rest, scheme)),
                "{own}"
            );
        }
    }
}
