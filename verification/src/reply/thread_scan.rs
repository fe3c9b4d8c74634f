//! Reads a thread to find messages that were posted already, before anything is sent again.

use super::ReplyService;
use super::blocks::METADATA_EVENT_TYPE;
use super::outbox_payload::ReplyLocation;
use crate::slack::api::SlackError;
use crate::slack::api::conversations::{RepliesQuery, SlackMessage};
use crate::slack::ids::{FileId, Ts};
use crate::slack::tokens::Installation;

/// Page size and maximum number of pages read from a thread.
const PAGE_SIZE: u16 = 200;
const MAX_PAGES: usize = 25;

/// Messages of a thread since the question.
#[derive(Debug, Default)]
pub(super) struct PostedMessages(Vec<SlackMessage>);

impl PostedMessages {
    /// Reads the thread.
    pub(super) async fn load(
        service: &ReplyService,
        installation: &Installation,
        location: &ReplyLocation,
    ) -> Result<Self, SlackError> {
        let mut messages = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let thread = RepliesQuery {
                channel: &location.channel,
                ts: &location.thread,
                oldest: Some(&location.question_ts),
                latest: None,
                limit: PAGE_SIZE,
                cursor: cursor.as_deref(),
            };
            let page = match service
                .slack
                .conversations_replies(installation, thread)
                .await
            {
                Ok(page) => page,
                // A thread does not exist before its first reply.
                Err(error) if error.is_code("thread_not_found") => break,
                Err(error) if error.is_code("missing_scope") => {
                    // A possible duplicate is better than no answer.
                    tracing::warn!(%error, "cannot read thread");
                    break;
                }
                Err(error) => return Err(error),
            };
            messages.extend(page.messages);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Self(messages))
    }

    /// Returns the message with this key.
    pub(super) fn find_by_key(&self, key: &str) -> Option<&Ts> {
        let found = self
            .0
            .iter()
            .find(|message| message_key(message) == Some(key));
        found.map(|message| &message.ts)
    }

    /// Returns true if the message belongs to another question.
    pub(super) fn belongs_to_other(&self, ts: &Ts, location: &ReplyLocation) -> bool {
        let mut candidates = self.0.iter().filter(|message| message.ts == *ts);
        let other = |key: &str| {
            let suffix = key.strip_prefix(&*location.question);
            !suffix.is_some_and(|rest| rest.starts_with('/'))
        };
        candidates.any(|message| message_key(message).is_some_and(other))
    }

    /// Returns true if a message has this file.
    pub(super) fn has_file(&self, file: &FileId) -> bool {
        let mut files = self.0.iter().flat_map(|message| &message.files);
        files.any(|other| other.id == *file)
    }

    /// Returns our own messages without a key, oldest first.
    pub(super) fn own_without_key(
        &self,
        installation: &Installation,
        location: &ReplyLocation,
    ) -> Vec<Ts> {
        let is_candidate = |message: &&SlackMessage| {
            is_own_message(message, installation)
                && message_key(message).is_none()
                && message.files.is_empty()
                && message.ts > location.question_ts
        };
        let mut found: Vec<Ts> = self
            .0
            .iter()
            .filter(is_candidate)
            .map(|one| one.ts.clone())
            .collect();
        found.sort();
        found
    }
}

fn message_key(message: &SlackMessage) -> Option<&str> {
    let metadata = message.metadata.as_ref()?;
    (metadata.event_type == METADATA_EVENT_TYPE)
        .then(|| metadata.event_payload.get("key")?.as_str())
        .flatten()
}

fn is_own_message(message: &SlackMessage, installation: &Installation) -> bool {
    fn same<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.is_some() && one == other
    }
    same(message.bot_id.as_ref(), installation.bot_id.as_ref())
        || same(message.user.as_ref(), installation.bot_user.as_ref())
        || same(message.app_id.as_ref(), installation.app_id.as_ref())
}
