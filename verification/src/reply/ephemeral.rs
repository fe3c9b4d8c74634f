//! Words for one person alone. Nobody can look whether they were seen, so after a lost answer they are
//! said again: twice is better than not at all.

use super::markdown::mrkdwn;
use super::post;
use super::poster::{Carried, Job};
use crate::slack::api::chat::Ephemeral;
use crate::slack::ids::UserId;

/// Tells somebody something.
pub(super) async fn tell(
    job: &Job<'_>,
    user: &UserId,
    text: &str,
    in_thread: bool,
    alone: bool,
) -> Carried {
    let place = &job.effect.place;
    let own = mrkdwn(text);
    let post = Ephemeral {
        channel: &place.channel,
        user,
        // In a thread that nobody has begun, nobody would see it.
        thread: in_thread.then_some(&place.thread),
        text: &own,
        blocks: None,
    };
    match job.desk.slack.chat_post_ephemeral(job.at, &post).await {
        Ok(()) => Carried::Arrived,
        // Where nobody else reads it, a message will do.
        Err(error) if alone && !error.may_pass() => post::post(job, text, false).await,
        Err(error) => job.came(&error),
    }
}
