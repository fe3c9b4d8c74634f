//! Text of Word documents: paragraphs and tables in document order, then notes.

use super::TextSink;
use super::office::OfficePackage;
use super::xml::extract_paragraphs;
use crate::files::FileProblem;

/// Elements that are not text: fallback copies for older programs, and paragraph formatting.
const SKIPPED_ELEMENTS: [&str; 2] = ["Fallback", "pPr"];

pub(super) fn extract(
    package: &mut OfficePackage<'_>,
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    let main = package.required_part("word/document.xml")?;
    extract_paragraphs(&main, &SKIPPED_ELEMENTS, out)?;
    for notes in ["word/footnotes.xml", "word/endnotes.xml"] {
        if let Some(part) = package.part(notes)? {
            out.end_line();
            extract_paragraphs(&part, &SKIPPED_ELEMENTS, out)?;
        }
    }
    Ok(())
}
