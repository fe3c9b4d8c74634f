//! What the app is told of what happens: which events, to whom, in which shape.

use super::messages::Message;
use super::{Change, Outgoing, Workspace};
use serde_json::{Value, json};

impl Workspace {
    /// An event for the app.
    pub(crate) fn event(&mut self, event: Value) {
        let number = self.next("event");
        // Whoever keeps what they have seen must not take this run's events for those of an earlier one.
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
        self.send(Outgoing {
            id,
            kind,
            payload,
            interactive: false,
        });
    }

    /// A new message: the app hears of it where it is a member, and of a mention by an event of its own.
    pub(crate) fn tell_message(&mut self, message: &Message) {
        let Some(channel) = self.channels.get(&message.channel) else {
            return;
        };
        if !channel.has(&self.bot_user) {
            return;
        }
        let kind = channel.kind;
        let mut told = self.message_json(message, true);
        let mention = format!("<@{}>", self.bot_user);
        let mentioned = message.text.contains(&mention) || message.text.contains("<@U0INTERZONE|");
        put(&mut told, "channel", message.channel.clone());
        put(&mut told, "event_ts", message.ts.clone());
        let mut twin = told.clone();
        put(&mut told, "channel_type", kind.channel_type().to_owned());
        let own = message.user == self.bot_user;
        let in_dm = matches!(kind, super::channels::Kind::Im);
        if mentioned && !own && !in_dm {
            put(&mut twin, "type", "app_mention".to_owned());
            if let Some(fields) = twin.as_object_mut() {
                fields.remove("subtype");
                fields.remove("parent_user_id");
            }
            self.event(twin);
        }
        self.event(told);
    }

    /// A message that was changed, or is gone.
    pub(crate) fn tell_change(&mut self, before: &Message, after: Option<&Message>) {
        let Some(channel) = self.channels.get(&before.channel) else {
            return;
        };
        if !channel.has(&self.bot_user) {
            return;
        }
        let channel_type = channel.kind.channel_type();
        let ts = self.next_ts();
        let previous = self.message_json(before, true);
        let mut told = json!({
            "type": "message", "hidden": true, "channel": before.channel, "ts": ts, "event_ts": ts,
            "channel_type": channel_type, "previous_message": previous,
        });
        match after {
            Some(after) => {
                put(&mut told, "subtype", "message_changed".to_owned());
                let now = self.message_json(after, true);
                if let Some(fields) = told.as_object_mut() {
                    fields.insert("message".to_owned(), now);
                }
            }
            None => {
                put(&mut told, "subtype", "message_deleted".to_owned());
                put(&mut told, "deleted_ts", before.ts.clone());
                let gone = Change::Gone(before.channel.clone(), before.ts.clone());
                self.changed(gone);
            }
        }
        self.event(told);
    }
}

fn put(told: &mut Value, name: &str, value: String) {
    if let Some(fields) = told.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PlaygroundOptions;

    #[test]
    fn a_later_run_repeats_no_events_id() {
        let ids = |run: u64| {
            let mut workspace = Workspace::new(&PlaygroundOptions::default(), String::new());
            workspace.run = run;
            workspace.event(json!({"type": "app_uninstalled"}));
            workspace.event(json!({"type": "app_uninstalled"}));
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
