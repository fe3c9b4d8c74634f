//! A text as a message of its own.

use super::blocks;
use super::markdown::mrkdwn;
use super::poster::{Carried, Job};
use super::split::split;
use super::thread::Stands;
use crate::slack::api::SlackError;
use crate::slack::api::chat::{Post, Update};
use crate::slack::ids::Ts;
use serde_json::Value;

/// The most characters of a part of a message that was too long for Slack.
const SHORTER: usize = 3_500;

/// Posts a text, unless it stands there.
pub(super) async fn post(job: &Job<'_>, text: &str, feedback: bool) -> Carried {
    let stands = match stands(job).await {
        Ok(stands) => stands,
        Err(error) => return job.came(&error),
    };
    if stands.key(job.key).is_some() {
        return Carried::Arrived;
    }
    match send(job, job.key, text, feedback).await {
        Ok(()) => Carried::Arrived,
        Err(error) if is_too_long(&error) => in_parts(job, None, text, feedback, &stands).await,
        Err(error) => job.came(&error),
    }
}

/// What stands in the thread, if anything of ours may.
pub(super) async fn stands(job: &Job<'_>) -> Result<Stands, SlackError> {
    if job.again {
        Stands::read(job.desk, job.at, &job.effect.place).await
    } else {
        Ok(Stands::default())
    }
}

/// Puts a text into several messages, the first in place of `first`. Each has a key of its own.
pub(super) async fn in_parts(
    job: &Job<'_>,
    first: Option<&Ts>,
    text: &str,
    feedback: bool,
    stands: &Stands,
) -> Carried {
    let parts = split(text, SHORTER);
    let last = parts.len().saturating_sub(1);
    for (number, part) in parts.iter().enumerate() {
        let key = format!("{}+{number}", job.key);
        let feedback = feedback && number == last;
        let done = match first.filter(|_| number == 0) {
            Some(ts) => change(job, ts, &key, part, feedback).await,
            None if stands.key(&key).is_some() => Ok(()),
            None => send(job, &key, part, feedback).await,
        };
        if let Err(error) = done {
            return job.came(&error);
        }
    }
    Carried::Arrived
}

/// Sends a message.
async fn send(job: &Job<'_>, key: &str, text: &str, feedback: bool) -> Result<(), SlackError> {
    let place = &job.effect.place;
    let (own, metadata) = (mrkdwn(text), blocks::metadata(key));
    let mut sent = Ok(());
    for blocks in shapes(job, text, feedback) {
        let post = Post {
            channel: &place.channel,
            thread: Some(&place.thread),
            text: &own,
            blocks: blocks.as_ref(),
            metadata: Some(&metadata),
        };
        let posted = job.desk.slack.chat_post_message(job.at, &post).await;
        sent = posted.map(drop);
        if !sent.as_ref().is_err_and(is_about_blocks) {
            break;
        }
    }
    sent
}

/// Changes a message.
pub(super) async fn change(
    job: &Job<'_>,
    ts: &Ts,
    key: &str,
    text: &str,
    feedback: bool,
) -> Result<(), SlackError> {
    let (own, metadata) = (mrkdwn(text), blocks::metadata(key));
    let none = serde_json::json!([]);
    let mut changed = Ok(());
    for blocks in shapes(job, text, feedback) {
        let update = Update {
            channel: &job.effect.place.channel,
            ts,
            text: &own,
            // What has blocks keeps them until it is told otherwise.
            blocks: Some(blocks.as_ref().unwrap_or(&none)),
            metadata: Some(&metadata),
        };
        changed = job.desk.slack.chat_update(job.at, &update).await;
        if !changed.as_ref().is_err_and(is_about_blocks) {
            break;
        }
    }
    changed
}

/// The blocks of a message, the best first: not every workspace takes all of them, and the text alone
/// is taken everywhere.
fn shapes(job: &Job<'_>, text: &str, feedback: bool) -> Vec<Option<Value>> {
    let about = (job.effect.place.question.as_str(), job.effect.language);
    let mut shapes = vec![Some(blocks::message(text, None)), None];
    if feedback {
        shapes.insert(0, Some(blocks::message(text, Some(about))));
    }
    shapes
}

pub(super) fn is_too_long(error: &SlackError) -> bool {
    [
        "msg_too_long",
        "msg_blocks_too_long",
        "markdown_text_too_long",
    ]
    .iter()
    .any(|word| error.is(word))
}

pub(super) fn is_about_blocks(error: &SlackError) -> bool {
    ["invalid_blocks", "invalid_blocks_format", "block_mismatch"]
        .iter()
        .any(|word| error.is(word))
}
