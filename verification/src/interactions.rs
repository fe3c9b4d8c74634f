//! What people press: the button that stops an answer, and the thumbs below it. A pure reading of what
//! Slack sends about it; what follows is done elsewhere.

#[cfg(test)]
mod tests;

use crate::intake::{Stop, string};
use crate::reply::{FEEDBACK_ACTION, FeedbackGiven, STOP_ACTION};
use crate::slack::api::ResponseUrl;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// The longest address that is kept.
const LONGEST_URL: usize = 2_000;

/// So far two clocks may be apart before the other one is not believed.
const SKEW: Duration = Duration::from_secs(60);

/// What somebody pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pressed {
    /// Stop it.
    Stop(Stop),
    /// A thumb.
    Feedback {
        /// What they think.
        given: FeedbackGiven,
        /// When they pressed it, by Slack's clock.
        pressed: Ts,
    },
    /// Nothing of ours, and why.
    Ignored(&'static str),
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
            Some(FEEDBACK_ACTION) => feedback(payload, action, now),
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
        offer: offer(payload),
        in_thread: place.in_thread,
        enterprise: place.enterprise,
        team: place.team,
        channel: place.channel,
        thread: place.thread,
    })
}

/// By which the pressed message goes. What others see as well is the answer itself, and stays.
fn offer(payload: &Value) -> Option<ResponseUrl> {
    let alone = payload.pointer("/container/is_ephemeral") == Some(&Value::Bool(true));
    let url = string(payload, "response_url").filter(|_| alone);
    url.filter(|url| url.len() <= LONGEST_URL)
        .map(ResponseUrl::new)
}

fn feedback(payload: &Value, action: &Value, now: Timestamp) -> Option<Pressed> {
    let place = Place::of(payload)?;
    let (asked, good) = FeedbackGiven::read(string(action, "value")?)?;
    let pressed = Ts::new(string(action, "action_ts")?).ok()?;
    let said = Timestamp::from_millis(i64::try_from(pressed.micros() / 1000).ok()?);
    let given = FeedbackGiven {
        question: question(asked)?,
        good,
        // Nobody has pressed in the future, and whoever did would be right for ever.
        at: if said > now.after(SKEW) { now } else { said },
        team: place.team,
        channel: place.channel,
        message: place.message,
        user: place.user,
    };
    Some(Pressed::Feedback { given, pressed })
}

/// A question's id, if it looks like one.
fn question(text: &str) -> Option<String> {
    uuid::Uuid::try_parse(text).ok().map(|id| id.to_string())
}

/// Where something was pressed, and by whom.
struct Place {
    team: TeamId,
    enterprise: Option<TeamId>,
    channel: ChannelId,
    message: Ts,
    thread: Ts,
    in_thread: bool,
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
            enterprise: at("/enterprise/id").and_then(|id| TeamId::new(id).ok()),
            channel: ChannelId::new(first(&["/container/channel_id", "/channel/id"])?).ok()?,
            in_thread: thread.is_some(),
            thread: match thread {
                Some(thread) => Ts::new(thread).ok()?,
                None => message.clone(),
            },
            user: UserId::new(at("/user/id")?).ok()?,
            message,
        })
    }
}
