//! Invisible and bidirectional-control characters.

/// Returns true for invisible characters. They have uses inside words and emoji; alone they show nothing.
fn is_invisible_char(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || is_bidi_control(c)
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{feff}')
        // Filler letters, and the Braille blank.
        || matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}')
        || matches!(c, '\u{2060}'..='\u{2065}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(c, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns true for bidirectional control characters.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Returns true if the text has no visible character.
pub(crate) fn is_invisible(text: &str) -> bool {
    text.chars().all(is_invisible_char)
}

/// Removes bidirectional and terminal control characters from a line. Returns an empty string for an invisible line.
pub(crate) fn strip_bidi_and_control(line: &str) -> String {
    if is_invisible(line) {
        return String::new();
    }
    let is_terminal_control = |sign: char| sign.is_control() && !sign.is_whitespace();
    let filtered = line
        .chars()
        .filter(|sign| !is_bidi_control(*sign) && !is_terminal_control(*sign));
    filtered
        .map(|sign| if sign.is_control() { ' ' } else { sign })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_text_is_detected() {
        for blank in [
            "",
            " \t\n\u{3000}\u{a0}",
            "\u{200b}",
            "\u{2060}\u{feff}",
            "\u{ad} \u{200e}\u{200f}",
            "\u{202e}\u{2066}\u{2069}",
            "\u{3164}\u{2800}",
            "\u{fe0f}\u{e0041}\u{200d}",
            "\u{0}\u{7}",
        ] {
            assert!(is_invisible(blank), "{}", blank.escape_unicode());
        }
        for visible in [".", "あ", "\u{200b}?", "❤\u{fe0f}", "ا", "ᄀ", "\u{2801}"] {
            assert!(!is_invisible(visible), "{}", visible.escape_unicode());
        }
    }

    #[test]
    fn strip_removes_bidi_and_control_characters() {
        for (line, expected) in [
            ("reading \u{202e}fdp.exe", "reading fdp.exe"),
            ("a\u{2067}b\u{2069}c\u{61c}\u{200f}", "abc"),
            ("one\u{1b}[2Jtwo\r\n", "one[2Jtwo  "),
            ("\u{202e}\u{200b}", ""),
            // Emoji joiners and the word joiner in an escaped mention stay.
            (
                "👩\u{200d}💻 <\u{2060}!here>",
                "👩\u{200d}💻 <\u{2060}!here>",
            ),
        ] {
            assert_eq!(
                strip_bidi_and_control(line),
                expected,
                "{}",
                line.escape_unicode()
            );
        }
    }
}
