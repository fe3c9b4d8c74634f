//! The text of PDF documents, page by page.
//!
//! The library that takes a PDF apart unpacks some of it while it loads, and could be made to do so
//! without end: see `guard`. Pictures are never unpacked.

mod guard;
mod page;

use super::{Out, bomb, locked, unreadable};
use crate::files::{Fault, InputRules};
use guard::Guard;
use lopdf::{DecompressError, Document, Error, LoadOptions};
use page::Fonts;

/// How much one stream of a page, a font or the document's own tables may unpack to.
const STREAM: usize = 8 * 1024 * 1024;

/// Refuses what is locked, and what would unpack to too much before it is even read.
pub(in crate::files) fn check(bytes: &[u8]) -> Result<(), Fault> {
    guard::scan(bytes)
}

pub(super) fn read(bytes: &[u8], rules: &InputRules, out: &mut Out) -> Result<(), Fault> {
    guard::scan(bytes)?;
    let document = {
        let _guard = Guard::set(out.until, bytes.len());
        Document::load_mem_with_options(
            bytes,
            LoadOptions {
                filter: Some(guard::watch),
                max_decompressed_size: Some(STREAM),
                ..LoadOptions::default()
            },
        )
        .map_err(|error| fault(&error))?
    };
    if document.is_encrypted() || document.was_encrypted() {
        return Err(locked());
    }
    let mut left = usize::try_from(rules.unpacked_bytes).unwrap_or(usize::MAX);
    let mut fonts = Fonts::default();
    for (number, page) in document.page_iter().enumerate() {
        if number >= rules.pages {
            return Err(bomb());
        }
        out.on_time()?;
        if out.is_full() {
            break;
        }
        page::read(&document, page, &mut fonts, &mut left, out)?;
        out.line();
    }
    Ok(())
}

fn fault(error: &Error) -> Fault {
    match error {
        Error::Decompress(DecompressError::MemoryLimitExceeded { .. }) => bomb(),
        Error::Decryption(_) | Error::InvalidPassword => locked(),
        _ => unreadable(),
    }
}
