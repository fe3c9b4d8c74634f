//! Signs that nobody sees, and that make a text look like something else. What is said instead of a text
//! that shows nothing is decided elsewhere.

/// Whether there is nothing to see in a text.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|sign| sign.is_whitespace() || sign.is_control() || is_invisible(sign))
}

/// A text without the signs that turn it around or drive whatever shows it. Those that hold emoji together
/// stay.
pub(super) fn steady(text: &str) -> String {
    let drives = |sign: char| sign.is_control() && !sign.is_whitespace();
    text.chars()
        .filter(|sign| !drives(*sign) && !turns(*sign))
        .collect()
}

/// What Unicode lets go by unseen where it is not understood, and two blanks that are none by name.
fn is_invisible(sign: char) -> bool {
    turns(sign)
        || matches!(
            sign,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        )
        || matches!(sign, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}')
        || matches!(
            sign,
            '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        )
        || matches!(sign, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(sign, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// What changes the direction of the text behind it.
fn turns(sign: char) -> bool {
    matches!(
        sign,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
    ) || matches!(sign, '\u{2066}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_blank_and_what_somebody_sees_is_not() {
        for blank in [
            "",
            " \n",
            "\u{3000}",
            "\u{200b}",
            "\u{2060}\u{feff}",
            "\u{ad} \u{ad}",
            "\u{202e}",
            "\u{7}",
            "\u{115f}\u{3164}",
            "\u{fe0f}",
            "\u{2800}",
            "\u{e0041}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for seen in ["a", "\u{200b}.", "あ", "👍", "👨\u{200d}👩", "\u{301}", "0"] {
            assert!(!is_blank(seen), "{seen:?}");
        }
    }

    #[test]
    fn a_steady_text_turns_nothing_and_keeps_what_belongs_together() {
        assert_eq!(
            steady("a\u{202e}b\u{2066}c\u{200f}d\u{1b}[2J\u{0}"),
            "abcd[2J"
        );
        for kept in ["a b\n", "👨\u{200d}👩", "❤\u{fe0f}", "می\u{200c}خواهم"] {
            assert_eq!(steady(kept), kept);
        }
    }
}
