//! What people do in the workspace: write, upload, change, delete, press, react. Each act is checked as
//! Slack's own client would, and the app is told as Slack would tell it.

mod typed;

use crate::api::chat::replace;
use crate::api::reactions::{self, is_full, is_name, react, unreact};
use crate::handle::PlaygroundError;
use crate::workspace::messages::{Edited, Message, Stream};
use crate::workspace::{Change, Outgoing, Workspace, seed};
use bytes::Bytes;
use serde_json::{Value, json};

type Done<T> = Result<T, PlaygroundError>;

/// The longest text that a person may send.
const TYPED: usize = 40_000;

/// The longest name of a file that a person may share.
const FILE_NAME: usize = 255;

/// How many files a person may share at once.
const FILES: usize = 10;

/// Something that a person says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) user: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) thread: Option<&'a str>,
    pub(crate) text: &'a str,
    /// Shown in the channel as well.
    pub(crate) broadcast: bool,
}

fn no(what: &'static str) -> PlaygroundError {
    PlaygroundError::NotThere(what)
}

/// Refuses what has more characters than it may have.
fn fits(what: &'static str, text: &str, most: usize) -> Done<()> {
    match text.chars().nth(most) {
        Some(_) => Err(PlaygroundError::TooLong { what, most }),
        None => Ok(()),
    }
}

/// Refuses what has nothing to read, as Slack does.
fn says_something(text: &str) -> Done<()> {
    match text.trim().is_empty() {
        true => Err(PlaygroundError::NoText),
        false => Ok(()),
    }
}

impl Workspace {
    fn begin(&mut self, said: &Said<'_>) -> Done<Message> {
        let user = self.users.get(said.user).ok_or(no("user"))?;
        if user.deleted || user.is_bot {
            return Err(PlaygroundError::NotAllowed);
        }
        let channel = self.channels.get(said.channel).ok_or(no("channel"))?;
        if !channel.has(said.user) || channel.archived {
            return Err(PlaygroundError::NotAllowed);
        }
        fits("text", said.text, TYPED)?;
        if let Some(thread) = said.thread {
            let parent = self.message(said.channel, thread).ok_or(no("thread"))?;
            if parent.is_reply() {
                return Err(no("thread"));
            }
        }
        let ts = self.next_ts();
        let number = self.next("typed");
        let mut message = Message::new(said.channel, said.user, ts);
        message.text = self.typed(said.text);
        message.thread_ts = said.thread.map(str::to_owned);
        message.client_msg_id = Some(format!("00000000-0000-4000-8000-{number:012x}"));
        if said.broadcast && said.thread.is_some() {
            message.subtype = Some("thread_broadcast");
        }
        Ok(message)
    }

    /// Says something; gives the ts.
    pub(crate) fn say(&mut self, said: &Said<'_>) -> Done<String> {
        let message = self.begin(said)?;
        says_something(said.text)?;
        self.keep(message.clone());
        self.tell_message(&message);
        Ok(message.ts)
    }

    /// Shares files; gives the ts. `stub`: as Slack Connect tells of them.
    pub(crate) fn bring(
        &mut self,
        said: &Said<'_>,
        files: &[(String, Bytes)],
        stub: bool,
    ) -> Done<String> {
        if files.len() > FILES {
            return Err(PlaygroundError::TooManyFiles(FILES));
        }
        for (name, _) in files {
            fits("name of a file", name, FILE_NAME)?;
        }
        let message = self.begin(said)?;
        let mut ids = Vec::new();
        for (name, bytes) in files {
            let file = self.new_file(name, bytes.len(), said.user);
            file.stub = stub;
            let (id, ticket) = (file.id.clone(), file.ticket.clone());
            let kept = self.upload(&id, &ticket, bytes.clone());
            kept.map_err(PlaygroundError::NotKept)?;
            ids.push(id);
        }
        Ok(self.share(&ids, message).ts)
    }

    fn own_message(&self, user: &str, channel: &str, ts: &str) -> Done<Message> {
        let message = self.message(channel, ts).ok_or(no("message"))?;
        match message.user == user {
            true => Ok(message.clone()),
            false => Err(PlaygroundError::NotAllowed),
        }
    }

    /// Changes what somebody said.
    pub(crate) fn edit(&mut self, user: &str, channel: &str, ts: &str, text: &str) -> Done<()> {
        let before = self.own_message(user, channel, ts)?;
        fits("text", text, TYPED)?;
        // Files stand for themselves.
        if before.files.is_empty() {
            says_something(text)?;
        }
        let mut after = before.clone();
        after.text = self.typed(text);
        after.edited = Some(Edited {
            user: user.to_owned(),
            ts: self.next_ts(),
        });
        replace(self, &before, after);
        Ok(())
    }

    /// Deletes what somebody said.
    pub(crate) fn unsay(&mut self, user: &str, channel: &str, ts: &str) -> Done<()> {
        let before = self.own_message(user, channel, ts)?;
        if let Some(all) = self.messages.get_mut(channel) {
            all.remove(ts);
        }
        self.tell_change(&before, None);
        Ok(())
    }

    /// Puts an emoji on a message, or takes it away if it is there.
    pub(crate) fn toggle(&mut self, user: &str, channel: &str, ts: &str, name: &str) -> Done<()> {
        let place = self.channels.get(channel).ok_or(no("channel"))?;
        if !place.has(user) {
            return Err(PlaygroundError::NotAllowed);
        }
        let all = self.messages.get_mut(channel);
        let message = all.and_then(|all| all.get_mut(ts)).ok_or(no("message"))?;
        if !is_name(name) {
            return Err(PlaygroundError::NoEmoji);
        }
        if is_full(message, name) {
            return Err(PlaygroundError::TooManyEmoji(reactions::MOST));
        }
        if !react(message, name, user) {
            unreact(message, name, user);
        }
        self.changed(Change::Message(channel.to_owned(), ts.to_owned()));
        Ok(())
    }

    /// Ends a stream as the person who reads it.
    pub(crate) fn stop_stream(&mut self, channel: &str, ts: &str) -> Done<()> {
        let all = self.messages.get_mut(channel);
        let message = all.and_then(|all| all.get_mut(ts)).ok_or(no("message"))?;
        if message.stream != Some(Stream::Open) {
            return Err(PlaygroundError::NotAllowed);
        }
        message.stream = Some(Stream::StoppedByUser);
        self.changed(Change::Message(channel.to_owned(), ts.to_owned()));
        Ok(())
    }

    /// Asks the app to stop what it does in a thread, as Slack's own button does.
    pub(crate) fn stop_answer(&mut self, user: &str, channel: &str, thread: &str) -> Done<()> {
        let place = self.channels.get(channel).ok_or(no("channel"))?;
        if !place.has(user) || !place.has(&self.bot_user) {
            return Err(PlaygroundError::NotAllowed);
        }
        self.message(channel, thread).ok_or(no("thread"))?;
        let all = self.messages.get(channel);
        let growing = all.into_iter().flat_map(|all| all.values()).filter(|one| {
            one.stream == Some(Stream::Open) && one.thread_ts.as_deref() == Some(thread)
        });
        let growing: Vec<String> = growing.map(|one| one.ts.clone()).collect();
        let ts = self.next_ts();
        self.event(json!({
            "type": "agent_session_stopped", "channel": channel, "thread_ts": thread, "user": user,
            "streaming_message_ts": growing, "event_ts": ts,
        }));
        Ok(())
    }

    /// Chooses the language of a person, one of those that the page has.
    pub(crate) fn speak(&mut self, user: &str, locale: &str) -> Done<()> {
        let person = self.users.get_mut(user).ok_or(no("user"))?;
        if person.deleted || person.is_bot || !seed::LOCALES.contains(&locale) {
            return Err(PlaygroundError::NotAllowed);
        }
        locale.clone_into(&mut person.locale);
        let told = person.json(&self.team, true);
        self.changed(Change::User(user.to_owned()));
        self.event(json!({"type": "user_change", "user": told}));
        Ok(())
    }

    /// Presses a button. Of several with one action, as feedback has, `value` says which.
    pub(crate) fn press(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        action: &str,
        value: Option<&str>,
    ) -> Done<()> {
        let whispered = |m: &&Message| m.channel == channel && m.ts == ts;
        let whispered = self.ephemerals.iter().find(whispered);
        let message = self.message(channel, ts).or(whispered);
        let message = message.ok_or(no("message"))?.clone();
        let place = self.channels.get(channel).ok_or(no("channel"))?;
        let whispered = message.only_for.is_some();
        let seen = place.has(user) && message.only_for.as_ref().is_none_or(|one| one == user);
        let person = self.users.get(user).filter(|_| seen);
        let person = person.ok_or(PlaygroundError::NotAllowed)?;
        let mut pressed = button(&message, action, value).ok_or(no("button"))?;
        let name = person.name.clone();
        let place = json!({"id": channel, "name": place.name});
        let number = self.next("press");
        let now = self.next_ts();
        let response_url = self.response_url(user, channel, ts);
        if let Some(fields) = pressed.as_object_mut() {
            fields.insert("action_ts".to_owned(), now.into());
        }
        let mut container = json!({
            "type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": whispered,
        });
        if let (Some(fields), Some(thread)) = (container.as_object_mut(), &message.thread_ts) {
            fields.insert("thread_ts".to_owned(), thread.clone().into());
        }
        let mut payload = json!({
            "type": "block_actions",
            "user": {"id": user, "username": name, "name": name, "team_id": self.team},
            "api_app_id": self.app, "token": "playground", "container": container,
            "trigger_id": format!("{}.{number}.playground", self.run), "enterprise": null,
            "team": {"id": self.team, "domain": "playground"}, "is_enterprise_install": false,
            "channel": place, "state": {"values": {}}, "actions": [pressed],
            "response_url": response_url,
        });
        if let Some(fields) = payload.as_object_mut().filter(|_| !whispered) {
            fields.insert("message".to_owned(), self.message_json(&message, false));
        }
        self.send(Outgoing {
            id: format!("press-{}-{number}", self.run),
            kind: "block_actions".to_owned(),
            payload,
            interactive: true,
        });
        Ok(())
    }
}

/// The pressed button of a message, as an interaction tells it.
fn button(message: &Message, action: &str, value: Option<&str>) -> Option<Value> {
    for block in &message.blocks {
        let id = block.get("block_id").cloned().unwrap_or_default();
        let elements = block.get("elements").and_then(Value::as_array);
        let accessory = block.get("accessory");
        for element in elements.into_iter().flatten().chain(accessory) {
            if element.get("action_id").and_then(Value::as_str) != Some(action) {
                continue;
            }
            let kind = element.get("type").and_then(Value::as_str)?;
            let chosen = |of: &Value| of.get("value").and_then(Value::as_str).map(str::to_owned);
            let said = match kind {
                "feedback_buttons" => {
                    let both = ["positive_button", "negative_button"];
                    let mut both = both.iter().filter_map(|name| chosen(element.get(*name)?));
                    both.find(|one| Some(one.as_str()) == value)?
                }
                _ => chosen(element).unwrap_or_default(),
            };
            return Some(json!({
                "type": kind, "action_id": action, "block_id": id, "value": said,
            }));
        }
    }
    None
}
