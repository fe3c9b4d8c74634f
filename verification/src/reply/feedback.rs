//! What users think of answers: what a press of a button says, and the list of them for the operator.
//! The buttons can be pressed again and again; the last press counts.

use super::Desk;
use super::shelf::Shelf;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The kind of the records.
const KIND: &str = "slack.feedback";

/// How long what users think is kept.
const KEEP: Duration = Duration::from_secs(90 * 24 * 3600);

/// What the button for an answer says when it is pressed.
pub(super) fn value(question: &str, good: bool) -> String {
    let word = if good { "good" } else { "bad" };
    format!("{word}/{question}")
}

/// What somebody thinks of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackGiven {
    /// The question's id.
    pub question: String,
    /// Whether it was of use.
    pub good: bool,
    /// The workspace.
    pub team: TeamId,
    /// Where.
    pub channel: ChannelId,
    /// The message whose button was pressed.
    pub message: Ts,
    /// Who pressed it.
    pub user: UserId,
    /// When.
    pub at: Timestamp,
}

impl FeedbackGiven {
    /// The kind of the records that hold it, for whoever reads the store beside the zone.
    pub const KIND: &'static str = KIND;

    /// Reads a button's value: the question's id, and whether the answer was of use. Nothing if it is
    /// none of ours.
    ///
    /// ```
    /// use interzone_verification::FeedbackGiven;
    ///
    /// let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    /// assert_eq!(FeedbackGiven::read(&format!("good/{id}")), Some((id, true)));
    /// assert_eq!(FeedbackGiven::read("good/../x"), None);
    /// ```
    pub fn read(value: &str) -> Option<(&str, bool)> {
        let (word, question) = value.split_once('/')?;
        let good = match word {
            "good" => true,
            "bad" => false,
            _ => return None,
        };
        uuid::Uuid::try_parse(question).ok()?;
        Some((question, good))
    }
}

/// Where feedback is kept.
#[derive(Clone)]
pub struct Feedbacks(Arc<dyn Shelf>);

impl Feedbacks {
    /// Keeps it in the hub's store.
    pub fn new(hub: Hub) -> Self {
        Self(Arc::new(hub))
    }

    /// Keeps what somebody thinks, in place of what they thought before.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn keep(&self, given: &FeedbackGiven) -> Result<(), HubError> {
        let key = format!("{}/{}/{}", given.team, given.question, given.user);
        let before = self.0.note(KIND, &key).await?;
        let before = before.and_then(|note| serde_json::from_str::<FeedbackGiven>(&note).ok());
        if before.is_some_and(|before| before.at > given.at) {
            // Slack tells of it late.
            return Ok(());
        }
        let value = serde_json::json!(given).to_string();
        self.0.keep(KIND, &key, &value, KEEP).await
    }

    /// All there is, newest first.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn all(&self) -> Result<Vec<FeedbackGiven>, HubError> {
        let notes = self.0.notes(KIND).await?;
        let read = |(_, value): (String, String)| serde_json::from_str(&value).ok();
        let mut all: Vec<FeedbackGiven> = notes.into_iter().filter_map(read).collect();
        all.sort_by_key(|given| std::cmp::Reverse(given.at));
        Ok(all)
    }
}

impl Desk {
    /// Where feedback is kept.
    pub fn feedbacks(&self) -> Feedbacks {
        Feedbacks(Arc::clone(&self.shelf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::tests::MemoryShelf;

    fn given(user: &str, good: bool, at: i64) -> FeedbackGiven {
        FeedbackGiven {
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
    async fn the_last_press_of_each_counts_however_late_it_is_told() {
        let feedbacks = Feedbacks(Arc::new(MemoryShelf::default()));
        for one in [
            given("U1", true, 1),
            given("U2", true, 2),
            given("U1", false, 3),
            given("U1", true, 1),
        ] {
            feedbacks.keep(&one).await.unwrap();
        }
        let all = feedbacks.all().await.unwrap();
        assert_eq!(all, [given("U1", false, 3), given("U2", true, 2)]);
    }

    #[test]
    fn only_what_our_buttons_say_is_read() {
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        for good in [true, false] {
            assert_eq!(FeedbackGiven::read(&value(id, good)), Some((id, good)));
        }
        for other in [
            "",
            "good",
            "good/",
            "fine/67e55044-10b1-426f-9247-bb680e5fe0c8",
            "bad/x",
        ] {
            assert_eq!(FeedbackGiven::read(other), None, "{other}");
        }
    }
}
