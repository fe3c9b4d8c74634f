//! The address at which an app may answer a pressed button: it takes the message away, changes it, or adds one.

use super::{Refused, blocks};
use crate::workspace::messages::Message;
use crate::workspace::{Change, Workspace};
use serde_json::Value;

/// How often one address may be used.
const USES: u8 = 5;
/// Addresses that are kept; the oldest leave first.
const MOST: usize = 1_000;

/// What an address is about.
#[derive(Debug)]
pub(crate) struct Respond {
    user: String,
    channel: String,
    ts: String,
    uses: u8,
}

impl Workspace {
    /// The address for a button that `user` pressed on a message.
    pub(crate) fn response_url(&mut self, user: &str, channel: &str, ts: &str) -> String {
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        if self.responds.len() >= MOST {
            self.responds.pop_front();
        }
        let respond = Respond {
            user: user.to_owned(),
            channel: channel.to_owned(),
            ts: ts.to_owned(),
            uses: 0,
        };
        let url = format!("{}/actions/{}/{ticket}", self.base, self.team);
        self.responds.push_back((ticket, respond));
        url
    }

    /// Does what an app answers.
    pub(crate) fn respond(&mut self, ticket: &str, said: &Value) -> Result<(), Refused> {
        let mut all = self.responds.iter_mut();
        let found = all.find(|(known, _)| known == ticket);
        let (_, respond) = found.ok_or(Refused::new("expired_url"))?;
        respond.uses += 1;
        if respond.uses > USES {
            return Err(Refused::new("used_url"));
        }
        let (user, channel) = (respond.user.clone(), respond.channel.clone());
        let ts = respond.ts.clone();
        let flag = |name| said.get(name).and_then(Value::as_bool) == Some(true);
        if flag("delete_original") {
            self.ephemerals
                .retain(|m| m.channel != channel || m.ts != ts);
            if let Some(all) = self.messages.get_mut(&channel) {
                all.remove(&ts);
            }
            self.changed(Change::Gone(channel, ts));
            return Ok(());
        }
        let text = said.get("text").and_then(Value::as_str).unwrap_or_default();
        let listed = blocks::checked(said.get("blocks").cloned())?;
        if text.is_empty() && listed.is_empty() {
            return Err(Refused::new("no_text"));
        }
        if flag("replace_original") {
            let mut whispers = self.ephemerals.iter_mut();
            let whisper = whispers.find(|m| m.channel == channel && m.ts == ts);
            let post = self.messages.get_mut(&channel);
            let post = post.and_then(|all| all.get_mut(&ts));
            let message = whisper.or(post).ok_or(Refused::new("message_not_found"))?;
            message.text = text.to_owned();
            message.blocks = listed;
            let change = match message.only_for {
                Some(_) => Change::Whisper(channel, ts),
                None => Change::Message(channel, ts),
            };
            self.changed(change);
            return Ok(());
        }
        let now = self.next_ts();
        let mut message = Message::new(&channel, &self.bot_user, now);
        message.text = text.to_owned();
        message.blocks = listed;
        message.thread_ts = said
            .get("thread_ts")
            .and_then(Value::as_str)
            .map(str::to_owned);
        if said.get("response_type").and_then(Value::as_str) == Some("in_channel") {
            self.keep(message.clone());
            self.tell_message(&message);
        } else {
            message.only_for = Some(user);
            self.keep_ephemeral(message);
        }
        Ok(())
    }
}
