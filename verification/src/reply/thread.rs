//! Looking into a thread for what stands there already, before anything is sent once more.

use super::Desk;
use super::blocks::KEY_TYPE;
use super::effect::Place;
use crate::slack::api::SlackError;
use crate::slack::api::conversations::{Message, Thread};
use crate::slack::ids::{FileId, Ts};
use crate::slack::tokens::Installation;

/// How many messages are asked for at once, and how often.
const PAGE: u16 = 200;
const PAGES: usize = 25;

/// What stands in a thread since the question was asked.
#[derive(Debug, Default)]
pub(super) struct Stands(Vec<Message>);

impl Stands {
    /// Looks into a thread.
    pub(super) async fn read(
        desk: &Desk,
        at: &Installation,
        place: &Place,
    ) -> Result<Self, SlackError> {
        let mut messages = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let thread = Thread {
                channel: &place.channel,
                ts: &place.thread,
                oldest: Some(&place.asked),
                latest: None,
                limit: PAGE,
                cursor: cursor.as_deref(),
            };
            let page = match desk.slack.conversations_replies(at, thread).await {
                Ok(page) => page,
                // There is no thread before its first reply.
                Err(error) if error.is("thread_not_found") => break,
                Err(error) if error.is("missing_scope") => {
                    // An answer that may come twice is better than none.
                    tracing::warn!(%error, "what stands in a thread cannot be read");
                    break;
                }
                Err(error) => return Err(error),
            };
            messages.extend(page.messages);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Self(messages))
    }

    /// The message with this key.
    pub(super) fn key(&self, key: &str) -> Option<&Ts> {
        let found = self.0.iter().find(|message| key_of(message) == Some(key));
        found.map(|message| &message.ts)
    }

    /// Whether this message is the answer to another question.
    pub(super) fn is_anothers(&self, ts: &Ts, place: &Place) -> bool {
        let mut there = self.0.iter().filter(|message| message.ts == *ts);
        let other = |key: &str| {
            let rest = key.strip_prefix(&*place.question);
            !rest.is_some_and(|rest| rest.starts_with('/'))
        };
        there.any(|message| key_of(message).is_some_and(other))
    }

    /// Whether a file hangs there.
    pub(super) fn has_file(&self, file: &FileId) -> bool {
        let mut files = self.0.iter().flat_map(|message| &message.files);
        files.any(|other| other.id == *file)
    }

    /// Our own messages that nobody wrote a key behind, oldest first.
    pub(super) fn keyless(&self, at: &Installation, place: &Place) -> Vec<Ts> {
        let known = |message: &&Message| {
            is_ours(message, at)
                && key_of(message).is_none()
                && message.files.is_empty()
                && message.ts > place.asked
        };
        let mut found: Vec<Ts> = self
            .0
            .iter()
            .filter(known)
            .map(|one| one.ts.clone())
            .collect();
        found.sort();
        found
    }
}

fn key_of(message: &Message) -> Option<&str> {
    let metadata = message.metadata.as_ref()?;
    (metadata.event_type == KEY_TYPE)
        .then(|| metadata.event_payload.get("key")?.as_str())
        .flatten()
}

fn is_ours(message: &Message, at: &Installation) -> bool {
    fn same<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.is_some() && one == other
    }
    same(message.bot_id.as_ref(), at.bot_id.as_ref())
        || same(message.user.as_ref(), at.bot_user.as_ref())
        || same(message.app_id.as_ref(), at.app_id.as_ref())
}
