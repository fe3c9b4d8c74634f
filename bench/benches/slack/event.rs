//! Slack events with their signatures.

use hmac::{Hmac, KeyInit, Mac};
use interzone_playground::seed;
use serde_json::{Value, json};
use sha2::Sha256;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Kind of a posted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostKind {
    /// A direct message to the bot.
    Dm,
    /// A mention of the bot in a channel.
    Mention,
    /// A message not for the bot.
    Unrelated,
}

/// A posted message.
#[derive(Clone, Debug)]
pub(crate) struct PostedMessage {
    pub(crate) kind: PostKind,
    /// Unique number.
    pub(crate) number: u64,
    pub(crate) user: String,
    pub(crate) channel: String,
    pub(crate) ts: String,
    pub(crate) text: String,
    /// Unique word that the correct answer contains.
    pub(crate) marker: String,
}

impl PostedMessage {
    /// The event for this message; `app_mention` for a mention.
    pub(crate) fn event(&self) -> String {
        let mut event = self.message();
        match self.kind {
            PostKind::Mention => set_field(&mut event, "type", "app_mention"),
            PostKind::Dm => set_field(&mut event, "channel_type", "im"),
            PostKind::Unrelated => set_field(&mut event, "channel_type", "channel"),
        }
        envelope(&format!("Ev0BENCH{}", self.number), &event)
    }

    /// The second event that Slack sends for a mention.
    pub(crate) fn duplicate_event(&self) -> String {
        let mut event = self.message();
        set_field(&mut event, "channel_type", "channel");
        envelope(&format!("Ev0TWIN{}", self.number), &event)
    }

    /// An edit event, which the bot ignores.
    pub(crate) fn edit_event(&self) -> String {
        let event = json!({
            "type": "message", "subtype": "message_changed", "hidden": true, "channel": self.channel,
            "channel_type": "channel", "ts": self.ts, "event_ts": self.ts,
            "message": self.message(), "previous_message": self.message(),
        });
        envelope(&format!("Ev0EDIT{}", self.number), &event)
    }

    fn message(&self) -> Value {
        json!({
            "type": "message", "user": self.user, "text": self.text, "ts": self.ts,
            "team": seed::TEAM, "channel": self.channel, "event_ts": self.ts,
            "client_msg_id": format!("00000000-0000-4000-8000-{:012x}", self.number),
        })
    }
}

fn set_field(event: &mut Value, name: &str, value: &str) {
    if let Some(fields) = event.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
}

fn envelope(id: &str, event: &Value) -> String {
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
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.unwrap_or_default().as_secs()
}

/// Signs event requests.
pub(crate) struct SlackSigner(Hmac<Sha256>);

impl SlackSigner {
    pub(crate) fn new(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).unwrap())
    }

    /// Bytes of the first request for an event.
    pub(crate) fn request(&self, body: &str) -> Vec<u8> {
        self.sign(body, "")
    }

    /// Bytes of a retry request, which Slack sends without an acknowledgement.
    pub(crate) fn retry_request(&self, body: &str) -> Vec<u8> {
        let retry = "x-slack-retry-num: 1\r\nx-slack-retry-reason: http_timeout\r\n";
        self.sign(body, retry)
    }

    fn sign(&self, body: &str, extra_headers: &str) -> Vec<u8> {
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
             x-slack-request-timestamp: {time}\r\nx-slack-signature: {signature}\r\n{extra_headers}\
             content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
