//! The text of a document, read with limits.
//!
//! Whoever sent a file may mean harm by it: what it says of its own sizes is not believed, what it
//! unpacks to is counted while it is unpacked, and what takes too long is given up. A library that
//! panics at a file costs that file and nothing else.

mod docx;
mod office;
mod pdf;
mod pptx;
mod text;
mod xlsx;
mod xml;

pub(super) use office::{Package, with_macros};
pub(super) use pdf::check as check_pdf;
pub(super) use text::decode;

use super::{Fault, InputRules, Kind};
use bytes::Bytes;
use interzone_protocol::zone::ErrorWord;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How many files are looked into at once on a node. One that was given up holds its seat until it has
/// really ended, so that slow files cannot pile up.
static SEATS: Semaphore = Semaphore::const_new(4);

/// What stands at the end of a text that was cut.
const CUT: &str = "\n[The rest of the file was left out.]";

/// The text of a document. It may take as long as the rules allow and must not be called where others
/// wait: see [`read_text`].
///
/// # Errors
/// Why there is none. Pictures have none.
pub fn extract_text(kind: Kind, bytes: &[u8], rules: &InputRules) -> Result<String, Fault> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > rules.limit(kind) {
        return Err(rules.too_large());
    }
    caught(|| {
        let mut out = Out::new(rules);
        match kind {
            Kind::Png | Kind::Jpeg | Kind::Gif | Kind::WebP => {}
            Kind::Pdf => pdf::read(bytes, rules, &mut out)?,
            Kind::Docx => docx::read(&mut Package::open(bytes, rules)?, &mut out)?,
            Kind::Pptx => pptx::read(&mut Package::open(bytes, rules)?, &mut out)?,
            Kind::Xlsx => xlsx::read(&mut Package::open(bytes, rules)?, &mut out)?,
            Kind::Csv | Kind::Text | Kind::Markdown | Kind::Json => {
                out.push(&decode(bytes).ok_or_else(unreadable)?);
            }
        }
        out.finish()
    })
}

/// The text of a document, read beside everything else: few at once, and not for ever.
///
/// # Errors
/// Why there is none.
pub async fn read_text(kind: Kind, bytes: Bytes, rules: &InputRules) -> Result<String, Fault> {
    let own = rules.clone();
    aside(rules.extract_time, move || extract_text(kind, &bytes, &own)).await
}

/// Does what takes long beside everything else: few at once, and not for ever.
pub(crate) async fn aside<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = async {
        let seat = SEATS.acquire().await.map_err(|_| unreadable())?;
        let work = tokio::task::spawn_blocking(move || {
            let _seat = seat;
            caught(work)
        });
        work.await.unwrap_or_else(|_| Err(unreadable()))
    };
    match tokio::time::timeout(time, done).await {
        Ok(done) => done,
        Err(_) => {
            tracing::warn!("a file took too long to be read and is given up");
            Err(too_slow())
        }
    }
}

/// The work of a library that may panic. What it panics with may hold what the user sent, so it is not
/// told on.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(thrown) => Err(match thrown.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(_) => unreadable(),
        }),
    }
}

/// A text as it grows, and the limits of its growth.
struct Out {
    text: String,
    room: usize,
    cut: bool,
    until: Instant,
}

impl Out {
    fn new(rules: &InputRules) -> Self {
        Self {
            text: String::new(),
            room: rules.text_chars,
            cut: false,
            until: Instant::now() + rules.extract_time,
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
        read: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
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

    /// Whether there is time to go on.
    fn on_time(&self) -> Result<(), Fault> {
        if Instant::now() > self.until {
            Err(too_slow())
        } else {
            Ok(())
        }
    }

    fn finish(mut self) -> Result<String, Fault> {
        if self.text.trim().is_empty() {
            return Err(Fault::new(
                ErrorWord::ExtractionFailed,
                "there is no text in the file: it may be scanned or empty",
            ));
        }
        if self.cut {
            self.text.push_str(CUT);
        }
        Ok(self.text)
    }
}

pub(in crate::files) fn unreadable() -> Fault {
    Fault::new(
        ErrorWord::ExtractionFailed,
        "the file cannot be read: it may be damaged",
    )
}

pub(super) fn bomb() -> Fault {
    Fault::new(
        ErrorWord::FileBomb,
        "the file unpacks to more than is allowed",
    )
}

pub(super) fn locked() -> Fault {
    Fault::new(
        ErrorWord::FileEncrypted,
        "the file is locked with a password: send it without one",
    )
}

fn too_slow() -> Fault {
    Fault::new(
        ErrorWord::ExtractionFailed,
        "the file took too long to be read",
    )
}
