//! What people think of what came of a task.

use super::Hub;
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::talk::Feedback;

impl Hub {
    /// Keeps what somebody thinks of a task of the caller's, in the place of what they thought before. What
    /// is told late does not take the place of what is newer, and nothing is newer than now.
    ///
    /// # Errors
    /// The task is not the caller's, what is said is too long, or too many have said something already.
    pub async fn give_feedback(&self, caller: &Caller, given: Feedback) -> Result<(), HubError> {
        let comment = given.comment.as_deref().unwrap_or_default();
        for (what, length, limit) in [
            ("the user", given.who.len(), Feedback::LONGEST_NAME),
            ("the comment", comment.len(), Feedback::LONGEST_COMMENT),
        ] {
            if length > limit {
                return Err(HubError::TooLarge { what, limit });
            }
        }
        let task = self.task(caller, &given.task_id).await?;
        let given = Feedback {
            at: given.at.min(self.now()),
            ..given
        };
        if self.store().give_feedback(&given).await? {
            return Ok(());
        }
        // Either it is gone since, or there are many.
        self.task(caller, &task.id).await?;
        Limits::count("feedback of a task", Feedback::MOST + 1, Feedback::MOST)
    }
}
