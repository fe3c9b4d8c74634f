//! Decodes text in any common encoding.
//!
//! Files do not declare their encoding, so it is detected: by its byte order mark, by being valid UTF-8, by resembling
//! Japanese, else as Windows-1252.

use encoding_rs::{
    EUC_JP, Encoding, ISO_2022_JP, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252,
};
use std::borrow::Cow;

/// Decodes the bytes, or returns `None` if they are not text.
pub(in crate::files) fn decode(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let is_supported = encoding == UTF_8 || encoding == UTF_16LE || encoding == UTF_16BE;
        let text = decode_strict(encoding, bytes.get(mark..)?).filter(|_| is_supported)?;
        return is_text(&text).then_some(text);
    }
    if bytes.contains(&0) {
        return None;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        // ISO-2022-JP consists of ASCII characters after an escape sequence.
        let escapes: [&[u8]; 3] = [b"\x1b$B", b"\x1b$@", b"\x1b(J"];
        let escaped = |escape: &&[u8]| bytes.windows(3).any(|found| found == *escape);
        if bytes.contains(&0x1b)
            && escapes.iter().any(escaped)
            && let Some(text) = decode_strict(ISO_2022_JP, bytes)
        {
            return is_text(&text).then_some(text);
        }
        return is_text(text).then_some(Cow::Borrowed(text));
    }
    let japanese = [SHIFT_JIS, EUC_JP]
        .into_iter()
        .filter_map(|encoding| decode_strict(encoding, bytes))
        .map(|text| (japanese_score(&text), text))
        .filter(|(likeness, _)| *likeness > 0)
        .max_by_key(|(likeness, _)| *likeness);
    let text = match japanese {
        Some((_, text)) => text,
        None => WINDOWS_1252.decode_without_bom_handling(bytes).0,
    };
    is_text(&text).then_some(text)
}

fn decode_strict<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    encoding.decode_without_bom_handling_and_without_replacement(bytes)
}

/// Scores how much a text resembles Japanese. Kana are the main sign: hardly any Japanese text is without them, and
/// hardly any other text has them by accident. Consecutive kanji count too, and half-width katakana, which bytes of
/// other encodings become, count against it.
fn japanese_score(text: &str) -> i64 {
    let mut score: i64 = 0;
    let mut previous = ' ';
    for c in text.chars() {
        score += match c {
            '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fc}' => 3,
            '\u{3000}'..='\u{3002}' | '\u{ff01}'..='\u{ff5e}' => 1,
            '\u{4e00}'..='\u{9fff}' if matches!(previous, '\u{4e00}'..='\u{9fff}') => 1,
            // An accented letter between plain ones becomes a kanji or a half-width katakana.
            '\u{4e00}'..='\u{9fff}' if previous.is_ascii_alphabetic() => -3,
            '\u{ff61}'..='\u{ff9f}' => -2,
            '\u{e000}'..='\u{f8ff}' => -5,
            _ => 0,
        };
        previous = c;
    }
    score
}

/// Returns true if the text contains hardly any control characters.
fn is_text(text: &str) -> bool {
    let is_odd = |c: &char| {
        c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1a}' | '\u{1b}')
    };
    let count = text.chars().filter(is_odd).count();
    !text.contains('\0') && count <= text.len() / 200
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_encodings_are_decoded() {
        let text = "売上,金額\r\nりんご,100\r\nバナナ,200\r\n";
        for encoding in [SHIFT_JIS, EUC_JP, ISO_2022_JP, UTF_8] {
            let bytes = encoding.encode(text).0;
            assert_eq!(decode(&bytes).as_deref(), Some(text), "{}", encoding.name());
        }
        let french = "déjà vu, été à Noël; naïve façade\n";
        let bytes = WINDOWS_1252.encode(french).0;
        assert_eq!(decode(&bytes).as_deref(), Some(french));
        let kanji = SHIFT_JIS.encode("東京都千代田区").0;
        assert_eq!(decode(&kanji).as_deref(), Some("東京都千代田区"));
        let marked = [b"\xef\xbb\xbf".as_slice(), text.as_bytes()].concat();
        assert_eq!(decode(&marked).as_deref(), Some(text));
        for (mark, bytes) in [
            (b"\xff\xfe", u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (b"\xfe\xff", u16::to_be_bytes as fn(u16) -> [u8; 2]),
        ] {
            let wide: Vec<u8> = text.encode_utf16().flat_map(bytes).collect();
            let marked = [mark.as_slice(), &wide].concat();
            assert_eq!(decode(&marked).as_deref(), Some(text));
        }
    }

    #[test]
    fn binary_data_is_not_decoded() {
        for bytes in [
            b"a\0b".as_slice(),
            b"\xff\xfea",
            b"\xef\xbb\xbf\xff",
            b"\x7fELF\x02\x01\x01\x03\x04\x05",
        ] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
        assert_eq!(decode(b"").as_deref(), Some(""));
    }
}
