//! Text extraction from documents, with limits.
//!
//! Declared sizes are not trusted: unpacked bytes are counted while unpacking. Memory and time are bounded by the
//! process that this runs in, so they are not measured here.

mod docx;
mod office;
mod pdf;
mod pptx;
mod text;
mod xlsx;
mod xml;

pub(super) use office::OfficePackage;
pub(super) use pdf::is_encrypted as is_encrypted_pdf;
pub(super) use text::decode;

use super::{FileKind, FileProblem, InputRules};

/// Marker at the end of a truncated text.
pub(super) const TRUNCATION_MARKER: &str = "\n[The rest of the file was left out.]";

/// Extracts the text of a document, in this process. A malicious file can make it abort, hang or allocate without
/// bound, so only the child process that reads files calls it: see [`FileReader`](super::FileReader).
///
/// # Errors
/// The reason why there is no text. Images have none.
pub fn extract_text(
    kind: FileKind,
    bytes: &[u8],
    rules: &InputRules,
) -> Result<String, FileProblem> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > rules.max_bytes_for(kind) {
        return Err(FileProblem::TooLarge);
    }
    let mut out = TextSink::new(rules);
    match kind {
        FileKind::Png | FileKind::Jpeg | FileKind::Gif | FileKind::WebP => {}
        FileKind::Pdf => pdf::extract(bytes, rules, &mut out)?,
        FileKind::Docx => docx::extract(&mut OfficePackage::open(bytes, rules)?, &mut out)?,
        FileKind::Pptx => pptx::extract(&mut OfficePackage::open(bytes, rules)?, &mut out)?,
        FileKind::Xlsx => xlsx::extract(&mut OfficePackage::open(bytes, rules)?, &mut out)?,
        FileKind::Csv | FileKind::Text | FileKind::Markdown | FileKind::Json => {
            out.push(&decode(bytes).ok_or(FileProblem::Damaged)?);
        }
    }
    out.finish()
}

/// Extracted text with a length limit.
struct TextSink {
    text: String,
    remaining: usize,
    is_truncated: bool,
}

impl TextSink {
    fn new(rules: &InputRules) -> Self {
        Self {
            text: String::new(),
            remaining: rules.text_chars,
            is_truncated: false,
        }
    }

    /// Appends as much as fits.
    fn push(&mut self, text: &str) {
        match text.char_indices().nth(self.remaining) {
            None => {
                self.remaining -= text.chars().count();
                self.text.push_str(text);
            }
            Some((end, _)) => {
                self.text.push_str(text.get(..end).unwrap_or_default());
                (self.remaining, self.is_truncated) = (0, true);
            }
        }
    }

    /// Ends the line, unless it has ended.
    fn end_line(&mut self) {
        while self.text.ends_with(' ') {
            self.text.pop();
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    /// Ends the word, unless it has ended.
    fn end_word(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with([' ', '\n', '\t']) {
            self.push(" ");
        }
    }

    /// Ends a table cell.
    fn end_cell(&mut self) {
        while self.text.ends_with(' ') {
            self.text.pop();
        }
        self.push("\t");
    }

    /// Appends a titled section, unless it is empty.
    fn section(
        &mut self,
        title: &str,
        read: impl FnOnce(&mut Self) -> Result<(), FileProblem>,
    ) -> Result<(), FileProblem> {
        self.end_line();
        let (length, room) = (self.text.len(), self.remaining);
        self.push(title);
        self.push("\n");
        let start = self.text.len();
        read(self)?;
        let content = self.text.get(start..).unwrap_or_default();
        if content.trim().is_empty() && !self.is_truncated {
            self.text.truncate(length);
            self.remaining = room;
        }
        Ok(())
    }

    /// Returns true if the limit is reached, so that nothing more needs to be read.
    fn is_full(&self) -> bool {
        self.is_truncated
    }

    fn finish(mut self) -> Result<String, FileProblem> {
        if self.text.trim().is_empty() {
            return Err(FileProblem::NoText);
        }
        if self.is_truncated {
            self.text.push_str(TRUNCATION_MARKER);
        }
        Ok(self.text)
    }
}
