//! User feedback on answers: button values, and the list for the operator. The last press of each user counts.

use super::ReplyService;
use super::ports::ReplyStore;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Record kind.
const FEEDBACK_RECORD_KIND: &str = "slack.feedback";

/// Retention of feedback.
const FEEDBACK_TTL: Duration = Duration::from_secs(90 * 24 * 3600);

/// Value of a feedback button.
pub(super) fn button_value(question: &str, good: bool) -> String {
    let rating = if good { "good" } else { "bad" };
    format!("{rating}/{question}")
}

/// Feedback of one user on one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlackFeedback {
    /// The question id.
    pub question: String,
    /// True if the answer was helpful.
    pub good: bool,
    /// The workspace.
    pub team: TeamId,
    /// The channel.
    pub channel: ChannelId,
    /// The message whose button was pressed.
    pub message: Ts,
    /// The user who pressed the button.
    pub user: UserId,
    /// Time of the press.
    pub at: Timestamp,
}

impl SlackFeedback {
    /// Record kind, for readers that access the store directly.
    pub const RECORD_KIND: &'static str = FEEDBACK_RECORD_KIND;

    /// Parses a button value into the question id and whether the answer was helpful. Returns `None` for values of
    /// other buttons.
    ///
    /// ```
    /// use interzone_verification::SlackFeedback;
    ///
    /// let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    /// assert_eq!(SlackFeedback::parse_button_value(&format!("good/{id}")), Some((id, true)));
    /// assert_eq!(SlackFeedback::parse_button_value("good/../x"), None);
    /// ```
    pub fn parse_button_value(value: &str) -> Option<(&str, bool)> {
        let (rating, question) = value.split_once('/')?;
        let good = match rating {
            "good" => true,
            "bad" => false,
            _ => return None,
        };
        uuid::Uuid::try_parse(question).ok()?;
        Some((question, good))
    }
}

/// Feedback storage.
#[derive(Clone)]
pub struct FeedbackStore(Arc<dyn ReplyStore>);

impl FeedbackStore {
    /// Stores feedback in the hub's store.
    pub fn new(hub: Hub) -> Self {
        Self(Arc::new(hub))
    }

    /// Stores feedback, replacing an earlier one of the same user.
    ///
    /// # Errors
    /// The store write failed.
    pub async fn put(&self, feedback: &SlackFeedback) -> Result<(), HubError> {
        let key = format!("{}/{}/{}", feedback.team, feedback.question, feedback.user);
        let previous = self.0.get(FEEDBACK_RECORD_KIND, &key).await?;
        let before = previous.and_then(|note| serde_json::from_str::<SlackFeedback>(&note).ok());
        if before.is_some_and(|before| before.at > feedback.at) {
            // Slack delivered an older press late.
            return Ok(());
        }
        let value = serde_json::json!(feedback).to_string();
        self.0
            .put(FEEDBACK_RECORD_KIND, &key, &value, FEEDBACK_TTL)
            .await
    }

    /// Returns all feedback, newest first.
    ///
    /// # Errors
    /// The store read failed.
    pub async fn all(&self) -> Result<Vec<SlackFeedback>, HubError> {
        let records = self.0.list(FEEDBACK_RECORD_KIND).await?;
        let read = |(_, value): (String, String)| serde_json::from_str(&value).ok();
        let mut all: Vec<SlackFeedback> = records.into_iter().filter_map(read).collect();
        all.sort_by_key(|given| std::cmp::Reverse(given.at));
        Ok(all)
    }
}

impl ReplyService {
    /// Returns the feedback storage.
    pub fn feedback_store(&self) -> FeedbackStore {
        FeedbackStore(Arc::clone(&self.store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::tests::MemoryReplyStore;

    fn feedback(user: &str, good: bool, at: i64) -> SlackFeedback {
        SlackFeedback {
            question: "67e55044-10b1-426f-9247-bb680e5fe0c8".to_owned(),
            good,
            team: TeamId::new("T1").unwrap(),
            channel: ChannelId::new("C1").unwrap(),
            message: Ts::new("1.2").unwrap(),
            user: UserId::new(user).unwrap(),
            at: Timestamp::from_millis(at),
        }
    }

    #[tokio::test]
    async fn latest_feedback_per_user_wins_despite_late_delivery() {
        let feedbacks = FeedbackStore(Arc::new(MemoryReplyStore::default()));
        for item in [
            feedback("U1", true, 1),
            feedback("U2", true, 2),
            feedback("U1", false, 3),
            feedback("U1", true, 1),
        ] {
            feedbacks.put(&item).await.unwrap();
        }
        let all = feedbacks.all().await.unwrap();
        assert_eq!(all, [feedback("U1", false, 3), feedback("U2", true, 2)]);
    }

    #[test]
    fn only_own_feedback_button_values_are_parsed() {
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        for good in [true, false] {
            assert_eq!(
                SlackFeedback::parse_button_value(&button_value(id, good)),
                Some((id, good))
            );
        }
        for other in [
            "",
            "good",
            "good/",
            "fine/67e55044-10b1-426f-9247-bb680e5fe0c8",
            "bad/x",
        ] {
            assert_eq!(SlackFeedback::parse_button_value(other), None, "{other}");
        }
    }
}
