//! Attachments on their way to an agent: fetched if need be, looked at, and taken or left out.
//!
//! An agent sees files that are what they say, of sizes and kinds that are taken; it never sees where
//! they came from. The address of a file is a capability: it reaches no log and no message to anybody,
//! and is forgotten with the first attempt to use it. No file is opened here, and no address that leads
//! inside.

mod fetch;
mod say;
#[cfg(test)]
mod tests;

pub(crate) use say::{Listener, add_skipped};

use crate::files::{
    Fault, FileOwner, FileReader, InputRules, Kind, Language, declared_kind, safe_name,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use interzone_edge::egress::Egress;
use interzone_hub::{FETCH, Turn, failure};
use interzone_protocol::vocab::{Encoding, Json, Message, Part, PartKind};
use interzone_protocol::zone::{ErrorWord, Skipped};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The member of a part that marks it as an attachment to look at.
pub const ATTACHMENT: &str = "attachment";

/// The member of a part that says why it was left out, so that the next attempt says the same.
pub(crate) const REFUSED: &str = "refused";

/// Whoever takes attachments in.
#[derive(Clone, Debug)]
pub struct Intake {
    egress: Egress,
    reader: FileReader,
    input: InputRules,
    /// The first wait between attempts to fetch.
    pause: Duration,
}

/// A turn whose attachments are there.
pub struct Prepared {
    /// The turn, with what was taken.
    pub turn: Turn,
    /// What was left out.
    pub skipped: Vec<Skipped>,
    /// What the user is told of that; empty if nothing was left out.
    pub sentence: String,
    /// The message as it is to be kept, if that changed.
    pub kept: Option<Message>,
}

/// A turn of whose attachments none could be taken.
pub struct Unprepared {
    /// How the turn fails.
    pub said: Message,
    /// The message as it is to be kept, if that changed.
    pub kept: Option<Message>,
}

/// What became of one attachment.
struct Looked {
    /// As it is kept.
    kept: Part,
    /// As the agent gets it.
    taken: Result<Part, Fault>,
}

impl Intake {
    /// Whoever takes attachments in by this way and these rules.
    pub const fn new(egress: Egress, reader: FileReader, input: InputRules) -> Self {
        Self {
            egress,
            reader,
            input,
            pause: fetch::FIRST_PAUSE,
        }
    }

    /// Whether there is anything to do for a turn.
    pub fn concerns(turn: &Turn) -> bool {
        let marked = |part: &Part| part.extra().get(ATTACHMENT).is_some();
        let mut messages = turn.history.iter().chain([&turn.message]);
        messages.any(|message| message.parts().iter().any(marked))
    }

    /// The most memory that the attachments take which must be fetched: their content is kept as base64.
    pub(crate) fn bytes_to_fetch(&self, turn: &Turn) -> usize {
        let parts = turn.message.parts().iter();
        let missing = parts.filter(|part| {
            part.extra().get(ATTACHMENT).is_some()
                && part.content().is_none()
                && address(part).is_some()
        });
        let largest = self.input.largest();
        let size = |part: &Part| most_to_fetch(part).min(largest);
        let bytes = missing.map(size).fold(0, u64::saturating_add);
        let bytes = bytes.min(self.input.message_bytes);
        usize::try_from(bytes.div_ceil(3).saturating_mul(4)).unwrap_or(usize::MAX)
    }

    /// Takes the attachments of a turn in, one after another. What was left out before is left out
    /// again, without another look.
    ///
    /// # Errors
    /// There were attachments, and none could be taken: how the turn fails, in the words of the first.
    pub async fn prepare(&self, mut turn: Turn) -> Result<Prepared, Box<Unprepared>> {
        for message in &mut turn.history {
            forget_refused(message);
        }
        let language = Language::of(&turn.message.text());
        let owner = FileOwner::from(&turn.task);
        let (mut given, mut kept, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let (mut seats, mut changed, mut taken) = (Seats::new(&self.input), false, 0_usize);
        for part in turn.message.parts() {
            if part.extra().get(ATTACHMENT).is_none() {
                given.push(part.clone());
                kept.push(part.clone());
                continue;
            }
            let looked = self.look(part, &owner, &mut seats).await;
            changed |= looked.kept != *part;
            kept.push(looked.kept);
            match looked.taken {
                Ok(part) => {
                    taken += 1;
                    given.push(part);
                }
                Err(fault) => faults.push((named(part), fault)),
            }
        }
        let kept = changed.then(|| turn.message.clone().replace_parts(kept));
        let sentence = say::left_out(&faults, language);
        if let (0, Some((_, first))) = (taken, faults.first()) {
            let said = failure(first.word.name(), sentence);
            return Err(Box::new(Unprepared { said, kept }));
        }
        turn.message = turn.message.replace_parts(given);
        let skipped = faults.into_iter().map(|(name, fault)| Skipped {
            name,
            error_code: fault.word.name().to_owned(),
        });
        Ok(Prepared {
            skipped: skipped.collect(),
            turn,
            sentence,
            kept,
        })
    }

    /// Looks at one attachment, fetched if its bytes are not there.
    async fn look(&self, part: &Part, owner: &FileOwner, seats: &mut Seats<'_>) -> Looked {
        let clean = part.clone().without_extra(FETCH);
        if let Some(fault) = self.refused_before(part) {
            return Looked {
                kept: clean,
                taken: Err(fault),
            };
        }
        match self.take(part, owner, seats).await {
            Ok((kind, taken)) => {
                let name = safe_name(part.filename().unwrap_or_default(), kind.media_type());
                let taken = taken.with_filename(name).with_media_type(kind.media_type());
                // What was fetched is kept as it is given; what came with the message, as it came.
                let kept = match part.content() {
                    Some(_) => clean,
                    None => taken.clone(),
                };
                Looked {
                    kept,
                    taken: Ok(taken),
                }
            }
            Err(fault) => {
                let kept = match Json::of(fault.word.name()) {
                    Ok(word) => clean.with_extra(REFUSED, word),
                    Err(_) => clean,
                };
                Looked {
                    kept,
                    taken: Err(fault),
                }
            }
        }
    }

    /// Why an attachment was left out before, by an earlier attempt or because there was no room for it
    /// in the message at all.
    fn refused_before(&self, part: &Part) -> Option<Fault> {
        let word: String = part.extra().get(REFUSED)?.decode().ok()?;
        Some(match ErrorWord::from_name(&word) {
            Some(ErrorWord::FileTooLarge) => self.input.too_large(),
            Some(ErrorWord::FileReaderUnavailable) => Fault::reader_unavailable(),
            Some(word) => Fault::new(word, "it was left out before"),
            None => Fault::new(
                ErrorWord::AttachmentDownloadFailed,
                "it was left out before",
            ),
        })
    }

    async fn take(
        &self,
        part: &Part,
        owner: &FileOwner,
        seats: &mut Seats<'_>,
    ) -> Result<(Kind, Part), Fault> {
        let declared = part.media_type().unwrap_or_default();
        let name = part.filename().unwrap_or_default();
        // What can be known before a byte is read is known before.
        let said =
            declared_kind(declared, name).map_err(|problem| problem.into_fault(&self.input))?;
        seats.room_for(said)?;
        let most = said.map_or(self.input.largest(), |kind| self.input.limit(kind));
        let most = most.min(seats.bytes);
        if part.size().is_some_and(|size| size > most) {
            return Err(self.input.too_large());
        }
        let (bytes, content) = match (content(part)?, address(part)) {
            (Some(bytes), _) => (bytes, part.content().cloned()),
            (None, Some(url)) => {
                let most = most.min(most_to_fetch(part));
                let fetched = timeout_at(seats.fetch_until, fetch::fetch(self, &url, most));
                let bytes = fetched.await.unwrap_or_else(|_| Err(fetch::failed()))?;
                (bytes, None)
            }
            (None, None) => return Err(fetch::not_available()),
        };
        if count(&bytes) > most {
            return Err(self.input.too_large());
        }
        is_there(part, &bytes)?;
        // A document without text is better left out here than in the middle of an answer.
        let checked = self
            .reader
            .check(owner, bytes.clone(), (declared, name), &self.input);
        let kind = checked.await?;
        seats.take(kind, count(&bytes))?;
        let size = count(&bytes);
        let content = match content {
            Some(content) => content,
            None => {
                let encoded = STANDARD.encode(&bytes);
                drop(bytes);
                Json::string(encoded).map_err(|_| fetch::failed())?
            }
        };
        let part_kind = match kind.is_image() {
            true => PartKind::Image,
            false => PartKind::File,
        };
        let id = part.extra().get(ATTACHMENT).cloned();
        let taken = Part::new(part_kind)
            .with_content(content)
            .with_encoding(Encoding::Base64)
            .with_size(size);
        let taken = match id {
            Some(id) => taken.with_extra(ATTACHMENT, id),
            None => taken,
        };
        Ok((kind, taken))
    }
}

/// How much there is still room for.
struct Seats<'r> {
    rules: &'r InputRules,
    images: usize,
    documents: usize,
    bytes: u64,
    /// Until when files may be fetched.
    fetch_until: Instant,
}

impl<'r> Seats<'r> {
    fn new(rules: &'r InputRules) -> Self {
        Self {
            rules,
            images: rules.images,
            documents: rules.documents,
            bytes: rules.message_bytes,
            fetch_until: Instant::now() + fetch::ALL_FILES,
        }
    }

    fn room_for(&self, kind: Option<Kind>) -> Result<(), Fault> {
        let room = match kind {
            Some(kind) if kind.is_image() => self.images,
            Some(_) => self.documents,
            None => self.images.max(self.documents),
        };
        match room {
            0 => Err(Fault::new(
                ErrorWord::FileTooLarge,
                format!(
                    "a message may have {} images and {} documents",
                    self.rules.images, self.rules.documents
                ),
            )),
            _ => Ok(()),
        }
    }

    fn take(&mut self, kind: Kind, bytes: u64) -> Result<(), Fault> {
        self.room_for(Some(kind))?;
        self.bytes = self.bytes.saturating_sub(bytes);
        let seats = match kind.is_image() {
            true => &mut self.images,
            false => &mut self.documents,
        };
        *seats = seats.saturating_sub(1);
        Ok(())
    }
}

fn count(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The bytes that came with the message.
fn content(part: &Part) -> Result<Option<Bytes>, Fault> {
    let Some(content) = part.as_text() else {
        return Ok(None);
    };
    if part.encoding() == Some(Encoding::Utf8) {
        return Ok(Some(Bytes::from(content.into_owned().into_bytes())));
    }
    let bytes = STANDARD.decode(content.as_bytes()).map_err(|_| {
        Fault::new(
            ErrorWord::AttachmentDownloadFailed,
            "the file's content is not valid base64",
        )
    })?;
    Ok(Some(Bytes::from(bytes)))
}

/// Whether as much is there as was said, or nearly. Less than half of it is a file that broke off; any
/// other difference is noted, and what is there counts.
fn is_there(part: &Part, bytes: &Bytes) -> Result<(), Fault> {
    let (real, declared) = (count(bytes), part.size().unwrap_or_else(|| count(bytes)));
    if real.saturating_mul(2) < declared {
        return Err(Fault::new(
            ErrorWord::AttachmentDownloadFailed,
            "the file arrived incomplete: send it again",
        ));
    }
    if real != declared {
        tracing::info!(
            declared,
            real,
            "an attachment has another size than it says"
        );
    }
    Ok(())
}

/// The most that is fetched of a file: twice the size that was declared, and a little more for small ones. Memory is
/// reserved for that much.
fn most_to_fetch(part: &Part) -> u64 {
    const SMALL: u64 = 64 * 1024;
    // Zero declares nothing.
    let declared = part.size().filter(|size| *size > 0);
    declared.map_or(u64::MAX, |size| {
        size.saturating_mul(2).saturating_add(SMALL)
    })
}

fn address(part: &Part) -> Option<String> {
    part.extra().get(FETCH)?.decode().ok()
}

/// Takes what was left out before from an earlier message.
fn forget_refused(message: &mut Message) {
    let is_there = |part: &&Part| part.extra().get(REFUSED).is_none();
    let parts: Vec<Part> = message.parts().iter().filter(is_there).cloned().collect();
    if parts.len() < message.parts().len() {
        *message = message.clone().replace_parts(parts);
    }
}

/// What an attachment is called towards users.
fn named(part: &Part) -> String {
    let declared = part.media_type().unwrap_or_default();
    match part.filename() {
        Some(name) => safe_name(name, declared),
        None => safe_name("attachment", declared),
    }
}
