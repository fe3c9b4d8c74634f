//! Tests of Markdown conversion and mention escaping.

use super::escape_mentions::{WORD_JOINER, starts_with_ignore_case};
use super::*;
use proptest::prelude::*;

/// Decodes a text as Markdown does: backslashes removed, entities decoded.
fn decode(text: &str) -> String {
    let mut decoded = text.to_owned();
    for (encoded, c) in [
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
        decoded = decoded.replace(encoded, c);
    }
    decoded
}

#[test]
fn markdown_is_converted_to_mrkdwn() {
    for (markdown, expected) in [
        ("plain", "plain"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("***both***", "_*both*_"),
        (
            "**bold with *italic* inside**",
            "*bold with _italic_ inside*",
        ),
        ("~~gone~~", "~gone~"),
        (
            "snake_case_name and 2 * 3 * 4",
            "snake_case_name and 2 * 3 * 4",
        ),
        ("**a **b** c**", "*a b c*"),
        ("これは**太字**です", "これは*太字*です"),
        (
            "これは**「太字」**です。~~（誤）~~正",
            "これは*「太字」*です。~（誤）~正",
        ),
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
            "[x](<https://example.com/a b>)",
            "x (https://example.com/a b)",
        ),
        (
            "[**a|b** `c`](https://example.com/|)",
            "<https://example.com/%7C|ab c>",
        ),
        (
            "[![alt](https://example.com/i.png)](https://example.com)",
            "<https://example.com|alt>",
        ),
        ("<me@example.com>", "<mailto:me@example.com|me@example.com>"),
        (
            "[<!channel>](https://example.com)",
            "<https://example.com|&lt;!channel&gt;>",
        ),
        ("<https://example.com>", "<https://example.com>"),
        ("a < b && b > c", "a &lt; b &amp;&amp; b &gt; c"),
        ("# Title", "*Title*"),
        ("## **Bold** title ##", "*Bold title*"),
        ("#hashtag", "#hashtag"),
        ("a\n\n#\n\n# 2\\*3 `b*c`", "a\n\n\n\n*23 `bc`*"),
        ("Title\n===\ntext\nmore", "*Title*\ntext\nmore"),
        ("- one\n  * two\n+ three", "• one\n  • two\n• three"),
        ("1. first\n2. second", "1. first\n2. second"),
        (
            "3. a\n   - b\n\n     c\n4. # d\n   e\n-\n- f",
            "3. a\n   • b\n\n     c\n4. *d*\n   e\n• \n• f",
        ),
        ("> quoted **words**", "> quoted *words*"),
        (">> deep\n>  > - twice", "> > deep\n> > • twice"),
        (
            "> a\n>\n> ```\n> b\n> ```\nc\n\n> d\ne",
            "> a\n>\n> ```\n> b\n> ```\nc\n\n> d\n> e",
        ),
        (
            "> x | y\n> --|--\n> 1 | 2",
            "> ```\n> x | y\n> --|--\n> 1 | 2\n> ```",
        ),
        (
            "<details>\n**a**\n</details>\n\n<b>c</b>",
            "&lt;details&gt;\n**a**\n&lt;/details&gt;\n\n&lt;b&gt;c&lt;/b&gt;",
        ),
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
        assert_eq!(mrkdwn(markdown), expected, "{markdown}");
    }
}

#[test]
fn special_sequences_in_answer_are_escaped() {
    for mention in [
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
        let text = format!("hello {mention} and `{mention}`\n```\n{mention}\n```");
        let escaped = escape_mentions(&text);
        let decoded = decode(&escaped);
        for sequence in ["<!", "<@", "<#"] {
            assert!(!decoded.contains(sequence), "{mention}: {decoded}");
        }
        // Only joiners were added.
        assert_eq!(escaped.replace(WORD_JOINER, ""), text);
        // Escaping is idempotent.
        assert!(
            matches!(escape_mentions(&escaped), Cow::Borrowed(_)),
            "{mention}"
        );
        // The fallback text escapes every `<`.
        for text in [&text, &*escaped] {
            let converted = mrkdwn(text);
            assert!(!converted.contains('<'), "{converted}");
        }
    }
}

#[test]
fn text_resembling_mention_is_unchanged() {
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
        assert!(matches!(escape_mentions(text), Cow::Borrowed(_)), "{text}");
    }
}

#[test]
fn safe_prefix_stops_at_incomplete_sequence() {
    for (text, expected) in [
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
        assert_eq!(safe_prefix(text), expected, "{text}");
    }
}

#[test]
fn deeply_nested_quotes_are_converted() {
    let depth = 100_000;
    let text = format!("{}# deep", ">".repeat(depth));
    assert_eq!(mrkdwn(&text), format!("{}*deep*", "> ".repeat(depth)));
}

#[test]
fn prefix_of_continuation_lines_is_bounded() {
    for open in [">", "- ", "1. "] {
        let text = format!("{}a{}", open.repeat(2_000), "\nb".repeat(2_000));
        let converted = mrkdwn(&text);
        assert!(converted.ends_with('b'));
        assert!(converted.len() < 40 * text.len(), "{open}");
    }
}

#[test]
fn conversion_takes_linear_time() {
    // Quadratic scanning would take minutes.
    for piece in [
        "*a ",
        "**a ",
        "_a ",
        "__a ",
        "~~a ",
        "*",
        "_",
        "~",
        "`a ",
        "`",
        "``a ",
        "[a](",
        "[a",
        "[",
        "![",
        "](",
        "(",
        "<",
        "<a ",
        "<http://a ",
        "\\*",
        "*a** ",
        "*a **b ***c __d _e ~~f ",
        "a_b",
        "[*a](`_",
        "**[a](*",
        "あ*",
        "*「",
        "> *a\n",
        "> ",
        "- ",
        "- a\n",
        "|a|\n|-|\n",
        "<!--",
        "```\n",
        "# a\n",
        "&lt;",
        "\n\n",
    ] {
        let text = piece.repeat(50_000 / piece.len());
        assert!(mrkdwn(&text).len() < 20 * text.len(), "{piece}");
    }
    // Runs of backticks of distinct lengths.
    let runs: String = (1..300).map(|length| "`".repeat(length) + " ").collect();
    assert_eq!(mrkdwn(&runs), runs.trim_end());
}

#[test]
fn escaping_takes_linear_time() {
    // Quadratic scanning would take minutes.
    for sequence in ["<", "&", "<!", "&#60;", "<\\", "&lt;"] {
        let text = sequence.repeat(400_000 / sequence.len());
        assert!(safe_prefix(&text).len() <= text.len());
        assert_eq!(escape_mentions(&text).replace(WORD_JOINER, ""), text);
    }
}

proptest! {
    #[test]
    fn escaped_prefixes_of_growing_text_only_grow(text in "(<|&lt;|&#60;|&#x3c;|&#33;|&num;|\\\\|!|@|#|U|W|C|channel|here|date|doctype|[ 0-9a-zあ&;]){0,40}") {
        let mut previous = String::new();
        for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let current = escape_mentions(safe_prefix(&text[..at])).into_owned();
            prop_assert!(current.starts_with(&previous));
            previous = current;
        }
        prop_assert!(escape_mentions(&text).starts_with(&previous));
    }

    #[test]
    fn mrkdwn_contains_no_sequences_except_links(text in "\\PC{0,200}|[<>!@&|a-zU`*_~()\\[\\]\n-]{0,200}") {
        let converted = mrkdwn(&text);
        for (at, _) in converted.match_indices('<') {
            let remainder = &converted[at + 1..];
            prop_assert!(["http", "mailto:"].iter().any(|scheme| starts_with_ignore_case(remainder, scheme)));
        }
    }
}
