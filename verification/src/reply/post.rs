//! A text as a message of its own.

use super::blocks;
use super::markdown::mrkdwn;
use super::poster::{Carried, Job};
use super::split::split;
use super::thread::Stands;
use crate::slack::api::SlackError;
use crate::slack::api::chat::{Post, Update};
use crate::slack::ids::Ts;

/// The most characters of a part of a message that was too long for Slack.
const SHORTER: usize = 3_500;

/// Posts a text, unless it stands there.
pub(super) async fn post(job: &Job<'_>, text: &str, feedback: bool) -> Carried {
    let stands = match stands(job).await {
        Ok(stands) => stands,
        Err(error) => return Carried::of(&error),
    };
    if stands.key(job.key).is_some() {
        return Carried::Arrived;
    }
    match send(job, job.key, text, feedback).await {
        Ok(()) => Carried::Arrived,
        Err(error) if is_too_long(&error) => in_parts(job, None, text, feedback, &stands).await,
        Err(error) => Carried::of(&error),
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
            return Carried::of(&error);
        }
    }
    Carried::Arrived
}

/// Sends a message. Where Slack does not take our blocks it gets the text alone.
async fn send(job: &Job<'_>, key: &str, text: &str, feedback: bool) -> Result<(), SlackError> {
    let place = &job.effect.place;
    let own = mrkdwn(text);
    let (blocks, metadata) = around(job, key, text, feedback);
    let post = Post {
        channel: &place.channel,
        thread: Some(&place.thread),
        text: &own,
        blocks: Some(&blocks),
        metadata: Some(&metadata),
    };
    let sent = job.desk.slack.chat_post_message(job.at, &post).await;
    match sent {
        Err(error) if is_about_blocks(&error) => {
            let bare = Post {
                blocks: None,
                ..post
            };
            job.desk.slack.chat_post_message(job.at, &bare).await
        }
        sent => sent,
    }
    .map(drop)
}

/// Changes a message. Where Slack does not take our blocks it gets the text alone.
pub(super) async fn change(
    job: &Job<'_>,
    ts: &Ts,
    key: &str,
    text: &str,
    feedback: bool,
) -> Result<(), SlackError> {
    let own = mrkdwn(text);
    let (blocks, metadata) = around(job, key, text, feedback);
    let update = Update {
        channel: &job.effect.place.channel,
        ts,
        text: &own,
        blocks: Some(&blocks),
        metadata: Some(&metadata),
    };
    match job.desk.slack.chat_update(job.at, &update).await {
        Err(error) if is_about_blocks(&error) => {
            let none = serde_json::json!([]);
            let bare = Update {
                blocks: Some(&none),
                ..update
            };
            job.desk.slack.chat_update(job.at, &bare).await
        }
        done => done,
    }
}

/// The blocks of a message, and what is written behind it.
fn around(
    job: &Job<'_>,
    key: &str,
    text: &str,
    feedback: bool,
) -> (serde_json::Value, serde_json::Value) {
    let about = (job.effect.place.question.as_str(), job.effect.language);
    let blocks = blocks::message(text, feedback.then_some(about));
    (blocks, blocks::metadata(key))
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
