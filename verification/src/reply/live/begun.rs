//! Notes on live replies: that one was begun, as which message, and whose a message is.

use crate::reply::KEEP;
use crate::reply::shelf::Shelf;
use crate::slack::ids::{ChannelId, Ts};
use interzone_hub::HubError;
use serde::{Deserialize, Serialize};

/// By question.
const KIND: &str = "slack.live";
/// By message.
const WHOSE: &str = "slack.live.at";

/// What is known of a live reply that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "known", rename_all = "snake_case")]
pub(in crate::reply) enum Begun {
    /// It may stand there or not.
    Unknown,
    /// It is this message.
    Known { ts: Ts, streams: bool },
}

impl Begun {
    /// What is known of a question's reply; nothing if it was never begun.
    pub(in crate::reply) async fn read(
        shelf: &dyn Shelf,
        question: &str,
    ) -> Result<Option<Self>, HubError> {
        let note = shelf.note(KIND, question).await?;
        Ok(note.map(|note| serde_json::from_str(&note).unwrap_or(Self::Unknown)))
    }

    /// Writes down that a reply is begun, before it is.
    pub(super) async fn begin(shelf: &dyn Shelf, question: &str) -> Result<(), HubError> {
        let note = serde_json::json!(Self::Unknown).to_string();
        shelf.keep(KIND, question, &note, KEEP).await
    }

    /// Writes down which message it is.
    pub(super) async fn know(
        shelf: &dyn Shelf,
        question: &str,
        channel: &ChannelId,
        ts: &Ts,
        streams: bool,
    ) -> Result<(), HubError> {
        let known = Self::Known {
            ts: ts.clone(),
            streams,
        };
        let note = serde_json::json!(known).to_string();
        let at = format!("{channel}/{ts}");
        let (by_question, by_message) = tokio::join!(
            shelf.keep(KIND, question, &note, KEEP),
            shelf.keep(WHOSE, &at, question, KEEP),
        );
        by_question.and(by_message)
    }

    /// To which question a message belongs.
    pub(in crate::reply) async fn whose(
        shelf: &dyn Shelf,
        channel: &ChannelId,
        ts: &Ts,
    ) -> Result<Option<String>, HubError> {
        shelf.note(WHOSE, &format!("{channel}/{ts}")).await
    }
}
