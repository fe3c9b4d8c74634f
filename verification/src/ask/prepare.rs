//! What goes along with a question: gathered and fixed by the first attempt, and the same for all that
//! follow. Nothing is asked here.

use super::notes::Fixed;
use super::run::text;
use super::{Asking, NotYet};
use crate::attachments::{self, FileLimits, NotNow, Patience};
use crate::context::Reader;
use crate::gates::Known;
use crate::question::{Question, SharedFile};
use crate::signs::is_blank;
use crate::slack::tokens::Installation;
use crate::texts::LeftOut;
use interzone_protocol::zone::{Attachment, ErrorWord};
use tokio::sync::SemaphorePermit;

/// What goes along with a question, and the memory that it takes.
pub(super) struct Ready<'a> {
    pub(super) fixed: Fixed,
    pub(super) attachments: Vec<Attachment>,
    pub(super) _room: Option<SemaphorePermit<'a>>,
}

/// A question that is ready to be asked, or what stands in its way.
pub(super) enum Prepared<'a> {
    Ready(Ready<'a>),
    /// It has ended already.
    Ended,
    /// The files are not what they were, and the agent may have been asked with them before.
    Changed(Fixed),
}

impl Asking<'_> {
    /// Gathers and fixes what goes along, for the first time.
    pub(super) async fn first(
        &self,
        at: &Installation,
        known: &Known,
    ) -> Result<Prepared<'_>, NotYet> {
        let (zone, question) = (self.zone, self.question);
        let reader = Reader {
            slack: &zone.slack,
            people: &zone.gates.people,
            policy: &zone.gates.options.policy,
            messages: zone.ask.context_messages,
        };
        let room = self.room().await?;
        let ((context, names), fetched, answers) = tokio::join!(
            reader.gather(question, known, at),
            self.fetch(at),
            self.notes.waiting(question),
        );
        let fetched = fetched?;
        let fixed = Fixed {
            language: known.language,
            context,
            own: at.bot_user.clone(),
            answers: answers?,
            sent: fetched.sent.clone(),
            left_out: fetched.left_out,
            names,
        };
        let ours = fixed.clone();
        let fixed = self.notes.fix(question, fixed).await?;
        if fixed.sent != ours.sent {
            return Ok(Prepared::Changed(fixed));
        }
        Ok(Prepared::Ready(Ready {
            fixed,
            attachments: fetched.attachments,
            _room: room,
        }))
    }

    /// What goes along was fixed by an attempt before.
    pub(super) async fn again(
        &self,
        at: &Installation,
        fixed: Fixed,
    ) -> Result<Prepared<'_>, NotYet> {
        let room = self.room().await?;
        let fetched = if fixed.sent.is_empty() {
            attachments::Fetched::default()
        } else {
            self.fetch(at).await?
        };
        if self.has_ended().await? {
            return Ok(Prepared::Ended);
        }
        if fetched.sent != fixed.sent {
            return Ok(Prepared::Changed(fixed));
        }
        Ok(Prepared::Ready(Ready {
            fixed,
            attachments: fetched.attachments,
            _room: room,
        }))
    }

    async fn fetch(&self, at: &Installation) -> Result<attachments::Fetched, NotNow> {
        let files = &self.question.files;
        let patience = Patience {
            tries: self.may_try_again().await,
            left: self.left(),
        };
        let limits = &self.zone.ask.files;
        attachments::fetch(&self.zone.slack, at, files, limits, patience).await
    }

    /// Memory for the files, as much as they may take.
    async fn room(&self) -> Result<Option<SemaphorePermit<'_>>, NotYet> {
        let ask = &self.zone.ask;
        let pages = pages(&self.question.files, &ask.files).min(ask.pages());
        if pages == 0 {
            return Ok(None);
        }
        let room = self.zone.file_room.acquire_many(pages).await;
        let closed = |_| NotYet::failed("the zone is closing");
        room.map(Some).map_err(closed)
    }
}

/// Why there is nothing to ask, if there is no text and none of the files goes along.
pub(super) fn nothing_left(question: &Question, ready: &Ready<'_>) -> Option<ErrorWord> {
    // Where Slack did not say who we are, the mention of us was all of the text until now.
    if !is_blank(&text(question, &ready.fixed)) || !ready.attachments.is_empty() {
        return None;
    }
    let why = ready.fixed.left_out.first().map(|(_, why)| *why);
    Some(match why {
        None => ErrorWord::MissingText,
        Some(LeftOut::TooLarge | LeftOut::TooMany) => ErrorWord::FileTooLarge,
        Some(LeftOut::Unsupported) => ErrorWord::UnsupportedFileType,
        Some(LeftOut::NotFetched) => ErrorWord::AttachmentDownloadFailed,
        Some(LeftOut::NotPermitted) => ErrorWord::AccessDenied,
        Some(LeftOut::Unreadable) => ErrorWord::ExtractionFailed,
        Some(LeftOut::ReadingUnavailable) => ErrorWord::FileReaderUnavailable,
    })
}

/// How many kibibytes of memory files may take, by what they say of themselves.
fn pages(files: &[SharedFile], limits: &FileLimits) -> u32 {
    let largest = limits.image.max(limits.document);
    let taken = files.iter().take(limits.files).map(|file| match file.size {
        0 => largest,
        size => size.min(largest),
    });
    let bytes = taken.sum::<u64>().min(limits.together);
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_take_as_much_memory_as_they_say_or_as_they_may() {
        let file = |size: u64| SharedFile {
            id: crate::slack::ids::FileId::new("F1").unwrap(),
            name: "a".to_owned(),
            mimetype: String::new(),
            size,
            url: None,
            check_info: false,
        };
        let limits = FileLimits::default();
        assert_eq!(pages(&[], &limits), 0);
        assert_eq!(pages(&[file(1)], &limits), 1);
        assert_eq!(pages(&[file(4096), file(1)], &limits), 5);
        let unknown = pages(&[file(0)], &limits);
        assert_eq!(u64::from(unknown) * 1024, limits.image);
        let many = vec![file(u64::MAX); 100];
        assert_eq!(u64::from(pages(&many, &limits)) * 1024, limits.together);
    }
}
