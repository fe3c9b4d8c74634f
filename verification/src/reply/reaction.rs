//! The sign on a question of how it ended, in place of the one that it was received. It is a courtesy: a
//! workspace that does not allow it gets its answer all the same.

use super::effect::Ending;
use super::poster::{Carried, Job, UNSAID};
use crate::slack::api::SlackError;

/// The sign that a question was received.
pub(super) const RECEIVED: &str = "eyes";

impl Ending {
    const fn sign(self) -> &'static str {
        match self {
            Self::Answered => "white_check_mark",
            Self::Failed => "x",
            Self::Stopped => "octagonal_sign",
        }
    }
}

/// Puts the sign.
pub(super) async fn react(job: &Job<'_>, ending: Ending) -> Carried {
    let (slack, place) = (&job.desk.slack, &job.effect.place);
    let ending = match job.desk.shelf.note(UNSAID, &place.question).await {
        Ok(None) => ending,
        Ok(Some(_)) => Ending::Failed,
        Err(error) => return Carried::later(error),
    };
    let (channel, ts) = (&place.channel, &place.asked);
    // Each is about another sign, so neither waits for the other.
    let (removed, added) = tokio::join!(
        slack.reactions_remove(job.at, channel, ts, RECEIVED),
        slack.reactions_add(job.at, channel, ts, ending.sign()),
    );
    match [removed, added].into_iter().find_map(worth_another_try) {
        Some(error) => Carried::of(&error),
        None => Carried::Arrived,
    }
}

/// Both come to the same however often they are done, and nothing that Slack says for good matters.
fn worth_another_try(done: Result<(), SlackError>) -> Option<SlackError> {
    done.err().filter(SlackError::may_pass)
}
