//! Events for the app: which ones are sent, and their form.

use super::messages::PlaygroundMessage;
use super::{OutgoingEvent, UiChange, Workspace};
use serde_json::{Value, json};

impl Workspace {
    /// Queues an event for the app.
    pub(crate) fn emit_event(&mut self, event: Value) {
        let number = self.next_number("event");
        // An app that deduplicates by id must not take events of this run for those of an earlier one.
        let id = format!("Ev{:X}P{number:06}", self.run);
        let kind = event.get("type").and_then(Value::as_str);
        let kind = kind.unwrap_or_default().to_owned();
        let payload = json!({
            "token": "playground", "team_id": self.team, "context_team_id": self.team,
            "context_enterprise_id": null, "api_app_id": self.app, "event": event,
            "type": "event_callback", "event_id": id, "event_time": self.clock.unix(),
            "authorizations": [{"enterprise_id": null, "team_id": self.team,
                "user_id": self.bot_user, "is_bot": true, "is_enterprise_install": false}],
            "is_ext_shared_channel": false, "event_context": format!("4-{id}"),
        });
        self.enqueue_event(OutgoingEvent {
            id,
            kind,
            payload,
            is_interaction: false,
        });
    }

    /// Sends the events of a new message in channels of the bot; a mention is an additional event.
    pub(crate) fn emit_message_event(&mut self, message: &PlaygroundMessage) {
        let Some(channel) = self.channels.get(&message.channel) else {
            return;
        };
        if !channel.has_member(&self.bot_user) {
            return;
        }
        let kind = channel.kind;
        let mut event_json = self.message_json(message, true);
        let mention = format!("<@{}>", self.bot_user);
        let is_mention = message.text.contains(&mention) || message.text.contains("<@U0INTERZONE|");
        insert_field(&mut event_json, "channel", message.channel.clone());
        insert_field(&mut event_json, "event_ts", message.ts.clone());
        let mut mention_json = event_json.clone();
        insert_field(
            &mut event_json,
            "channel_type",
            kind.channel_type().to_owned(),
        );
        let is_own = message.user == self.bot_user;
        let in_dm = matches!(kind, super::channels::ChannelKind::Im);
        if is_mention && !is_own && !in_dm {
            insert_field(&mut mention_json, "type", "app_mention".to_owned());
            if let Some(fields) = mention_json.as_object_mut() {
                fields.remove("subtype");
                fields.remove("parent_user_id");
            }
            self.emit_event(mention_json);
        }
        self.emit_event(event_json);
    }

    /// Sends the event of an edited or deleted message.
    pub(crate) fn emit_change_event(
        &mut self,
        before: &PlaygroundMessage,
        after: Option<&PlaygroundMessage>,
    ) {
        let Some(channel) = self.channels.get(&before.channel) else {
            return;
        };
        if !channel.has_member(&self.bot_user) {
            return;
        }
        let channel_type = channel.kind.channel_type();
        let ts = self.next_ts();
        let previous = self.message_json(before, true);
        let mut event_json = json!({
            "type": "message", "hidden": true, "channel": before.channel, "ts": ts, "event_ts": ts,
            "channel_type": channel_type, "previous_message": previous,
        });
        match after {
            Some(after) => {
                insert_field(&mut event_json, "subtype", "message_changed".to_owned());
                let now = self.message_json(after, true);
                if let Some(fields) = event_json.as_object_mut() {
                    fields.insert("message".to_owned(), now);
                }
            }
            None => {
                insert_field(&mut event_json, "subtype", "message_deleted".to_owned());
                insert_field(&mut event_json, "deleted_ts", before.ts.clone());
                let deleted = UiChange::Deleted(before.channel.clone(), before.ts.clone());
                self.record_change(deleted);
            }
        }
        self.emit_event(event_json);
    }
}

fn insert_field(object: &mut Value, name: &str, value: String) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PlaygroundOptions;

    #[test]
    fn event_ids_differ_between_runs() {
        let ids = |run: u64| {
            let mut workspace = Workspace::new(&PlaygroundOptions::default(), String::new());
            workspace.run = run;
            workspace.emit_event(json!({"type": "app_uninstalled"}));
            workspace.emit_event(json!({"type": "app_uninstalled"}));
            let ids = workspace.outgoing.iter().map(|one| one.id.clone());
            ids.collect::<Vec<_>>()
        };
        let (first, second) = (ids(1_790_000_000), ids(1_790_000_001));
        assert_eq!(first.len(), 2);
        assert!(
            first.iter().all(|id| !second.contains(id)),
            "{first:?} {second:?}"
        );
    }
}
