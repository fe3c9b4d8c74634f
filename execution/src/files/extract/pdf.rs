//! The text of PDF documents, page by page. Pictures are never unpacked.

mod page;

use super::Out;
use crate::files::{InputRules, Problem};
use lopdf::{DecompressError, Document, Error, LoadOptions};
use page::Fonts;

/// How much one stream of a page, a font or the document's own tables may unpack to.
const STREAM: usize = 8 * 1024 * 1024;

/// Whether a dictionary says how the document is encrypted. Such a dictionary is never packed itself, so it
/// is found without parsing the document.
pub(in crate::files) fn is_encrypted(bytes: &[u8]) -> bool {
    let mut names = bytes.split(|byte| *byte == b'/').skip(1);
    names.any(|rest| is_name(rest, b"Encrypt"))
}

pub(super) fn read(bytes: &[u8], rules: &InputRules, out: &mut Out) -> Result<(), Problem> {
    if is_encrypted(bytes) {
        return Err(Problem::Encrypted);
    }
    let options = LoadOptions {
        max_decompressed_size: Some(STREAM),
        ..LoadOptions::default()
    };
    let document =
        Document::load_mem_with_options(bytes, options).map_err(|error| problem(&error))?;
    if document.is_encrypted() || document.was_encrypted() {
        return Err(Problem::Encrypted);
    }
    let mut left = usize::try_from(rules.unpacked_bytes).unwrap_or(usize::MAX);
    let mut fonts = Fonts::default();
    for (number, page) in document.page_iter().enumerate() {
        if number >= rules.pages {
            return Err(Problem::Bomb);
        }
        if out.is_full() {
            break;
        }
        page::read(&document, page, &mut fonts, &mut left, out)?;
        out.line();
    }
    Ok(())
}

fn problem(error: &Error) -> Problem {
    match error {
        Error::Decompress(DecompressError::MemoryLimitExceeded { .. }) => Problem::Bomb,
        Error::Decryption(_) | Error::InvalidPassword => Problem::Encrypted,
        _ => Problem::Damaged,
    }
}

/// Whether these bytes begin with a whole name. `#41` in a name means `A`.
fn is_name(bytes: &[u8], expected: &[u8]) -> bool {
    let mut rest = bytes;
    for letter in expected {
        rest = match rest {
            [b'#', high, low, after @ ..] if hex(*high, *low) == Some(*letter) => after,
            [first, after @ ..] if first == letter => after,
            _ => return false,
        };
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\0()<>[]{}%".contains(byte);
    rest.first().is_none_or(ends)
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
