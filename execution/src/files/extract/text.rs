//! Bytes that are text, in whichever of the usual encodings.
//!
//! No file says which it is in, so it is found out: by its mark, by being UTF-8, by reading like
//! Japanese, and else as the Windows encoding of western Europe.

use encoding_rs::{
    EUC_JP, Encoding, ISO_2022_JP, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252,
};
use std::borrow::Cow;

/// The text, or nothing if these bytes are not text.
pub(in crate::files) fn decode(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let marked = encoding == UTF_8 || encoding == UTF_16LE || encoding == UTF_16BE;
        let text = strict(encoding, bytes.get(mark..)?).filter(|_| marked)?;
        return is_text(&text).then_some(text);
    }
    if bytes.contains(&0) {
        return None;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        // Its characters are made of plain ones behind an escape.
        let escapes: [&[u8]; 3] = [b"\x1b$B", b"\x1b$@", b"\x1b(J"];
        let escaped = |escape: &&[u8]| bytes.windows(3).any(|found| found == *escape);
        if bytes.contains(&0x1b)
            && escapes.iter().any(escaped)
            && let Some(text) = strict(ISO_2022_JP, bytes)
        {
            return is_text(&text).then_some(text);
        }
        return is_text(text).then_some(Cow::Borrowed(text));
    }
    let japanese = [SHIFT_JIS, EUC_JP]
        .into_iter()
        .filter_map(|encoding| strict(encoding, bytes))
        .map(|text| (likeness(&text), text))
        .filter(|(likeness, _)| *likeness > 0)
        .max_by_key(|(likeness, _)| *likeness);
    let text = match japanese {
        Some((_, text)) => text,
        None => WINDOWS_1252.decode_without_bom_handling(bytes).0,
    };
    is_text(&text).then_some(text)
}

fn strict<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    encoding.decode_without_bom_handling_and_without_replacement(bytes)
}

/// How much a text reads like Japanese. Kana are the sign: hardly any Japanese text is without them,
/// and hardly any other text has them by accident. Kanji count if they stand together, and the narrow
/// katakana that bytes of other encodings become count against it.
fn likeness(text: &str) -> i64 {
    let mut score: i64 = 0;
    let mut before = ' ';
    for c in text.chars() {
        score += match c {
            '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fc}' => 3,
            '\u{3000}'..='\u{3002}' | '\u{ff01}'..='\u{ff5e}' => 1,
            '\u{4e00}'..='\u{9fff}' if matches!(before, '\u{4e00}'..='\u{9fff}') => 1,
            // A letter with an accent, between plain ones, becomes a kanji or a narrow katakana.
            '\u{4e00}'..='\u{9fff}' if before.is_ascii_alphabetic() => -3,
            '\u{ff61}'..='\u{ff9f}' => -2,
            '\u{e000}'..='\u{f8ff}' => -5,
            _ => 0,
        };
        before = c;
    }
    score
}

/// Whether there is nothing in it that only machines write.
fn is_text(text: &str) -> bool {
    let odd = |c: &char| {
        c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1a}' | '\u{1b}')
    };
    let count = text.chars().filter(odd).count();
    !text.contains('\0') && count <= text.len() / 200
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_encoding_is_read() {
        let words = "売上,金額\r\nりんご,100\r\nバナナ,200\r\n";
        for encoding in [SHIFT_JIS, EUC_JP, ISO_2022_JP, UTF_8] {
            let bytes = encoding.encode(words).0;
            assert_eq!(
                decode(&bytes).as_deref(),
                Some(words),
                "{}",
                encoding.name()
            );
        }
        let french = "déjà vu, été à Noël; naïve façade\n";
        let bytes = WINDOWS_1252.encode(french).0;
        assert_eq!(decode(&bytes).as_deref(), Some(french));
        let kanji = SHIFT_JIS.encode("東京都千代田区").0;
        assert_eq!(decode(&kanji).as_deref(), Some("東京都千代田区"));
        let marked = [b"\xef\xbb\xbf".as_slice(), words.as_bytes()].concat();
        assert_eq!(decode(&marked).as_deref(), Some(words));
        for (mark, bytes) in [
            (b"\xff\xfe", u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (b"\xfe\xff", u16::to_be_bytes as fn(u16) -> [u8; 2]),
        ] {
            let wide: Vec<u8> = words.encode_utf16().flat_map(bytes).collect();
            let marked = [mark.as_slice(), &wide].concat();
            assert_eq!(decode(&marked).as_deref(), Some(words));
        }
    }

    #[test]
    fn what_is_no_text_is_not_read() {
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
