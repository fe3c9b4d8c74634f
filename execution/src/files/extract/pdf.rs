//! Text of PDF documents, page by page. Images are never unpacked.

mod page;

use super::TextSink;
use crate::files::{FileProblem, InputRules};
use lopdf::{DecompressError, Document, Error, LoadOptions};
use page::FontCache;

/// Maximum unpacked size of a stream of a page, a font or the document's own tables.
const MAX_STREAM_BYTES: usize = 8 * 1024 * 1024;

/// Returns true if the document has an encryption dictionary. The dictionary is never compressed itself, so it is
/// found without parsing the document.
pub(in crate::files) fn is_encrypted(bytes: &[u8]) -> bool {
    let mut names = bytes.split(|byte| *byte == b'/').skip(1);
    names.any(|rest| is_name(rest, b"Encrypt"))
}

pub(super) fn extract(
    bytes: &[u8],
    rules: &InputRules,
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    if is_encrypted(bytes) {
        return Err(FileProblem::Encrypted);
    }
    let options = LoadOptions {
        max_decompressed_size: Some(MAX_STREAM_BYTES),
        ..LoadOptions::default()
    };
    let document =
        Document::load_mem_with_options(bytes, options).map_err(|error| to_problem(&error))?;
    if document.is_encrypted() || document.was_encrypted() {
        return Err(FileProblem::Encrypted);
    }
    let mut remaining = usize::try_from(rules.unpacked_bytes).unwrap_or(usize::MAX);
    let mut fonts = FontCache::default();
    for (number, page) in document.page_iter().enumerate() {
        if number >= rules.pages {
            return Err(FileProblem::Bomb);
        }
        if out.is_full() {
            break;
        }
        page::extract(&document, page, &mut fonts, &mut remaining, out)?;
        out.end_line();
    }
    Ok(())
}

fn to_problem(error: &Error) -> FileProblem {
    match error {
        Error::Decompress(DecompressError::MemoryLimitExceeded { .. }) => FileProblem::Bomb,
        Error::Decryption(_) | Error::InvalidPassword => FileProblem::Encrypted,
        _ => FileProblem::Damaged,
    }
}

/// Returns true if the bytes begin with this complete name. `#41` in a name means `A`.
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
