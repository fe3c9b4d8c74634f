//! Classifies Slack events: a question, a stop, a change of the installation, or ignored. Pure parsing; access is
//! decided later.

mod attachments;
mod slack_text;

#[cfg(test)]
mod tests;

pub(crate) use slack_text::to_plain_text;

use crate::question::{ConversationKind, Question, thread_key};
use crate::slack::api::ResponseUrl;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Which messages that do not mention the bot count as questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionRules {
    /// Channels in which every message is a question.
    pub auto_reply: BTreeSet<ChannelId>,
    /// True if replies in a thread that the bot has answered in are questions.
    pub follow_threads: bool,
}

/// A classified Slack event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackEvent {
    /// URL verification with the challenge to echo.
    Challenge(String),
    /// A question.
    Question(Box<Question>),
    /// A question only if the bot has answered in this thread before.
    FollowUp(Box<Question>),
    /// A request to stop the running task of a thread.
    Stop(StopRequest),
    /// Bot tokens of a workspace were revoked.
    Revoked(Uninstall),
    /// The app was uninstalled from a workspace.
    Uninstalled(Uninstall),
    /// A user's profile has changed.
    UserChanged(TeamId, UserId),
    /// Slack dropped events because of its event rate limit.
    RateLimited,
    /// Ignored, with the reason.
    Ignored(&'static str),
}

/// A request to stop a question or all questions of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// Workspace in which the app is installed.
    pub team: TeamId,
    /// Enterprise organisation in which the app is installed, if installed org-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<TeamId>,
    /// Channel.
    pub channel: ChannelId,
    /// Thread.
    pub thread: Ts,
    /// True if the thread exists; false for a message without a thread.
    #[serde(default)]
    pub in_thread: bool,
    /// Question to stop; if `None`, everything running in the thread.
    pub question: Option<String>,
    /// User who requested it.
    pub user: Option<UserId>,
    /// Response URL to delete the ephemeral stop button.
    #[serde(default, rename = "offer", skip_serializing_if = "Option::is_none")]
    pub button_url: Option<ResponseUrl>,
    /// Slack's event id.
    pub event_id: String,
    /// Time at which the request was received.
    pub at: Timestamp,
}

impl StopRequest {
    /// Returns the key of what to stop: the question id, else the thread.
    pub fn target(&self) -> String {
        let thread = || thread_key(&self.team, &self.channel, &self.thread);
        self.question.clone().unwrap_or_else(thread)
    }
}

/// Token revocation or uninstallation of a workspace or organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uninstall {
    /// Workspace.
    pub team: TeamId,
    /// Enterprise organisation.
    pub enterprise: Option<TeamId>,
    /// Slack's event id.
    pub event_id: String,
    /// Time of the event according to Slack.
    #[serde(rename = "said")]
    pub happened_at: Timestamp,
}

/// Parses and classifies an event body.
pub fn parse(body: &[u8], rules: &QuestionRules, now: Timestamp) -> SlackEvent {
    match serde_json::from_slice(body) {
        Ok(body) => classify(&body, rules, now),
        Err(_) => SlackEvent::Ignored("unreadable"),
    }
}

/// Classifies a parsed event.
pub fn classify(body: &Value, rules: &QuestionRules, now: Timestamp) -> SlackEvent {
    match string(body, "type") {
        Some("url_verification") => match string(body, "challenge") {
            Some(challenge) => SlackEvent::Challenge(challenge.to_owned()),
            None => SlackEvent::Ignored("unreadable"),
        },
        Some("app_rate_limited") => SlackEvent::RateLimited,
        Some("event_callback") => match EventEnvelope::parse(body, now) {
            Some(envelope) => envelope.classify(rules),
            None => SlackEvent::Ignored("unreadable"),
        },
        _ => SlackEvent::Ignored("unknown_type"),
    }
}

/// Event callback envelope.
struct EventEnvelope<'a> {
    event: &'a Value,
    event_id: &'a str,
    team: TeamId,
    enterprise: Option<TeamId>,
    app: Option<&'a str>,
    /// Bot user, if the event names it.
    bot_user: Option<&'a str>,
    /// Event time in Unix seconds.
    event_time: Option<i64>,
    now: Timestamp,
}

impl<'a> EventEnvelope<'a> {
    fn parse(body: &'a Value, now: Timestamp) -> Option<Self> {
        let authorization = body.pointer("/authorizations/0").unwrap_or(&Value::Null);
        // In a channel shared by two companies `team_id` is theirs; the authorization names the installed workspace.
        let team = string(authorization, "team_id").or_else(|| string(body, "team_id"));
        let enterprise =
            string(authorization, "enterprise_id").or_else(|| string(body, "enterprise_id"));
        let team = team.or(enterprise)?;
        let event_id = string(body, "event_id")?;
        let is_valid = (1..=64).contains(&event_id.len())
            && event_id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_valid {
            return None;
        }
        Some(Self {
            event: body.get("event")?,
            event_id,
            team: TeamId::new(team).ok()?,
            enterprise: match enterprise {
                Some(enterprise) => Some(TeamId::new(enterprise).ok()?),
                None => None,
            },
            app: string(body, "api_app_id"),
            bot_user: string(authorization, "user_id"),
            event_time: body.get("event_time").and_then(Value::as_i64),
            now,
        })
    }

    fn classify(&self, rules: &QuestionRules) -> SlackEvent {
        match string(self.event, "type") {
            Some("app_mention") => self.message(rules, true),
            Some("message") => self.message(rules, false),
            Some("agent_session_stopped") => self.stop(),
            Some("tokens_revoked") => match self.event.pointer("/tokens/bot") {
                // Only user tokens were revoked.
                Some(Value::Array(bots)) if bots.is_empty() => SlackEvent::Ignored("user_tokens"),
                None => SlackEvent::Ignored("user_tokens"),
                Some(_) => SlackEvent::Revoked(self.uninstall()),
            },
            Some("app_uninstalled") => SlackEvent::Uninstalled(self.uninstall()),
            Some("user_change") => self.user_changed(),
            Some("app_home_opened") => SlackEvent::Ignored("home_opened"),
            Some("assistant_thread_started" | "assistant_thread_context_changed") => {
                SlackEvent::Ignored("assistant_thread")
            }
            _ => SlackEvent::Ignored("unknown_event"),
        }
    }

    fn user_changed(&self) -> SlackEvent {
        let user = self.event.pointer("/user/id").and_then(Value::as_str);
        match user.and_then(|user| UserId::new(user).ok()) {
            Some(user) => SlackEvent::UserChanged(self.team.clone(), user),
            None => SlackEvent::Ignored("unreadable"),
        }
    }

    fn uninstall(&self) -> Uninstall {
        Uninstall {
            team: self.team.clone(),
            enterprise: self.enterprise.clone(),
            event_id: self.event_id.to_owned(),
            happened_at: self.event_time.map_or(self.now, |seconds| {
                Timestamp::from_millis(seconds.saturating_mul(1000))
            }),
        }
    }

    fn stop(&self) -> SlackEvent {
        let build = || {
            Some(StopRequest {
                team: self.team.clone(),
                enterprise: self.enterprise.clone(),
                channel: ChannelId::new(string(self.event, "channel")?).ok()?,
                thread: Ts::new(string(self.event, "thread_ts")?).ok()?,
                in_thread: true,
                question: None,
                button_url: None,
                user: string(self.event, "user").and_then(|user| UserId::new(user).ok()),
                event_id: self.event_id.to_owned(),
                at: self.now,
            })
        };
        build().map_or(SlackEvent::Ignored("unreadable"), SlackEvent::Stop)
    }

    /// Classifies a message, or the app mention that Slack sends in addition to the message.
    fn message(&self, rules: &QuestionRules, is_mention: bool) -> SlackEvent {
        if let Some(reason) = self.ignore_reason() {
            return SlackEvent::Ignored(reason);
        }
        let Some(question) = self.question() else {
            return SlackEvent::Ignored("unreadable");
        };
        let is_addressed = is_mention || self.bot_user.is_some_and(|own| self.mentions(own));
        let question = Box::new(question);
        if is_addressed
            || question.conversation_kind == ConversationKind::Im
            || rules.auto_reply.contains(&question.channel)
        {
            SlackEvent::Question(question)
        } else if rules.follow_threads && question.in_thread {
            SlackEvent::FollowUp(question)
        } else {
            SlackEvent::Ignored("not_addressed")
        }
    }

    /// Returns why a message is never a question.
    fn ignore_reason(&self) -> Option<&'static str> {
        let event = self.event;
        let is_present = |name: &str| event.get(name).is_some_and(|value| !value.is_null());
        match string(event, "subtype") {
            None | Some("file_share" | "thread_broadcast") => {}
            Some("message_changed") => return Some("edited"),
            Some("message_deleted") => return Some("deleted"),
            Some("bot_message") => return Some("bot"),
            Some(_) => return Some("subtype"),
        }
        let app = string(event, "app_id");
        let user = string(event, "user");
        if is_present("bot_id") || is_present("bot_profile") {
            Some("bot")
        } else if (user.is_some() && user == self.bot_user) || (app.is_some() && app == self.app) {
            Some("own")
        } else if user == Some("USLACKBOT") {
            Some("bot")
        } else if is_present("edited") {
            Some("edited")
        } else if event.get("hidden") == Some(&Value::Bool(true)) {
            Some("hidden")
        } else {
            None
        }
    }

    fn mentions(&self, bot_user: &str) -> bool {
        let text = string(self.event, "text").unwrap_or_default();
        text.contains(&format!("<@{bot_user}>")) || text.contains(&format!("<@{bot_user}|"))
    }

    fn question(&self) -> Option<Question> {
        let event = self.event;
        let channel = ChannelId::new(string(event, "channel")?).ok()?;
        let ts = Ts::new(string(event, "ts")?).ok()?;
        // An invalid thread timestamp is ignored; the message's own is used.
        let thread = string(event, "thread_ts").and_then(|thread| Ts::new(thread).ok());
        let user_team = ["user_team", "source_team", "team"]
            .iter()
            .find_map(|name| string(event, name))
            .and_then(|team| TeamId::new(team).ok());
        let forwarded = attachments::parse_forwarded(event);
        let text =
            slack_text::question_text(string(event, "text").unwrap_or_default(), self.bot_user);
        // A forwarded message without a text of its own is the question itself.
        let (text, forwarded) = if text.is_empty() {
            (attachments::join_texts(&forwarded), Vec::new())
        } else {
            (text, forwarded)
        };
        Some(Question {
            id: Question::derive_id(&self.team, &channel, &ts),
            event_id: self.event_id.to_owned(),
            team: self.team.clone(),
            enterprise: self.enterprise.clone(),
            user_team,
            conversation_kind: conversation_kind(string(event, "channel_type"), &channel),
            user: UserId::new(string(event, "user")?).ok()?,
            in_thread: thread.as_ref().is_some_and(|thread| *thread != ts),
            thread: thread.unwrap_or_else(|| ts.clone()),
            text,
            original_chars: None,
            forwarded,
            files: attachments::parse_files(event),
            channel,
            ts,
            asked_at: self.now,
        })
    }
}

fn conversation_kind(kind: Option<&str>, channel: &ChannelId) -> ConversationKind {
    match (kind, channel.as_str().as_bytes().first()) {
        (Some("im"), _) | (None, Some(b'D')) => ConversationKind::Im,
        (Some("mpim"), _) => ConversationKind::Mpim,
        (Some("group"), _) | (None, Some(b'G')) => ConversationKind::Group,
        _ => ConversationKind::Channel,
    }
}

pub(crate) fn string<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}
