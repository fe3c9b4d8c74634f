//! Feedback on tasks.

use super::Hub;
use crate::access::Caller;
use crate::conversation::Feedback;
use crate::error::HubError;
use crate::limits::Limits;

impl Hub {
    /// Stores a user's feedback on a task of the caller, replacing earlier feedback of the same user. Late feedback
    /// does not replace newer feedback, and timestamps in the future are set to now.
    ///
    /// # Errors
    /// The task is not the caller's, a text is too long, or too many users have given feedback already.
    pub async fn give_feedback(&self, caller: &Caller, feedback: Feedback) -> Result<(), HubError> {
        let comment = feedback.comment.as_deref().unwrap_or_default();
        for (what, length, limit) in [
            (
                "the user",
                feedback.author.len(),
                Feedback::MAX_AUTHOR_BYTES,
            ),
            ("the comment", comment.len(), Feedback::MAX_COMMENT_BYTES),
        ] {
            if length > limit {
                return Err(HubError::TooLarge { what, limit });
            }
        }
        let task = self.task(caller, &feedback.task_id).await?;
        let feedback = Feedback {
            given_at: feedback.given_at.min(self.now()),
            ..feedback
        };
        if self.store().put_feedback(&feedback).await? {
            return Ok(());
        }
        // Either the task was removed since, or there is too much feedback.
        self.task(caller, &task.id).await?;
        Limits::check_count(
            "feedback of a task",
            Feedback::MAX_PER_TASK + 1,
            Feedback::MAX_PER_TASK,
        )
    }
}
