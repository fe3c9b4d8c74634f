//! Events as Slack words and signs them.

use hmac::{Hmac, KeyInit, Mac};
use interzone_playground::seed;
use serde_json::{Value, json};
use sha2::Sha256;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// What somebody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A question to the bot alone.
    Dm,
    /// A question in a channel.
    Mention,
    /// Nothing for the bot.
    Chatter,
}

/// What somebody wrote.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) kind: Kind,
    /// No other has it.
    pub(crate) number: u64,
    pub(crate) user: String,
    pub(crate) channel: String,
    pub(crate) ts: String,
    pub(crate) text: String,
    /// The word that a right answer has in it, and no other.
    pub(crate) word: String,
}

impl Said {
    /// The event that tells of it: of a mention the one that names it so.
    pub(crate) fn event(&self) -> String {
        let mut event = self.message();
        match self.kind {
            Kind::Mention => put(&mut event, "type", "app_mention"),
            Kind::Dm => put(&mut event, "channel_type", "im"),
            Kind::Chatter => put(&mut event, "channel_type", "channel"),
        }
        enveloped(&format!("Ev0BENCH{}", self.number), &event)
    }

    /// The other event that tells of a mention.
    pub(crate) fn twin(&self) -> String {
        let mut event = self.message();
        put(&mut event, "channel_type", "channel");
        enveloped(&format!("Ev0TWIN{}", self.number), &event)
    }

    /// An event that it was changed, which is nothing for the bot.
    pub(crate) fn changed(&self) -> String {
        let event = json!({
            "type": "message", "subtype": "message_changed", "hidden": true, "channel": self.channel,
            "channel_type": "channel", "ts": self.ts, "event_ts": self.ts,
            "message": self.message(), "previous_message": self.message(),
        });
        enveloped(&format!("Ev0EDIT{}", self.number), &event)
    }

    fn message(&self) -> Value {
        json!({
            "type": "message", "user": self.user, "text": self.text, "ts": self.ts,
            "team": seed::TEAM, "channel": self.channel, "event_ts": self.ts,
            "client_msg_id": format!("00000000-0000-4000-8000-{:012x}", self.number),
        })
    }
}

fn put(event: &mut Value, name: &str, value: &str) {
    if let Some(fields) = event.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
}

fn enveloped(id: &str, event: &Value) -> String {
    json!({
        "token": "measurement", "team_id": seed::TEAM, "context_team_id": seed::TEAM,
        "context_enterprise_id": null, "api_app_id": seed::APP, "event": event,
        "type": "event_callback", "event_id": id, "event_time": now(),
        "authorizations": [{"enterprise_id": null, "team_id": seed::TEAM,
            "user_id": seed::BOT_USER, "is_bot": true, "is_enterprise_install": false}],
        "is_ext_shared_channel": false, "event_context": format!("4-{id}"),
    })
    .to_string()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Signs requests.
pub(crate) struct Signer(Hmac<Sha256>);

impl Signer {
    pub(crate) fn new(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).unwrap())
    }

    /// The bytes of a request that tells of an event for the first time.
    pub(crate) fn request(&self, body: &str) -> Vec<u8> {
        self.signed(body, "")
    }

    /// The same as Slack sends it once more, because it has not heard that it was taken.
    pub(crate) fn again(&self, body: &str) -> Vec<u8> {
        let retry = "x-slack-retry-num: 1\r\nx-slack-retry-reason: http_timeout\r\n";
        self.signed(body, retry)
    }

    fn signed(&self, body: &str, more: &str) -> Vec<u8> {
        let time = now();
        let mut mac = self.0.clone();
        mac.update(format!("v0:{time}:").as_bytes());
        mac.update(body.as_bytes());
        let mut signature = String::from("v0=");
        for byte in mac.finalize().into_bytes() {
            let _ = write!(signature, "{byte:02x}");
        }
        let length = body.len();
        format!(
            "POST /slack/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             user-agent: Slackbot 1.0 (+https://api.slack.com/robots)\r\n\
             x-slack-request-timestamp: {time}\r\nx-slack-signature: {signature}\r\n{more}\
             content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
