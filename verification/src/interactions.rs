//! Parses Slack interactions: the stop button and the feedback buttons.

#[cfg(test)]
mod tests;

use crate::intake::{StopRequest, string};
use crate::reply::{FEEDBACK_ACTION, STOP_ACTION, SlackFeedback};
use crate::slack::api::ResponseUrl;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// Maximum length of a stored response URL.
const MAX_URL_BYTES: usize = 2_000;

/// Tolerated clock skew of Slack's timestamps.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// A button press.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// The stop button.
    Stop(StopRequest),
    /// A feedback button.
    Feedback {
        /// The feedback.
        feedback: SlackFeedback,
        /// Time of the press according to Slack.
        pressed_at: Ts,
    },
    /// Ignored, with the reason.
    Ignored(&'static str),
}

/// Parses a request body, a form with one field.
pub fn parse(body: &[u8], now: Timestamp) -> Interaction {
    let payload = url::form_urlencoded::parse(body).find(|(name, _)| name == "payload");
    let payload = payload.and_then(|(_, payload)| serde_json::from_str(&payload).ok());
    payload.map_or(Interaction::Ignored("unreadable"), |payload| {
        classify(&payload, now)
    })
}

/// Classifies a parsed payload.
pub fn classify(payload: &Value, now: Timestamp) -> Interaction {
    if string(payload, "type") != Some("block_actions") {
        return Interaction::Ignored("unknown_type");
    }
    let actions = payload.get("actions").and_then(Value::as_array);
    for action in actions.into_iter().flatten() {
        let interaction = match string(action, "action_id") {
            Some(STOP_ACTION) => parse_stop(payload, action, now).map(Interaction::Stop),
            Some(FEEDBACK_ACTION) => parse_feedback(payload, action, now),
            _ => continue,
        };
        return interaction.unwrap_or(Interaction::Ignored("unreadable"));
    }
    Interaction::Ignored("unknown_action")
}

fn parse_stop(payload: &Value, action: &Value, now: Timestamp) -> Option<StopRequest> {
    let source = InteractionSource::parse(payload)?;
    Some(StopRequest {
        question: Some(parse_question_id(string(action, "value")?)?),
        user: Some(source.user),
        event_id: format!("stop:{}", Ts::new(string(action, "action_ts")?).ok()?),
        at: now,
        button_url: button_url(payload),
        in_thread: source.in_thread,
        enterprise: source.enterprise,
        team: source.team,
        channel: source.channel,
        thread: source.thread,
    })
}

/// Returns the response URL of an ephemeral message, to delete it. A visible message is the answer itself and stays.
fn button_url(payload: &Value) -> Option<ResponseUrl> {
    let is_ephemeral = payload.pointer("/container/is_ephemeral") == Some(&Value::Bool(true));
    let url = string(payload, "response_url").filter(|_| is_ephemeral);
    url.filter(|url| url.len() <= MAX_URL_BYTES)
        .map(ResponseUrl::new)
}

fn parse_feedback(payload: &Value, action: &Value, now: Timestamp) -> Option<Interaction> {
    let source = InteractionSource::parse(payload)?;
    let (question_id, good) = SlackFeedback::parse_button_value(string(action, "value")?)?;
    let pressed_at = Ts::new(string(action, "action_ts")?).ok()?;
    let claimed_at = Timestamp::from_millis(i64::try_from(pressed_at.micros() / 1000).ok()?);
    let feedback = SlackFeedback {
        question: parse_question_id(question_id)?,
        good,
        // A timestamp in the future is replaced: the last press counts, so it would win over all later ones.
        at: if claimed_at > now.plus(MAX_CLOCK_SKEW) {
            now
        } else {
            claimed_at
        },
        team: source.team,
        channel: source.channel,
        message: source.message,
        user: source.user,
    };
    Some(Interaction::Feedback {
        feedback,
        pressed_at,
    })
}

/// Parses a question id.
fn parse_question_id(text: &str) -> Option<String> {
    uuid::Uuid::try_parse(text).ok().map(|id| id.to_string())
}

/// Message and user of a button press.
struct InteractionSource {
    team: TeamId,
    enterprise: Option<TeamId>,
    channel: ChannelId,
    message: Ts,
    thread: Ts,
    in_thread: bool,
    user: UserId,
}

impl InteractionSource {
    fn parse(payload: &Value) -> Option<Self> {
        let string_at = |path: &str| payload.pointer(path).and_then(Value::as_str);
        let first = |paths: &[&str]| paths.iter().find_map(|path| string_at(path));
        let message = Ts::new(first(&["/container/message_ts", "/message/ts"])?).ok()?;
        let thread = first(&["/container/thread_ts", "/message/thread_ts"]);
        Some(Self {
            team: TeamId::new(first(&["/team/id", "/enterprise/id"])?).ok()?,
            enterprise: string_at("/enterprise/id").and_then(|id| TeamId::new(id).ok()),
            channel: ChannelId::new(first(&["/container/channel_id", "/channel/id"])?).ok()?,
            in_thread: thread.is_some(),
            thread: match thread {
                Some(thread) => Ts::new(thread).ok()?,
                None => message.clone(),
            },
            user: UserId::new(string_at("/user/id")?).ok()?,
            message,
        })
    }
}
