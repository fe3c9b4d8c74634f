//! The text of a document, read with limits.
//!
//! The sizes that a file declares are not trusted: what it unpacks to is counted while it is unpacked.
//! Memory and time are bounded by the process that this runs in, so nothing here measures them.

mod docx;
mod office;
mod pdf;
mod pptx;
mod text;
mod xlsx;
mod xml;

pub(super) use office::Package;
pub(super) use pdf::is_encrypted as is_encrypted_pdf;
pub(super) use text::decode;

use super::{InputRules, Kind, Problem};

/// What stands at the end of a text that was cut.
pub(super) const CUT: &str = "\n[The rest of the file was left out.]";

/// The text of a document, in this process. A hostile file can make it abort, hang or allocate without
/// bound, so only the child process that reads files calls it: see [`FileReader`](super::FileReader).
///
/// # Errors
/// Why there is none. Pictures have none.
pub fn extract_text(kind: Kind, bytes: &[u8], rules: &InputRules) -> Result<String, Problem> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > rules.limit(kind) {
        return Err(Problem::TooLarge);
    }
    let mut out = Out::new(rules);
    match kind {
        Kind::Png | Kind::Jpeg | Kind::Gif | Kind::WebP => {}
        Kind::Pdf => pdf::read(bytes, rules, &mut out)?,
        Kind::Docx => docx::read(&mut Package::open(bytes, rules)?, &mut out)?,
        Kind::Pptx => pptx::read(&mut Package::open(bytes, rules)?, &mut out)?,
        Kind::Xlsx => xlsx::read(&mut Package::open(bytes, rules)?, &mut out)?,
        Kind::Csv | Kind::Text | Kind::Markdown | Kind::Json => {
            out.push(&decode(bytes).ok_or(Problem::Damaged)?);
        }
    }
    out.finish()
}

/// A text as it grows, and the limits of its growth.
struct Out {
    text: String,
    room: usize,
    cut: bool,
}

impl Out {
    fn new(rules: &InputRules) -> Self {
        Self {
            text: String::new(),
            room: rules.text_chars,
            cut: false,
        }
    }

    /// Adds as much as there is room for.
    fn push(&mut self, text: &str) {
        match text.char_indices().nth(self.room) {
            None => {
                self.room -= text.chars().count();
                self.text.push_str(text);
            }
            Some((end, _)) => {
                self.text.push_str(text.get(..end).unwrap_or_default());
                (self.room, self.cut) = (0, true);
            }
        }
    }

    /// Ends a line, unless it has ended.
    fn line(&mut self) {
        while self.text.ends_with(' ') {
            self.text.pop();
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    /// Ends a word, unless it has ended.
    fn space(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with([' ', '\n', '\t']) {
            self.push(" ");
        }
    }

    /// Ends a cell of a table.
    fn cell(&mut self) {
        while self.text.ends_with(' ') {
            self.text.pop();
        }
        self.push("\t");
    }

    /// Adds a section under a title, unless there is nothing in it.
    fn section(
        &mut self,
        title: &str,
        read: impl FnOnce(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.line();
        let (length, room) = (self.text.len(), self.room);
        self.push(title);
        self.push("\n");
        let begin = self.text.len();
        read(self)?;
        let said = self.text.get(begin..).unwrap_or_default();
        if said.trim().is_empty() && !self.cut {
            self.text.truncate(length);
            self.room = room;
        }
        Ok(())
    }

    /// Whether there is no room left, so that nothing more needs to be read.
    fn is_full(&self) -> bool {
        self.cut
    }

    fn finish(mut self) -> Result<String, Problem> {
        if self.text.trim().is_empty() {
            return Err(Problem::NoText);
        }
        if self.cut {
            self.text.push_str(CUT);
        }
        Ok(self.text)
    }
}
