//! What users think of answers, for the operator. The buttons can be pressed again and again, and Slack
//! may tell of it late: the last press counts.

use super::Desk;
use super::shelf::Shelf;
use crate::interactions::Feedback;
use interzone_hub::{Hub, HubError};
use std::sync::Arc;
use std::time::Duration;

/// The kind of the records.
const KIND: &str = "slack.feedback";

/// How long what users think is kept.
const KEEP: Duration = Duration::from_secs(90 * 24 * 3600);

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
    pub async fn keep(&self, given: &Feedback) -> Result<(), HubError> {
        let key = given.key();
        let before = self.0.note(KIND, &key).await?;
        let before = before.and_then(|note| serde_json::from_str::<Feedback>(&note).ok());
        if before.is_some_and(|before| before.pressed > given.pressed) {
            return Ok(());
        }
        let value = serde_json::json!(given).to_string();
        self.0.keep(KIND, &key, &value, KEEP).await
    }

    /// All there is, newest first.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn all(&self) -> Result<Vec<Feedback>, HubError> {
        let notes = self.0.notes(KIND).await?;
        let read = |(_, value): (String, String)| serde_json::from_str(&value).ok();
        let mut all: Vec<Feedback> = notes.into_iter().filter_map(read).collect();
        all.sort_by(|one, other| other.pressed.cmp(&one.pressed));
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
    use crate::reply::testing::MemoryShelf;
    use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
    use interzone_protocol::vocab::Timestamp;

    fn given(user: &str, good: bool, pressed: &str) -> Feedback {
        Feedback {
            team: TeamId::new("T1").unwrap(),
            channel: ChannelId::new("C1").unwrap(),
            message: Ts::new("1.2").unwrap(),
            user: UserId::new(user).unwrap(),
            question: "67e55044-10b1-426f-9247-bb680e5fe0c8".to_owned(),
            good,
            pressed: Ts::new(pressed).unwrap(),
            at: Timestamp::from_millis(0),
        }
    }

    #[tokio::test]
    async fn the_last_press_of_each_counts_however_late_it_is_told() {
        let feedbacks = Feedbacks(Arc::new(MemoryShelf::default()));
        for one in [
            given("U1", true, "1.1"),
            given("U2", true, "2.1"),
            given("U1", false, "3.1"),
            given("U1", true, "1.1"),
        ] {
            feedbacks.keep(&one).await.unwrap();
        }
        let all = feedbacks.all().await.unwrap();
        assert_eq!(all, [given("U1", false, "3.1"), given("U2", true, "2.1")]);
    }
}
