//! What people press: the button that stops an answer, and the thumbs below it. A pure reading of what
//! Slack sends about it; what follows is done elsewhere.

#[cfg(test)]
mod tests;

use crate::intake::{Stop, string};
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The button that stops an answer. Its value is the question's id.
pub const STOP_ACTION: &str = "interzone_stop";
/// The thumbs below an answer. Their values are made by [`vote`].
pub const FEEDBACK_ACTION: &str = "interzone_feedback";

/// The value of a thumb below the answer to a question.
///
/// ```
/// use interzone_verification::interactions::vote;
///
/// assert_eq!(vote(true, "q1"), "good/q1");
/// ```
pub fn vote(good: bool, question: &str) -> String {
    let word = if good { "good" } else { "bad" };
    format!("{word}/{question}")
}

/// What somebody pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pressed {
    /// Stop it.
    Stop(Stop),
    /// A thumb.
    Feedback(Feedback),
    /// Nothing of ours, and why.
    Ignored(&'static str),
}

/// What somebody thinks of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The workspace that has the app.
    pub team: TeamId,
    /// Where.
    pub channel: ChannelId,
    /// The message with the thumbs.
    pub message: Ts,
    /// Who.
    pub user: UserId,
    /// The answered question.
    pub question: String,
    /// Up or down.
    pub good: bool,
    /// When they pressed it.
    pub pressed: Ts,
    /// When we were told.
    pub at: Timestamp,
}

impl Feedback {
    /// The record's key: one voice each, whatever they pressed before.
    pub fn key(&self) -> String {
        format!(
            "{}/{}/{}/{}",
            self.team, self.channel, self.message, self.user
        )
    }
}

/// Reads the body of a request, a form with one member.
pub fn read(body: &[u8], now: Timestamp) -> Pressed {
    let payload = url::form_urlencoded::parse(body).find(|(name, _)| name == "payload");
    let payload = payload.and_then(|(_, payload)| serde_json::from_str(&payload).ok());
    payload.map_or(Pressed::Ignored("unreadable"), |payload| {
        classify(&payload, now)
    })
}

/// Reads what was pressed.
pub fn classify(payload: &Value, now: Timestamp) -> Pressed {
    if string(payload, "type") != Some("block_actions") {
        return Pressed::Ignored("unknown_type");
    }
    let actions = payload.get("actions").and_then(Value::as_array);
    for action in actions.into_iter().flatten() {
        let read = match string(action, "action_id") {
            Some(STOP_ACTION) => stop(payload, action, now).map(Pressed::Stop),
            Some(FEEDBACK_ACTION) => feedback(payload, action, now).map(Pressed::Feedback),
            _ => continue,
        };
        return read.unwrap_or(Pressed::Ignored("unreadable"));
    }
    Pressed::Ignored("unknown_action")
}

fn stop(payload: &Value, action: &Value, now: Timestamp) -> Option<Stop> {
    let place = Place::of(payload)?;
    Some(Stop {
        question: Some(question(string(action, "value")?)?),
        user: Some(place.user),
        event_id: format!("stop:{}", Ts::new(string(action, "action_ts")?).ok()?),
        at: now,
        team: place.team,
        channel: place.channel,
        thread: place.thread,
    })
}

fn feedback(payload: &Value, action: &Value, now: Timestamp) -> Option<Feedback> {
    let place = Place::of(payload)?;
    let (word, asked) = string(action, "value")?.split_once('/')?;
    Some(Feedback {
        good: match word {
            "good" => true,
            "bad" => false,
            _ => return None,
        },
        question: question(asked)?,
        pressed: Ts::new(string(action, "action_ts")?).ok()?,
        at: now,
        team: place.team,
        channel: place.channel,
        message: place.message,
        user: place.user,
    })
}

/// A question's id, if it looks like one.
fn question(text: &str) -> Option<String> {
    uuid::Uuid::try_parse(text).ok().map(|id| id.to_string())
}

/// Where something was pressed, and by whom.
struct Place {
    team: TeamId,
    channel: ChannelId,
    message: Ts,
    thread: Ts,
    user: UserId,
}

impl Place {
    fn of(payload: &Value) -> Option<Self> {
        let at = |path: &str| payload.pointer(path).and_then(Value::as_str);
        let first = |paths: &[&str]| paths.iter().find_map(|path| at(path));
        let message = Ts::new(first(&["/container/message_ts", "/message/ts"])?).ok()?;
        let thread = first(&["/container/thread_ts", "/message/thread_ts"]);
        Some(Self {
            team: TeamId::new(first(&["/team/id", "/enterprise/id"])?).ok()?,
            channel: ChannelId::new(first(&["/container/channel_id", "/channel/id"])?).ok()?,
            thread: match thread {
                Some(thread) => Ts::new(thread).ok()?,
                None => message.clone(),
            },
            user: UserId::new(at("/user/id")?).ok()?,
            message,
        })
    }
}
