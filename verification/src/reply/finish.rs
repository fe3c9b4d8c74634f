//! The end of a live reply: what it has left in Slack becomes the text that was meant. It comes to the
//! same however often it is done.

use super::effect::{Left, Standing};
use super::live::Begun;
use super::poster::{Carried, Job};
use super::thread::Stands;
use super::{blocks, post};
use crate::slack::api::SlackError;
use crate::slack::api::chat::StopStream;
use crate::slack::ids::Ts;

/// Makes the text of what the live reply has left.
pub(super) async fn finish(job: &Job<'_>, text: &str, feedback: bool, left: &Left) -> Carried {
    if let Standing::Stream { ts, sure: true } = &left.standing
        && !job.again
        && let Some(rest) = rest(text, &left.said)
    {
        match stop_with(job, ts, rest, feedback).await {
            Ok(()) => return Carried::Arrived,
            // Whether it has happened or not, the next attempt sees to it.
            Err(error) if error.may_pass() || error.is_puzzling() => {
                return job.came(&error);
            }
            Err(error) => tracing::debug!(%error, "a stream could not be ended with its text"),
        }
    }
    let found = match find(job, &left.standing).await {
        Ok(found) => found,
        Err(carried) => return carried,
    };
    let Some((ts, streams)) = found else {
        return post::post(job, text, feedback).await;
    };
    if streams {
        if let Err(error) = stop(job, &ts).await {
            return job.came(&error);
        }
        // Two answers in one thread may take the same stream for their own, each while the other's call was
        // on its way. It is theirs who ended it, and whose key it has; the other is said anew.
        match Stands::read(job.desk, job.at, &job.effect.place).await {
            Ok(stands) if stands.is_anothers(&ts, &job.effect.place) => {
                return post::post(job, text, feedback).await;
            }
            Ok(_) => {}
            Err(error) => return job.came(&error),
        }
    }
    match post::change(job, &ts, job.key, text, feedback).await {
        Ok(()) => Carried::Arrived,
        // Somebody took it away, or it can be changed no more; the answer must stand there all the same.
        Err(error) if is_gone(&error) => post::post(job, text, feedback).await,
        Err(error) if post::is_too_long(&error) => match post::stands(job).await {
            Ok(stands) => post::in_parts(job, Some(&ts), text, feedback, &stands).await,
            Err(error) => job.came(&error),
        },
        Err(error) => job.came(&error),
    }
}

/// What is missing of a text of which this much was said; nothing if it was something else.
fn rest<'a>(text: &'a str, said: &str) -> Option<&'a str> {
    // What is only blank at the end of what was said is no difference.
    text.strip_prefix(said)
        .or_else(|| (text == said.trim_end()).then_some(""))
}

/// Which message it is, and whether it may still be growing.
async fn find(job: &Job<'_>, standing: &Standing) -> Result<Option<(Ts, bool)>, Carried> {
    match standing {
        Standing::Stream { ts, .. } => return Ok(Some((ts.clone(), true))),
        Standing::Post { ts } => return Ok(Some((ts.clone(), false))),
        Standing::Nothing => return Ok(None),
        Standing::Unknown => {}
    }
    let (desk, place) = (job.desk, &job.effect.place);
    let begun = Begun::read(&*desk.shelf, &place.question).await;
    if let Some(Begun::Known { ts, streams }) = begun.map_err(Carried::later)? {
        return Ok(Some((ts, streams)));
    }
    let stands = Stands::read(desk, job.at, place).await;
    let stands = stands.map_err(|error| job.came(&error))?;
    if let Some(ts) = stands.key(job.key) {
        return Ok(Some((ts.clone(), false)));
    }
    if job.at.bot_user.is_none() && job.at.bot_id.is_none() && job.early {
        // Which of the messages are ours is not known yet, and one that is not found would come twice.
        return Err(Carried::later("slack has not told yet who we are"));
    }
    for ts in stands.keyless(job.at, place) {
        let whose = Begun::whose(&*desk.shelf, &place.channel, &ts).await;
        let whose = whose.map_err(Carried::later)?;
        if whose.is_none_or(|whose| whose == place.question) {
            // Nobody else began it: it is the one of which we never heard.
            return Ok(Some((ts, true)));
        }
    }
    Ok(None)
}

/// Ends a stream with the rest of its text.
async fn stop_with(job: &Job<'_>, ts: &Ts, rest: &str, feedback: bool) -> Result<(), SlackError> {
    let place = &job.effect.place;
    let under = feedback.then(|| {
        let buttons = blocks::feedback_buttons(&place.question, job.effect.language);
        serde_json::Value::Array(vec![buttons])
    });
    let metadata = blocks::metadata(job.key);
    let stop = StopStream {
        channel: &place.channel,
        ts,
        markdown: Some(rest).filter(|rest| !rest.is_empty()),
        chunks: None,
        blocks: under.as_ref(),
        metadata: Some(&metadata),
    };
    job.desk.slack.chat_stop_stream(job.at, &stop).await
}

/// Ends a stream as it is, and makes it ours. One that has ended is fine.
async fn stop(job: &Job<'_>, ts: &Ts) -> Result<(), SlackError> {
    let metadata = blocks::metadata(job.key);
    let stop = StopStream {
        channel: &job.effect.place.channel,
        ts,
        markdown: None,
        chunks: None,
        blocks: None,
        metadata: Some(&metadata),
    };
    match job.desk.slack.chat_stop_stream(job.at, &stop).await {
        // Whatever is wrong with it for good shows when it is changed. As long as it grows it cannot be.
        Err(error) if !error.may_pass() => Ok(()),
        done => done,
    }
}

fn is_gone(error: &SlackError) -> bool {
    [
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
    ]
    .iter()
    .any(|word| error.is(word))
}
