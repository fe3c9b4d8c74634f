//! Prepares the request of a question: gathered and frozen by the first attempt, reused by later ones.

use super::execute::request_text;
use super::state_store::FrozenRequest;
use super::{AskAttempt, RetryLater};
use crate::attachments::{self, FetchRetry, FileLimits, RetryBudget};
use crate::context::ContextGatherer;
use crate::gates::SlackIdentity;
use crate::question::{Question, SharedFile};
use crate::slack::tokens::Installation;
use crate::texts::SkipReason;
use crate::unicode_hygiene::is_invisible;
use interzone_protocol::zone::{Attachment, ErrorReason};
use tokio::sync::SemaphorePermit;

/// A request ready to be sent, and its memory permit.
pub(super) struct PreparedRequest<'a> {
    pub(super) request: FrozenRequest,
    pub(super) attachments: Vec<Attachment>,
    pub(super) _memory: Option<SemaphorePermit<'a>>,
}

/// Result of the preparation.
pub(super) enum Preparation<'a> {
    Ready(PreparedRequest<'a>),
    /// The question has ended already.
    Ended,
    /// The files have changed, and the agent may have been called with the earlier ones.
    FilesChanged(FrozenRequest),
}

impl AskAttempt<'_> {
    /// Gathers and freezes the request, in the first attempt.
    pub(super) async fn prepare_first(
        &self,
        installation: &Installation,
        identity: &SlackIdentity,
    ) -> Result<Preparation<'_>, RetryLater> {
        let (zone, question) = (self.zone, self.question);
        let gatherer = ContextGatherer {
            slack: &zone.slack,
            directory: &zone.gates.directory,
            policy: &zone.gates.options.policy,
            max_messages: zone.ask.context_messages,
        };
        let memory = self.reserve_file_memory().await?;
        let ((context, names), files, pending_task) = tokio::join!(
            gatherer.gather(question, identity, installation),
            self.fetch_files(installation),
            self.state.pending_input(question),
        );
        let files = files?;
        let request = FrozenRequest {
            language: identity.language,
            context,
            bot_user: installation.bot_user.clone(),
            answers: pending_task?,
            files: files.fingerprints.clone(),
            skipped_files: files.skipped,
            names,
        };
        let own_request = request.clone();
        let request = self.state.freeze(question, request).await?;
        if request.files != own_request.files {
            return Ok(Preparation::FilesChanged(request));
        }
        Ok(Preparation::Ready(PreparedRequest {
            request,
            attachments: files.attachments,
            _memory: memory,
        }))
    }

    /// Prepares a retry with the request frozen by an earlier attempt.
    pub(super) async fn prepare_retry(
        &self,
        installation: &Installation,
        request: FrozenRequest,
    ) -> Result<Preparation<'_>, RetryLater> {
        let memory = self.reserve_file_memory().await?;
        let files = if request.files.is_empty() {
            attachments::FetchedFiles::default()
        } else {
            self.fetch_files(installation).await?
        };
        if self.has_ended().await? {
            return Ok(Preparation::Ended);
        }
        if files.fingerprints != request.files {
            return Ok(Preparation::FilesChanged(request));
        }
        Ok(Preparation::Ready(PreparedRequest {
            request,
            attachments: files.attachments,
            _memory: memory,
        }))
    }

    async fn fetch_files(
        &self,
        installation: &Installation,
    ) -> Result<attachments::FetchedFiles, FetchRetry> {
        let files = &self.question.files;
        let budget = RetryBudget {
            has_attempts_left: self.has_attempts_left().await,
            remaining: self.remaining(),
        };
        let limits = &self.zone.ask.files;
        attachments::fetch(&self.zone.slack, installation, files, limits, budget).await
    }

    /// Reserves memory for the files.
    async fn reserve_file_memory(&self) -> Result<Option<SemaphorePermit<'_>>, RetryLater> {
        let ask = &self.zone.ask;
        let kib = required_kib(&self.question.files, &ask.files).min(ask.file_memory_kib());
        if kib == 0 {
            return Ok(None);
        }
        let permit = self.zone.file_memory.acquire_many(kib).await;
        let closed = |_| RetryLater::failed("the zone is shutting down");
        permit.map(Some).map_err(closed)
    }
}

/// Returns the reason if there is nothing to ask: no text and no usable file.
pub(super) fn empty_reason(
    question: &Question,
    prepared: &PreparedRequest<'_>,
) -> Option<ErrorReason> {
    // If the event did not name the bot user, the mention was still part of the text until now.
    if !is_invisible(&request_text(question, &prepared.request)) || !prepared.attachments.is_empty()
    {
        return None;
    }
    let reason = prepared.request.skipped_files.first().map(|(_, why)| *why);
    Some(match reason {
        None => ErrorReason::MissingText,
        Some(SkipReason::TooLarge | SkipReason::TooMany) => ErrorReason::FileTooLarge,
        Some(SkipReason::Unsupported) => ErrorReason::UnsupportedFileType,
        Some(SkipReason::NotFetched) => ErrorReason::AttachmentDownloadFailed,
        Some(SkipReason::NotPermitted) => ErrorReason::AccessDenied,
        Some(SkipReason::Unreadable) => ErrorReason::ExtractionFailed,
        Some(SkipReason::ReadingUnavailable) => ErrorReason::FileReaderUnavailable,
    })
}

/// Returns the memory in KiB that files may need, by their declared sizes.
fn required_kib(files: &[SharedFile], limits: &FileLimits) -> u32 {
    let largest = limits.image.max(limits.document);
    let sizes = files.iter().take(limits.files).map(|file| match file.size {
        0 => largest,
        size => size.min(largest),
    });
    let bytes = sizes.sum::<u64>().min(limits.total);
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_memory_follows_declared_sizes_and_limits() {
        let file = |size: u64| SharedFile {
            id: crate::slack::ids::FileId::new("F1").unwrap(),
            name: "a".to_owned(),
            mimetype: String::new(),
            size,
            url: None,
            check_info: false,
        };
        let limits = FileLimits::default();
        assert_eq!(required_kib(&[], &limits), 0);
        assert_eq!(required_kib(&[file(1)], &limits), 1);
        assert_eq!(required_kib(&[file(4096), file(1)], &limits), 5);
        let unknown = required_kib(&[file(0)], &limits);
        assert_eq!(u64::from(unknown) * 1024, limits.image);
        let many = vec![file(u64::MAX); 100];
        assert_eq!(u64::from(required_kib(&many, &limits)) * 1024, limits.total);
    }
}
