//! Actions of simulated users: post, upload, edit, delete, press, react. Each is validated as Slack's client would, and
//! the app receives the events that Slack would send.

mod composer_text;

use crate::api::chat::replace_message;
use crate::api::reactions::{self, add_reaction, is_emoji_name, is_full, remove_reaction};
use crate::playground::PlaygroundError;
use crate::workspace::messages::{EditInfo, PlaygroundMessage, StreamStatus};
use crate::workspace::{OutgoingEvent, UiChange, Workspace, seed};
use bytes::Bytes;
use serde_json::{Value, json};

type ActionResult<T> = Result<T, PlaygroundError>;

/// Maximum characters of a posted text.
const MAX_TEXT_CHARS: usize = 40_000;

/// Maximum characters of a file name.
const MAX_FILE_NAME_CHARS: usize = 255;

/// Maximum files in one message.
const MAX_FILES: usize = 10;

/// A message to post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMessage<'a> {
    pub(crate) user: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) thread: Option<&'a str>,
    pub(crate) text: &'a str,
    /// True to show a reply in the channel as well.
    pub(crate) broadcast: bool,
}

fn not_found(entity: &'static str) -> PlaygroundError {
    PlaygroundError::NotFound(entity)
}

/// Rejects a text with too many characters.
fn check_length(subject: &'static str, text: &str, max_chars: usize) -> ActionResult<()> {
    match text.chars().nth(max_chars) {
        Some(_) => Err(PlaygroundError::TooLong {
            what: subject,
            most: max_chars,
        }),
        None => Ok(()),
    }
}

/// Rejects a blank text, as Slack does.
fn require_text(text: &str) -> ActionResult<()> {
    match text.trim().is_empty() {
        true => Err(PlaygroundError::NoText),
        false => Ok(()),
    }
}

impl Workspace {
    fn build_message(&mut self, new: &NewMessage<'_>) -> ActionResult<PlaygroundMessage> {
        let user = self.users.get(new.user).ok_or(not_found("user"))?;
        if user.deleted || user.is_bot {
            return Err(PlaygroundError::NotAllowed);
        }
        let channel = self.channels.get(new.channel).ok_or(not_found("channel"))?;
        if !channel.has_member(new.user) || channel.archived {
            return Err(PlaygroundError::NotAllowed);
        }
        check_length("text", new.text, MAX_TEXT_CHARS)?;
        if let Some(thread) = new.thread {
            let parent = self
                .message(new.channel, thread)
                .ok_or(not_found("thread"))?;
            if parent.is_reply() {
                return Err(not_found("thread"));
            }
        }
        let ts = self.next_ts();
        let number = self.next_number("typed");
        let mut message = PlaygroundMessage::new(new.channel, new.user, ts);
        message.text = self.to_stored_text(new.text);
        message.thread_ts = new.thread.map(str::to_owned);
        message.client_msg_id = Some(format!("00000000-0000-4000-8000-{number:012x}"));
        if new.broadcast && new.thread.is_some() {
            message.subtype = Some("thread_broadcast");
        }
        Ok(message)
    }

    /// Posts a message; returns the ts.
    pub(crate) fn post(&mut self, new: &NewMessage<'_>) -> ActionResult<String> {
        let message = self.build_message(new)?;
        require_text(new.text)?;
        self.insert_message(message.clone());
        self.emit_message_event(&message);
        Ok(message.ts)
    }

    /// Shares files; returns the ts. With `stub`, the event contains only ids, as with Slack Connect.
    pub(crate) fn share_files(
        &mut self,
        new: &NewMessage<'_>,
        files: &[(String, Bytes)],
        stub: bool,
    ) -> ActionResult<String> {
        if files.len() > MAX_FILES {
            return Err(PlaygroundError::TooManyFiles(MAX_FILES));
        }
        for (name, _) in files {
            check_length("name of a file", name, MAX_FILE_NAME_CHARS)?;
        }
        let message = self.build_message(new)?;
        let mut ids = Vec::new();
        for (name, bytes) in files {
            let file = self.new_file(name, bytes.len(), new.user);
            file.is_stub = stub;
            let (id, ticket) = (file.id.clone(), file.ticket.clone());
            let stored = self.upload(&id, &ticket, bytes.clone());
            stored.map_err(PlaygroundError::FileRejected)?;
            ids.push(id);
        }
        Ok(self.share(&ids, message).ts)
    }

    fn own_message(&self, user: &str, channel: &str, ts: &str) -> ActionResult<PlaygroundMessage> {
        let message = self.message(channel, ts).ok_or(not_found("message"))?;
        match message.user == user {
            true => Ok(message.clone()),
            false => Err(PlaygroundError::NotAllowed),
        }
    }

    /// Edits a message.
    pub(crate) fn edit(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        text: &str,
    ) -> ActionResult<()> {
        let before = self.own_message(user, channel, ts)?;
        check_length("text", text, MAX_TEXT_CHARS)?;
        // A message with files may have no text.
        if before.files.is_empty() {
            require_text(text)?;
        }
        let mut after = before.clone();
        after.text = self.to_stored_text(text);
        after.edited = Some(EditInfo {
            user: user.to_owned(),
            ts: self.next_ts(),
        });
        replace_message(self, &before, after);
        Ok(())
    }

    /// Deletes a message.
    pub(crate) fn delete(&mut self, user: &str, channel: &str, ts: &str) -> ActionResult<()> {
        let before = self.own_message(user, channel, ts)?;
        if let Some(all) = self.messages.get_mut(channel) {
            all.remove(ts);
        }
        self.emit_change_event(&before, None);
        Ok(())
    }

    /// Adds a reaction, or removes it if present.
    pub(crate) fn toggle_reaction(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        name: &str,
    ) -> ActionResult<()> {
        let channel_info = self.channels.get(channel).ok_or(not_found("channel"))?;
        if !channel_info.has_member(user) {
            return Err(PlaygroundError::NotAllowed);
        }
        let all = self.messages.get_mut(channel);
        let message = all
            .and_then(|all| all.get_mut(ts))
            .ok_or(not_found("message"))?;
        if !is_emoji_name(name) {
            return Err(PlaygroundError::InvalidEmoji);
        }
        if is_full(message, name) {
            return Err(PlaygroundError::TooManyEmoji(reactions::MAX_EMOJI));
        }
        if !add_reaction(message, name, user) {
            remove_reaction(message, name, user);
        }
        self.record_change(UiChange::Message(channel.to_owned(), ts.to_owned()));
        Ok(())
    }

    /// Stops a stream as the reader.
    pub(crate) fn stop_stream(&mut self, channel: &str, ts: &str) -> ActionResult<()> {
        let all = self.messages.get_mut(channel);
        let message = all
            .and_then(|all| all.get_mut(ts))
            .ok_or(not_found("message"))?;
        if message.stream != Some(StreamStatus::Open) {
            return Err(PlaygroundError::NotAllowed);
        }
        message.stream = Some(StreamStatus::StoppedByUser);
        self.record_change(UiChange::Message(channel.to_owned(), ts.to_owned()));
        Ok(())
    }

    /// Asks the app to stop its answer in a thread, as Slack's own stop button does.
    pub(crate) fn stop_answer(
        &mut self,
        user: &str,
        channel: &str,
        thread: &str,
    ) -> ActionResult<()> {
        let channel_info = self.channels.get(channel).ok_or(not_found("channel"))?;
        if !channel_info.has_member(user) || !channel_info.has_member(&self.bot_user) {
            return Err(PlaygroundError::NotAllowed);
        }
        self.message(channel, thread).ok_or(not_found("thread"))?;
        let all = self.messages.get(channel);
        let open_streams = all.into_iter().flat_map(|all| all.values()).filter(|one| {
            one.stream == Some(StreamStatus::Open) && one.thread_ts.as_deref() == Some(thread)
        });
        let open_streams: Vec<String> = open_streams.map(|one| one.ts.clone()).collect();
        let ts = self.next_ts();
        self.emit_event(json!({
            "type": "agent_session_stopped", "channel": channel, "thread_ts": thread, "user": user,
            "streaming_message_ts": open_streams, "event_ts": ts,
        }));
        Ok(())
    }

    /// Sets the locale of a user, one of those that the page offers.
    pub(crate) fn set_locale(&mut self, user: &str, locale: &str) -> ActionResult<()> {
        let account = self.users.get_mut(user).ok_or(not_found("user"))?;
        if account.deleted || account.is_bot || !seed::LOCALES.contains(&locale) {
            return Err(PlaygroundError::NotAllowed);
        }
        locale.clone_into(&mut account.locale);
        let user_json = account.to_json(&self.team, true);
        self.record_change(UiChange::User(user.to_owned()));
        self.emit_event(json!({"type": "user_change", "user": user_json}));
        Ok(())
    }

    /// Presses a button. `value` selects among several with the same action, as with feedback.
    pub(crate) fn press_button(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        action: &str,
        value: Option<&str>,
    ) -> ActionResult<()> {
        let is_target = |m: &&PlaygroundMessage| m.channel == channel && m.ts == ts;
        let ephemeral = self.ephemerals.iter().find(is_target);
        let message = self.message(channel, ts).or(ephemeral);
        let message = message.ok_or(not_found("message"))?.clone();
        let channel_info = self.channels.get(channel).ok_or(not_found("channel"))?;
        let is_ephemeral = message.visible_to.is_some();
        let is_visible = channel_info.has_member(user)
            && message.visible_to.as_ref().is_none_or(|one| one == user);
        let account = self.users.get(user).filter(|_| is_visible);
        let account = account.ok_or(PlaygroundError::NotAllowed)?;
        let mut action_json = find_button(&message, action, value).ok_or(not_found("button"))?;
        let name = account.name.clone();
        let channel_json = json!({"id": channel, "name": channel_info.name});
        let number = self.next_number("press");
        let now = self.next_ts();
        let response_url = self.response_url(user, channel, ts);
        if let Some(fields) = action_json.as_object_mut() {
            fields.insert("action_ts".to_owned(), now.into());
        }
        let mut container = json!({
            "type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": is_ephemeral,
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
            "channel": channel_json, "state": {"values": {}}, "actions": [action_json],
            "response_url": response_url,
        });
        if let Some(fields) = payload.as_object_mut().filter(|_| !is_ephemeral) {
            fields.insert("message".to_owned(), self.message_json(&message, false));
        }
        self.enqueue_event(OutgoingEvent {
            id: format!("press-{}-{number}", self.run),
            kind: "block_actions".to_owned(),
            payload,
            is_interaction: true,
        });
        Ok(())
    }
}

/// Returns the pressed button of a message in the form of an interaction payload.
fn find_button(message: &PlaygroundMessage, action: &str, value: Option<&str>) -> Option<Value> {
    for block in &message.blocks {
        let id = block.get("block_id").cloned().unwrap_or_default();
        let elements = block.get("elements").and_then(Value::as_array);
        let accessory = block.get("accessory");
        for element in elements.into_iter().flatten().chain(accessory) {
            if element.get("action_id").and_then(Value::as_str) != Some(action) {
                continue;
            }
            let kind = element.get("type").and_then(Value::as_str)?;
            let chosen = |element: &Value| {
                element
                    .get("value")
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            };
            let chosen_value = match kind {
                "feedback_buttons" => {
                    let both = ["positive_button", "negative_button"];
                    let mut both = both.iter().filter_map(|name| chosen(element.get(*name)?));
                    both.find(|one| Some(one.as_str()) == value)?
                }
                _ => chosen(element).unwrap_or_default(),
            };
            return Some(json!({
                "type": kind, "action_id": action, "block_id": id, "value": chosen_value,
            }));
        }
    }
    None
}
