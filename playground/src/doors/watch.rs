//! What the page sees: the whole workspace once, and then every change as it happens.

use super::query;
use crate::shared::Shared;
use crate::workspace::messages::{Message, Stream};
use crate::workspace::people::User;
use crate::workspace::{Change, Workspace};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A line that keeps an idle watch alive.
const ALIVE: Duration = Duration::from_secs(15);
/// Messages of each channel that the page begins with.
const SHOWN: usize = 500;

/// A message for the page: as the API tells it, with what only a client of Slack knows.
fn shown(workspace: &Workspace, message: &Message) -> Value {
    let mut told = workspace.message_json(message, false);
    if let Some(fields) = told.as_object_mut() {
        fields.insert("channel".to_owned(), message.channel.clone().into());
        let streaming = workspace.stream_of(message) == Some(Stream::Open);
        fields.insert("streaming".to_owned(), streaming.into());
        fields.insert("only_for".to_owned(), message.only_for.clone().into());
        if message.client_msg_id.is_some() {
            // What a person typed is drawn from its text.
            fields.remove("blocks");
        }
        let files = message.files.iter().filter_map(|id| workspace.file(id));
        let files: Vec<Value> = files
            .map(|file| {
                json!({"id": file.id, "name": file.name, "title": file.title,
                "size": file.length, "mimetype": file.mimetype})
            })
            .collect();
        fields.insert("files".to_owned(), files.into());
    }
    told
}

/// Somebody, as the page needs to know them.
fn person(user: &User) -> Value {
    json!({"id": user.id, "name": user.name, "display_name": user.display_name,
        "locale": user.locale, "deleted": user.deleted, "is_bot": user.is_bot})
}

/// The whole workspace.
pub(super) fn everything(workspace: &Workspace) -> Value {
    let users: Vec<Value> = workspace.users.values().map(person).collect();
    let channels: Vec<Value> = workspace
        .channels
        .values()
        .map(|channel| {
            json!({"id": channel.id, "name": channel.name, "kind": channel.kind.channel_type(),
                "members": channel.members, "archived": channel.archived})
        })
        .collect();
    let newest = |all: &std::collections::BTreeMap<String, Message>| {
        let from = all.len().saturating_sub(SHOWN);
        all.values()
            .skip(from)
            .map(|message| shown(workspace, message))
            .collect::<Vec<_>>()
    };
    let messages: Vec<Value> = workspace.messages.values().flat_map(newest).collect();
    let from = workspace.ephemerals.len().saturating_sub(SHOWN);
    let ephemerals = workspace.ephemerals.iter().skip(from);
    let ephemerals: Vec<Value> = ephemerals.map(|m| shown(workspace, m)).collect();
    let statuses = workspace.statuses.keys().filter_map(|(channel, thread)| {
        let text = workspace.status(channel, thread)?;
        Some(json!({"channel": channel, "thread_ts": thread, "text": text}))
    });
    json!({
        "revision": workspace.revision, "team": {"id": workspace.team, "name": "Playground"},
        "bot": workspace.bot_user, "users": users, "channels": channels, "messages": messages,
        "ephemerals": ephemerals, "statuses": statuses.collect::<Vec<_>>(),
    })
}

/// What changed after a revision, and the revision it is at now. A page that was away for too long is
/// told to begin again.
fn since(workspace: &Workspace, seen: u64) -> (Vec<Value>, u64) {
    let oldest = workspace
        .journal
        .front()
        .map_or(workspace.revision, |(at, _)| *at);
    // Not every revision leaves a change, so a gap before the oldest tells nothing until it is full.
    let lost = workspace.journal_is_full() && seen + 1 < oldest;
    if lost || seen > workspace.revision {
        return (vec![json!({"type": "reset"})], workspace.revision);
    }
    let mut told: Vec<&Change> = Vec::new();
    for (at, change) in &workspace.journal {
        if *at > seen && !told.contains(&change) {
            told.push(change);
        }
    }
    let told = told.into_iter().filter_map(|change| match change {
        Change::Message(channel, ts) => {
            let message = workspace.message(channel, ts)?;
            Some(json!({"type": "message", "message": shown(workspace, message)}))
        }
        Change::Gone(channel, ts) => Some(json!({"type": "gone", "channel": channel, "ts": ts})),
        Change::Whisper(channel, ts) => {
            let mut all = workspace.ephemerals.iter().rev();
            let message = all.find(|m| m.channel == *channel && m.ts == *ts)?;
            Some(json!({"type": "ephemeral", "message": shown(workspace, message)}))
        }
        Change::User(id) => {
            let user = workspace.users.get(id)?;
            Some(json!({"type": "user", "user": person(user)}))
        }
        Change::Status(channel, thread) => {
            let text = workspace.status(channel, thread).unwrap_or_default();
            Some(json!({"type": "status", "channel": channel, "thread_ts": thread, "text": text}))
        }
    });
    (told.collect(), workspace.revision)
}

struct Watch {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    seen: u64,
}

impl Watch {
    /// The next piece of the stream; `None` at the stop.
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Self)> {
        loop {
            self.changes.borrow_and_update();
            let (told, at) = self.shared.look(|workspace| since(workspace, self.seen));
            self.seen = at;
            if !told.is_empty() {
                let text: String = told
                    .iter()
                    .map(|one| format!("id: {at}\ndata: {one}\n\n"))
                    .collect();
                return Some((Ok(text.into()), self));
            }
            tokio::select! {
                () = self.shared.stop.cancelled() => return None,
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(ALIVE) => {
                    return Some((Ok(Bytes::from_static(b": still here\n\n")), self));
                }
            }
        }
    }
}

/// Server-sent events from a revision on.
pub(super) fn changes(shared: &Arc<Shared>, parts: &Parts) -> Response {
    let last = parts.headers.get("last-event-id");
    let last = last.and_then(|last| last.to_str().ok()?.parse().ok());
    let asked = || query(parts, "since").and_then(|since| since.parse().ok());
    let watch = Watch {
        shared: Arc::clone(shared),
        changes: shared.watch(),
        seen: last.or_else(asked).unwrap_or_default(),
    };
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (
        headers,
        Body::from_stream(stream::unfold(watch, Watch::next)),
    )
        .into_response()
}
