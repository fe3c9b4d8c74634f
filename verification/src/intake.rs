//! What an event of Slack means to us: a question, a stop, something about the installation, or nothing.
//! A pure reading of what was sent; whether the asker may is decided later, and nothing is kept here.

mod files;
mod forwarded;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use text::readable;

use crate::question::{PlaceKind, Question, thread_key};
use crate::slack::api::ResponseUrl;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// In which messages that do not mention us we see a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Channels in which every message is one.
    pub auto_reply: BTreeSet<ChannelId>,
    /// Whether replies in a thread that we have answered in are questions.
    pub follow_threads: bool,
}

/// What an event means to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Slack wants to know whether somebody is here, and this echoed.
    Challenge(String),
    /// Somebody asks.
    Question(Box<Question>),
    /// Somebody asks if we have answered in this thread before; else they talk to others.
    Followed(Box<Question>),
    /// Somebody wants what goes on in a thread stopped.
    Stop(Stop),
    /// Tokens of a workspace are no longer good.
    Revoked(Left),
    /// A workspace has thrown the app out.
    Uninstalled(Left),
    /// What is known of somebody is no longer so.
    UserChanged(TeamId, UserId),
    /// Slack held events back: there were too many.
    RateLimited,
    /// Nothing, and why.
    Ignored(&'static str),
}

/// What is to be stopped, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The workspace that has the app.
    pub team: TeamId,
    /// The organisation that has the app, if it is not a workspace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<TeamId>,
    /// Where.
    pub channel: ChannelId,
    /// In which thread.
    pub thread: Ts,
    /// Whether a thread is there, and not just a message that none has begun at.
    #[serde(default)]
    pub in_thread: bool,
    /// The question, if one was named; else whatever goes on in the thread.
    pub question: Option<String>,
    /// Who wants it.
    pub user: Option<UserId>,
    /// By which the offer goes that was pressed, if only its presser sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<ResponseUrl>,
    /// Slack's name for what told us.
    pub event_id: String,
    /// When we were told.
    pub at: Timestamp,
}

impl Stop {
    /// The name of what is to be stopped. A question is known by its id, wherever its button stands.
    pub fn target(&self) -> String {
        let thread = || thread_key(&self.team, &self.channel, &self.thread);
        self.question.clone().unwrap_or_else(thread)
    }
}

/// A workspace or an organisation that took something back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The workspace.
    pub team: TeamId,
    /// The organisation.
    pub enterprise: Option<TeamId>,
    /// Slack's name for what told us.
    pub event_id: String,
    /// When Slack says that it happened.
    pub said: Timestamp,
}

/// Reads an event.
pub fn read(body: &[u8], rules: &Rules, now: Timestamp) -> Incoming {
    match serde_json::from_slice(body) {
        Ok(body) => classify(&body, rules, now),
        Err(_) => Incoming::Ignored("unreadable"),
    }
}

/// Reads an event that is JSON already.
pub fn classify(body: &Value, rules: &Rules, now: Timestamp) -> Incoming {
    match string(body, "type") {
        Some("url_verification") => match string(body, "challenge") {
            Some(challenge) => Incoming::Challenge(challenge.to_owned()),
            None => Incoming::Ignored("unreadable"),
        },
        Some("app_rate_limited") => Incoming::RateLimited,
        Some("event_callback") => match Envelope::of(body, now) {
            Some(envelope) => envelope.classify(rules),
            None => Incoming::Ignored("unreadable"),
        },
        _ => Incoming::Ignored("unknown_type"),
    }
}

/// An event with what Slack says about it.
struct Envelope<'a> {
    event: &'a Value,
    event_id: &'a str,
    team: TeamId,
    enterprise: Option<TeamId>,
    app: Option<&'a str>,
    /// Our own user, if Slack names it.
    own: Option<&'a str>,
    /// When it happened, in seconds since 1970.
    happened: Option<i64>,
    now: Timestamp,
}

impl<'a> Envelope<'a> {
    fn of(body: &'a Value, now: Timestamp) -> Option<Self> {
        let us = body.pointer("/authorizations/0").unwrap_or(&Value::Null);
        // In a channel that two companies share, the event is of their workspace and the token of ours.
        let team = string(us, "team_id").or_else(|| string(body, "team_id"));
        let enterprise = string(us, "enterprise_id").or_else(|| string(body, "enterprise_id"));
        let team = team.or(enterprise)?;
        let event_id = string(body, "event_id")?;
        let sane = (1..=64).contains(&event_id.len())
            && event_id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !sane {
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
            own: string(us, "user_id"),
            happened: body.get("event_time").and_then(Value::as_i64),
            now,
        })
    }

    fn classify(&self, rules: &Rules) -> Incoming {
        match string(self.event, "type") {
            Some("app_mention") => self.message(rules, true),
            Some("message") => self.message(rules, false),
            Some("agent_session_stopped") => self.stop(),
            Some("tokens_revoked") => match self.event.pointer("/tokens/bot") {
                // Tokens of people are not ours.
                Some(Value::Array(bots)) if bots.is_empty() => Incoming::Ignored("user_tokens"),
                None => Incoming::Ignored("user_tokens"),
                Some(_) => Incoming::Revoked(self.left()),
            },
            Some("app_uninstalled") => Incoming::Uninstalled(self.left()),
            Some("user_change") => self.user_changed(),
            Some("app_home_opened") => Incoming::Ignored("home_opened"),
            Some("assistant_thread_started" | "assistant_thread_context_changed") => {
                Incoming::Ignored("assistant_thread")
            }
            _ => Incoming::Ignored("unknown_event"),
        }
    }

    fn user_changed(&self) -> Incoming {
        let user = self.event.pointer("/user/id").and_then(Value::as_str);
        match user.and_then(|user| UserId::new(user).ok()) {
            Some(user) => Incoming::UserChanged(self.team.clone(), user),
            None => Incoming::Ignored("unreadable"),
        }
    }

    fn left(&self) -> Left {
        Left {
            team: self.team.clone(),
            enterprise: self.enterprise.clone(),
            event_id: self.event_id.to_owned(),
            said: self.happened.map_or(self.now, |seconds| {
                Timestamp::from_millis(seconds.saturating_mul(1000))
            }),
        }
    }

    fn stop(&self) -> Incoming {
        let read = || {
            Some(Stop {
                team: self.team.clone(),
                enterprise: self.enterprise.clone(),
                channel: ChannelId::new(string(self.event, "channel")?).ok()?,
                thread: Ts::new(string(self.event, "thread_ts")?).ok()?,
                in_thread: true,
                question: None,
                offer: None,
                user: string(self.event, "user").and_then(|user| UserId::new(user).ok()),
                event_id: self.event_id.to_owned(),
                at: self.now,
            })
        };
        read().map_or(Incoming::Ignored("unreadable"), Incoming::Stop)
    }

    /// A message, or the mention of us that Slack tells of once more.
    fn message(&self, rules: &Rules, mention: bool) -> Incoming {
        if let Some(reason) = self.not_for_us() {
            return Incoming::Ignored(reason);
        }
        let Some(question) = self.question() else {
            return Incoming::Ignored("unreadable");
        };
        let mentioned = mention || self.own.is_some_and(|own| self.mentions(own));
        let question = Box::new(question);
        if mentioned
            || question.place == PlaceKind::Im
            || rules.auto_reply.contains(&question.channel)
        {
            Incoming::Question(question)
        } else if rules.follow_threads && question.in_thread {
            Incoming::Followed(question)
        } else {
            Incoming::Ignored("not_addressed")
        }
    }

    /// Why a message is no question, whoever it is addressed to.
    fn not_for_us(&self) -> Option<&'static str> {
        let event = self.event;
        let is = |name: &str| event.get(name).is_some_and(|value| !value.is_null());
        match string(event, "subtype") {
            None | Some("file_share" | "thread_broadcast") => {}
            Some("message_changed") => return Some("edited"),
            Some("message_deleted") => return Some("deleted"),
            Some("bot_message") => return Some("bot"),
            Some(_) => return Some("subtype"),
        }
        let app = string(event, "app_id");
        let user = string(event, "user");
        if is("bot_id") || is("bot_profile") {
            Some("bot")
        } else if (user.is_some() && user == self.own) || (app.is_some() && app == self.app) {
            Some("own")
        } else if user == Some("USLACKBOT") {
            Some("bot")
        } else if is("edited") {
            Some("edited")
        } else if event.get("hidden") == Some(&Value::Bool(true)) {
            Some("hidden")
        } else {
            None
        }
    }

    fn mentions(&self, own: &str) -> bool {
        let text = string(self.event, "text").unwrap_or_default();
        text.contains(&format!("<@{own}>")) || text.contains(&format!("<@{own}|"))
    }

    fn question(&self) -> Option<Question> {
        let event = self.event;
        let channel = ChannelId::new(string(event, "channel")?).ok()?;
        let ts = Ts::new(string(event, "ts")?).ok()?;
        // A thread that cannot be read is no place to answer in; the message's own is.
        let thread = string(event, "thread_ts").and_then(|thread| Ts::new(thread).ok());
        let user_team = ["user_team", "source_team", "team"]
            .iter()
            .find_map(|name| string(event, name))
            .and_then(|team| TeamId::new(team).ok());
        let forwarded = forwarded::shared(event);
        let text = text::asked(string(event, "text").unwrap_or_default(), self.own);
        // Whoever forwards a message and says nothing to it asks by that message.
        let (text, forwarded) = if text.is_empty() {
            (forwarded::together(&forwarded), Vec::new())
        } else {
            (text, forwarded)
        };
        Some(Question {
            id: Question::id_of(&self.team, &channel, &ts),
            event_id: self.event_id.to_owned(),
            team: self.team.clone(),
            enterprise: self.enterprise.clone(),
            user_team,
            place: place(string(event, "channel_type"), &channel),
            user: UserId::new(string(event, "user")?).ok()?,
            in_thread: thread.as_ref().is_some_and(|thread| *thread != ts),
            thread: thread.unwrap_or_else(|| ts.clone()),
            text,
            forwarded,
            files: files::shared(event),
            channel,
            ts,
            asked_at: self.now,
        })
    }
}

fn place(kind: Option<&str>, channel: &ChannelId) -> PlaceKind {
    match (kind, channel.as_str().as_bytes().first()) {
        (Some("im"), _) | (None, Some(b'D')) => PlaceKind::Im,
        (Some("mpim"), _) => PlaceKind::Mpim,
        (Some("group"), _) | (None, Some(b'G')) => PlaceKind::Group,
        _ => PlaceKind::Channel,
    }
}

pub(crate) fn string<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}
