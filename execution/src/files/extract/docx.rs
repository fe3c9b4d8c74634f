//! The text of Word documents: paragraphs and tables in their order, then notes.

use super::Out;
use super::office::Package;
use super::xml::paragraphs;
use crate::files::Problem;

/// What of a document is not its text: the same once more for older programs, and how paragraphs look.
const SKIPPED: [&str; 2] = ["Fallback", "pPr"];

pub(super) fn read(package: &mut Package<'_>, out: &mut Out) -> Result<(), Problem> {
    let main = package.main_part("word/document.xml")?;
    paragraphs(&main, &SKIPPED, out)?;
    for notes in ["word/footnotes.xml", "word/endnotes.xml"] {
        if let Some(part) = package.part(notes)? {
            out.line();
            paragraphs(&part, &SKIPPED, out)?;
        }
    }
    Ok(())
}
