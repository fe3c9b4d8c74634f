//! Tests of splitting long answers.

use super::*;
use crate::reply::complexity_probe::count_scanned_bytes;
use proptest::prelude::*;

const LIMIT: usize = 11_000;

fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Removes fence lines and whitespace.
fn without_fences(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| opening_fence(line).is_none())
        .collect();
    without_whitespace(&lines.join("\n"))
}

fn japanese(characters: usize) -> String {
    let sentence = "これは長い回答の一文です。";
    let paragraph = format!("{}\n\n", sentence.repeat(20));
    paragraph.chars().cycle().take(characters).collect()
}

#[test]
fn text_is_split_into_fewest_messages() {
    for (characters, messages) in [(1, 1), (8_000, 1), (11_000, 1), (40_000, 4)] {
        let text = japanese(characters);
        let pieces = split(&text, LIMIT);
        assert_eq!(pieces.len(), messages, "{characters}");
        assert_eq!(
            without_whitespace(&pieces.concat()),
            without_whitespace(&text)
        );
    }
    let english = "A sentence of an answer. ".repeat(1_600);
    assert_eq!(split(&english, LIMIT).len(), 4);
    let unbroken = "あ".repeat(40_000);
    assert_eq!(split(&unbroken, LIMIT).len(), 4);
}

#[test]
fn blank_text_yields_no_message() {
    for blank in ["", " ", "\n\n", "\u{3000}\n"] {
        assert!(split(blank, LIMIT).is_empty());
    }
}

#[test]
fn cut_prefers_paragraph_then_line_then_sentence() {
    let long = "x".repeat(45);
    let text = format!("{long}\n\nA line here.\nAnother line. And one more sentence that is long");
    let pieces = split(&text, 80);
    assert_eq!(pieces[0], long);
    let text = format!("{long}\nA line here. More of it, and then it goes on and on for a while");
    assert_eq!(split(&text, 80)[0], long);
    let text = format!("{long} A sentence. Another sentence that does not fit any more, sadly");
    assert_eq!(split(&text, 80)[0], format!("{long} A sentence."));
}

#[test]
fn japanese_sentence_keeps_closing_punctuation() {
    let text = format!("{}。「本当ですか？」{}", "長".repeat(50), "い".repeat(60));
    let pieces = split(&text, 80);
    assert_eq!(pieces[0], format!("{}。「本当ですか？」", "長".repeat(50)));
    assert_eq!(pieces[1], "い".repeat(60));
    // A period within a number ends no sentence.
    let text = format!("{} 3.14159{}", "a".repeat(40), "2".repeat(60));
    assert_eq!(split(&text, 64)[0], "a".repeat(40));
}

#[test]
fn cut_code_block_is_reopened_with_its_language() {
    let code: Vec<String> = (0..40)
        .map(|number| format!("    line_{number}();"))
        .collect();
    let text = format!("Before.\n\n```rust\n{}\n```\n\nAfter.", code.join("\n"));
    let pieces = split(&text, 200);
    assert!(pieces.len() > 2);
    for piece in &pieces {
        let fences: Vec<&str> = piece
            .lines()
            .filter(|line| line.starts_with("```"))
            .collect();
        assert!(fences.len().is_multiple_of(2), "{piece}");
        assert!(!piece.contains("```rust\n```"), "empty block: {piece}");
    }
    for line in &code {
        let found = pieces
            .iter()
            .filter(|piece| piece.lines().any(|other| other == line));
        assert_eq!(found.count(), 1, "{line}");
    }
    assert!(pieces[1].starts_with("```rust\n    line_"));
    assert!(pieces.last().unwrap().ends_with("```\n\nAfter."));
}

#[test]
fn cut_blocks_in_quote_are_reopened_in_quote() {
    let code = format!("> ```rust\n{}> ```\nafter", "> let a = 1;\n".repeat(40));
    let parts = split(&code, 200);
    assert!(parts.len() > 2, "{parts:#?}");
    for (number, part) in parts.iter().enumerate() {
        assert!(part.starts_with("> ```rust\n> let"), "{part}");
        let ending = if number + 1 == parts.len() {
            "> ```\nafter"
        } else {
            "\n> ```"
        };
        assert!(part.ends_with(ending), "{part}");
        assert_eq!(part.matches("```").count(), 2, "{part}");
    }
    let lines = parts.iter().map(|part| part.matches("let a").count());
    assert_eq!(lines.sum::<usize>(), 40);

    // Inside code, a quote marker is code.
    let code = format!("```\n> ```\n{}```", "plain code\n".repeat(40));
    let parts = split(&code, 200);
    assert!(
        parts
            .iter()
            .all(|part| part.starts_with("```\n") && part.ends_with("\n```"))
    );

    // The end of a quote ends its code block.
    let text = format!("> ```\n> code\n{}", "no code\n".repeat(60));
    assert!(
        split(&text, 200)
            .iter()
            .skip(1)
            .all(|part| !part.contains('`'))
    );

    let table = format!("> |a|b|\n> |-|-|\n{}", "> |1|2|\n".repeat(60));
    let parts = split(&table, 200);
    assert!(parts.len() > 2);
    assert!(
        parts
            .iter()
            .all(|part| part.starts_with("> |a|b|\n> |-|-|\n> |1|2|")),
        "{parts:#?}"
    );
}

#[test]
fn cut_table_repeats_its_header() {
    let rows: Vec<String> = (0..40)
        .map(|number| format!("| {number} | value {number} |"))
        .collect();
    let head = "| id | value |\n|---|:-:|";
    let text = format!("Here:\n\n{head}\n{}\n\nThat was it.", rows.join("\n"));
    let pieces = split(&text, 200);
    assert!(pieces.len() > 2);
    for piece in pieces
        .iter()
        .skip(1)
        .filter(|piece| piece.contains("| value "))
    {
        assert!(piece.starts_with(head), "{piece}");
    }
    for row in &rows {
        let found = pieces
            .iter()
            .filter(|piece| piece.lines().any(|other| other == row));
        assert_eq!(found.count(), 1, "{row}");
    }
    assert!(!pieces.last().unwrap().contains("|---|") || pieces.last().unwrap().contains("| 39 |"));
}

#[test]
fn grapheme_cluster_is_not_split() {
    let family = "👨‍👩‍👧‍👦";
    let text = family.repeat(30);
    let pieces = split(&text, 64);
    assert!(pieces.len() > 1);
    for piece in &pieces {
        assert!(
            piece.graphemes(true).all(|cluster| cluster == family),
            "{piece}"
        );
    }
    // A cluster longer than a message is split.
    let zalgo = format!("e{}", "\u{301}".repeat(500));
    let pieces = split(&zalgo, 64);
    assert_eq!(pieces.concat(), zalgo);
}

#[test]
fn overlong_fence_line_respects_limit() {
    let text = format!("```{}\n{}\n```", "i".repeat(500), "code\n".repeat(100));
    for piece in split(&text, 100) {
        assert!(utf16_len(&piece) <= 100, "{} {piece}", utf16_len(&piece));
    }
    let text = format!("{}\ncode\n", "`".repeat(500));
    for piece in split(&text, 100) {
        assert!(utf16_len(&piece) <= 100, "{} {piece}", utf16_len(&piece));
    }
}

#[test]
fn splitting_takes_linear_time() {
    let limit = 2_000;
    let opener = format!("```{}\n", "i".repeat(400));
    let fence = format!("{}\n", "`".repeat(400));
    let header = format!("| {} |\n|---|\n", "h".repeat(400));
    let zalgo = format!("e{}", "\u{301}".repeat(200_000));
    for (name, text) in [
        ("one line", "x".repeat(400_000)),
        ("words", "wörd ".repeat(80_000)),
        ("sentences", "一文。".repeat(40_000)),
        ("short lines", "x\n".repeat(200_000)),
        ("paragraphs", "x\n\n".repeat(130_000)),
        ("blank lines", format!("x{}x", "\n".repeat(400_000))),
        ("blank code", format!("```\n{}x", "\n".repeat(400_000))),
        ("spaces in code", format!("```\n{}x", " ".repeat(400_000))),
        (
            "code with long info string",
            format!("{opener}{}", "x\n".repeat(200_000)),
        ),
        (
            "code with long fence",
            format!("{fence}{}", "x\n".repeat(200_000)),
        ),
        ("code blocks", "```\nx\n```\n".repeat(40_000)),
        ("a table", format!("{header}{}", "|\n".repeat(200_000))),
        ("tables", "|\n|-\n\n".repeat(60_000)),
        ("a long row", format!("{header}|{}", "x".repeat(400_000))),
        ("one grapheme cluster", zalgo),
    ] {
        let scanned = count_scanned_bytes(|| split(&text, limit));
        assert!(
            scanned <= 40 * text.len(),
            "{name}: {scanned} of {}",
            text.len()
        );
    }
}

fn markdown() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[a-z .!?]{0,60}",
        2 => "[ぁ-ん。！？、]{0,60}",
        1 => Just(String::new()),
        1 => Just("```".to_owned()),
        1 => Just("```rust".to_owned()),
        1 => Just("~~~~".to_owned()),
        1 => Just("| a | b |".to_owned()),
        1 => Just("|---|---|".to_owned()),
        1 => "\\PC{0,80}",
        1 => "[👍🏽é🇯🇵‍]{0,40}",
    ];
    proptest::collection::vec(line, 0..25).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn messages_respect_limit_and_are_not_blank(text in markdown(), limit in 64..400_usize) {
        for piece in split(&text, limit) {
            prop_assert!(utf16_len(&piece) <= limit);
            prop_assert!(!piece.trim().is_empty());
        }
    }

    #[test]
    fn splitting_keeps_plain_text(text in "[a-zぁ-ん。. \n👍🏽é]{0,800}", limit in 64..400_usize) {
        prop_assert_eq!(without_whitespace(&split(&text, limit).concat()), without_whitespace(&text));
    }

    #[test]
    fn splitting_keeps_code(text in "([a-z ]{0,30}\n|```\n){0,40}", limit in 64..200_usize) {
        prop_assert_eq!(without_fences(&split(&text, limit).join("\n")), without_fences(&text));
    }

    #[test]
    fn fitting_text_is_unchanged(text in markdown()) {
        let pieces = split(&text, 1_000_000);
        let expected = text.trim_end().trim_start_matches(['\n', '\r']);
        if !expected.trim().is_empty() {
            prop_assert_eq!(pieces, vec![expected.to_owned()]);
        }
    }

    #[test]
    fn cut_code_block_is_closed_in_each_message(body in "([a-z]{10,30}\n){10,60}") {
        let text = format!("```py\n{body}```");
        let pieces = split(&text, 100);
        prop_assert!(pieces.len() > 1);
        for piece in &pieces {
            prop_assert!(piece.starts_with("```py\n") && piece.ends_with("\n```"));
        }
    }
}
