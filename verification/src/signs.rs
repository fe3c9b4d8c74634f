//! Signs that nobody sees, and signs that turn a line around. What is written with them, and what for, is
//! not known here.

/// Whether nobody sees a sign. Those between the letters of a word, or in an emoji, have their use; alone
/// they say nothing.
fn is_unseen(sign: char) -> bool {
    sign.is_whitespace()
        || sign.is_control()
        || turns(sign)
        || matches!(sign, '\u{ad}' | '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{feff}')
        // Letters that only fill a place, and Braille without a dot.
        || matches!(sign, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}')
        || matches!(sign, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}')
        || matches!(sign, '\u{2060}'..='\u{2065}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(sign, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(sign, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a sign says in which direction others are read.
fn turns(sign: char) -> bool {
    matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Whether there is nothing to read.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_unseen)
}

/// A line without what turns it around and what drives a terminal; nothing if there is nothing to read.
pub(crate) fn straight(line: &str) -> String {
    if is_blank(line) {
        return String::new();
    }
    let drives = |sign: char| sign.is_control() && !sign.is_whitespace();
    let kept = line.chars().filter(|sign| !turns(*sign) && !drives(*sign));
    kept.map(|sign| if sign.is_control() { ' ' } else { sign })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_blank_and_the_least_dot_is_not() {
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
            assert!(is_blank(blank), "{}", blank.escape_unicode());
        }
        for seen in [".", "あ", "\u{200b}?", "❤\u{fe0f}", "ا", "ᄀ", "\u{2801}"] {
            assert!(!is_blank(seen), "{}", seen.escape_unicode());
        }
    }

    #[test]
    fn a_line_runs_straight() {
        for (line, straightened) in [
            ("reading \u{202e}fdp.exe", "reading fdp.exe"),
            ("a\u{2067}b\u{2069}c\u{61c}\u{200f}", "abc"),
            ("one\u{1b}[2Jtwo\r\n", "one[2Jtwo  "),
            ("\u{202e}\u{200b}", ""),
            // What joins an emoji, and what keeps a mention apart, stays.
            (
                "👩\u{200d}💻 <\u{2060}!here>",
                "👩\u{200d}💻 <\u{2060}!here>",
            ),
        ] {
            assert_eq!(straight(line), straightened, "{}", line.escape_unicode());
        }
    }
}
