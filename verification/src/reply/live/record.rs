//! Records of live replies: which message a question's reply is, and which question a message belongs to.

use crate::reply::RECORD_TTL;
use crate::reply::ports::ReplyStore;
use crate::slack::ids::{ChannelId, Ts};
use interzone_hub::HubError;
use serde::{Deserialize, Serialize};

/// Record kind, keyed by question id.
const BY_QUESTION_KIND: &str = "slack.live";
/// Record kind, keyed by message.
const BY_MESSAGE_KIND: &str = "slack.live.at";

/// Record of a live reply that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "known", rename_all = "snake_case")]
pub(in crate::reply) enum LiveReplyRecord {
    /// The message may have been posted or not.
    Unknown,
    /// The message was posted with this timestamp.
    #[serde(rename = "known")]
    Posted { ts: Ts, streams: bool },
}

impl LiveReplyRecord {
    /// Reads the record of a question's reply; `None` if it was never started.
    pub(in crate::reply) async fn load(
        store: &dyn ReplyStore,
        question: &str,
    ) -> Result<Option<Self>, HubError> {
        let record = store.get(BY_QUESTION_KIND, question).await?;
        Ok(record.map(|note| serde_json::from_str(&note).unwrap_or(Self::Unknown)))
    }

    /// Records the start of a reply; must be called before anything is posted.
    pub(super) async fn put_started(
        store: &dyn ReplyStore,
        question: &str,
    ) -> Result<(), HubError> {
        let record = serde_json::json!(Self::Unknown).to_string();
        store
            .put(BY_QUESTION_KIND, question, &record, RECORD_TTL)
            .await
    }

    /// Records the message of the reply.
    pub(super) async fn put_message(
        store: &dyn ReplyStore,
        question: &str,
        channel: &ChannelId,
        ts: &Ts,
        is_stream: bool,
    ) -> Result<(), HubError> {
        let record = Self::Posted {
            ts: ts.clone(),
            streams: is_stream,
        };
        let json = serde_json::json!(record).to_string();
        let message_key = format!("{channel}/{ts}");
        let (by_question, by_message) = tokio::join!(
            store.put(BY_QUESTION_KIND, question, &json, RECORD_TTL),
            store.put(BY_MESSAGE_KIND, &message_key, question, RECORD_TTL),
        );
        by_question.and(by_message)
    }

    /// Returns the question that a message belongs to.
    pub(in crate::reply) async fn find_question(
        store: &dyn ReplyStore,
        channel: &ChannelId,
        ts: &Ts,
    ) -> Result<Option<String>, HubError> {
        store.get(BY_MESSAGE_KIND, &format!("{channel}/{ts}")).await
    }
}
