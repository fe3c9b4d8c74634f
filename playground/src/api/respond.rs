//! Response URLs of interactions: delete or replace the message, or add one.

use super::{SlackApiError, blocks};
use crate::workspace::messages::PlaygroundMessage;
use crate::workspace::{UiChange, Workspace};
use serde_json::Value;

/// Maximum uses of one response URL.
const MAX_USES: u8 = 5;
/// Maximum stored response URLs; the oldest are removed first.
const MAX_RESPONSE_URLS: usize = 1_000;

/// Target of a response URL.
#[derive(Debug)]
pub(crate) struct ResponseTarget {
    user: String,
    channel: String,
    ts: String,
    uses: u8,
}

impl Workspace {
    /// Creates the response URL for a button that `user` pressed on a message.
    pub(crate) fn response_url(&mut self, user: &str, channel: &str, ts: &str) -> String {
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        if self.response_urls.len() >= MAX_RESPONSE_URLS {
            self.response_urls.pop_front();
        }
        let target = ResponseTarget {
            user: user.to_owned(),
            channel: channel.to_owned(),
            ts: ts.to_owned(),
            uses: 0,
        };
        let url = format!("{}/actions/{}/{ticket}", self.base_url, self.team);
        self.response_urls.push_back((ticket, target));
        url
    }

    /// Applies the app's response.
    pub(crate) fn respond(&mut self, ticket: &str, response: &Value) -> Result<(), SlackApiError> {
        let mut all = self.response_urls.iter_mut();
        let found = all.find(|(known, _)| known == ticket);
        let (_, respond) = found.ok_or(SlackApiError::new("expired_url"))?;
        respond.uses += 1;
        if respond.uses > MAX_USES {
            return Err(SlackApiError::new("used_url"));
        }
        let (user, channel) = (respond.user.clone(), respond.channel.clone());
        let ts = respond.ts.clone();
        let flag = |name| response.get(name).and_then(Value::as_bool) == Some(true);
        if flag("delete_original") {
            self.ephemerals
                .retain(|m| m.channel != channel || m.ts != ts);
            if let Some(all) = self.messages.get_mut(&channel) {
                all.remove(&ts);
            }
            self.record_change(UiChange::Deleted(channel, ts));
            return Ok(());
        }
        let text = response
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let blocks = blocks::validate_blocks(response.get("blocks").cloned())?;
        if text.is_empty() && blocks.is_empty() {
            return Err(SlackApiError::new("no_text"));
        }
        if flag("replace_original") {
            let mut ephemerals = self.ephemerals.iter_mut();
            let ephemeral = ephemerals.find(|m| m.channel == channel && m.ts == ts);
            let post = self.messages.get_mut(&channel);
            let post = post.and_then(|all| all.get_mut(&ts));
            let message = ephemeral
                .or(post)
                .ok_or(SlackApiError::new("message_not_found"))?;
            message.text = text.to_owned();
            message.blocks = blocks;
            let change = match message.visible_to {
                Some(_) => UiChange::Ephemeral(channel, ts),
                None => UiChange::Message(channel, ts),
            };
            self.record_change(change);
            return Ok(());
        }
        let now = self.next_ts();
        let mut message = PlaygroundMessage::new(&channel, &self.bot_user, now);
        message.text = text.to_owned();
        message.blocks = blocks;
        message.thread_ts = response
            .get("thread_ts")
            .and_then(Value::as_str)
            .map(str::to_owned);
        if response.get("response_type").and_then(Value::as_str) == Some("in_channel") {
            self.insert_message(message.clone());
            self.emit_message_event(&message);
        } else {
            message.visible_to = Some(user);
            self.insert_ephemeral(message);
        }
        Ok(())
    }
}
