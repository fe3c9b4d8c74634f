//! Data for the page: a snapshot of the workspace, and its changes as server-sent events.

use super::query_param;
use crate::state::PlaygroundState;
use crate::workspace::messages::{PlaygroundMessage, StreamStatus};
use crate::workspace::users::PlaygroundUser;
use crate::workspace::{UiChange, Workspace};
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

/// Interval of keep-alive comments.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum messages per channel in the snapshot.
const MAX_MESSAGES: usize = 500;

/// Returns the JSON form of a message for the page: that of the API, with fields for the client.
fn message_for_page(workspace: &Workspace, message: &PlaygroundMessage) -> Value {
    let mut message_json = workspace.message_json(message, false);
    if let Some(fields) = message_json.as_object_mut() {
        fields.insert("channel".to_owned(), message.channel.clone().into());
        let streaming = workspace.stream_state(message) == Some(StreamStatus::Open);
        fields.insert("streaming".to_owned(), streaming.into());
        fields.insert("only_for".to_owned(), message.visible_to.clone().into());
        if message.client_msg_id.is_some() {
            // User messages are rendered from their text.
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
    message_json
}

/// Returns the JSON form of a user for the page.
fn user_for_page(user: &PlaygroundUser) -> Value {
    json!({"id": user.id, "name": user.name, "display_name": user.display_name,
        "locale": user.locale, "deleted": user.deleted, "is_bot": user.is_bot})
}

/// Returns a snapshot of the workspace.
pub(super) fn snapshot(workspace: &Workspace) -> Value {
    let users: Vec<Value> = workspace.users.values().map(user_for_page).collect();
    let channels: Vec<Value> = workspace
        .channels
        .values()
        .map(|channel| {
            json!({"id": channel.id, "name": channel.name, "kind": channel.kind.channel_type(),
                "members": channel.members, "archived": channel.archived})
        })
        .collect();
    let newest = |all: &std::collections::BTreeMap<String, PlaygroundMessage>| {
        let from = all.len().saturating_sub(MAX_MESSAGES);
        all.values()
            .skip(from)
            .map(|message| message_for_page(workspace, message))
            .collect::<Vec<_>>()
    };
    let messages: Vec<Value> = workspace.messages.values().flat_map(newest).collect();
    let from = workspace.ephemerals.len().saturating_sub(MAX_MESSAGES);
    let ephemerals = workspace.ephemerals.iter().skip(from);
    let ephemerals: Vec<Value> = ephemerals.map(|m| message_for_page(workspace, m)).collect();
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

/// Returns the changes after a revision, and the current revision. A page that was away for too long must reload.
fn changes_since(workspace: &Workspace, revision: u64) -> (Vec<Value>, u64) {
    let oldest = workspace
        .journal
        .front()
        .map_or(workspace.revision, |(at, _)| *at);
    // Not every revision has a journal entry, so a gap before the oldest means nothing until the journal is full.
    let is_lost = workspace.is_journal_full() && revision + 1 < oldest;
    if is_lost || revision > workspace.revision {
        return (vec![json!({"type": "reset"})], workspace.revision);
    }
    let mut changes: Vec<&UiChange> = Vec::new();
    for (at, change) in &workspace.journal {
        if *at > revision && !changes.contains(&change) {
            changes.push(change);
        }
    }
    let events = changes.into_iter().filter_map(|change| match change {
        UiChange::Message(channel, ts) => {
            let message = workspace.message(channel, ts)?;
            Some(json!({"type": "message", "message": message_for_page(workspace, message)}))
        }
        UiChange::Deleted(channel, ts) => {
            Some(json!({"type": "gone", "channel": channel, "ts": ts}))
        }
        UiChange::Ephemeral(channel, ts) => {
            let mut all = workspace.ephemerals.iter().rev();
            let message = all.find(|m| m.channel == *channel && m.ts == *ts)?;
            Some(json!({"type": "ephemeral", "message": message_for_page(workspace, message)}))
        }
        UiChange::User(id) => {
            let user = workspace.users.get(id)?;
            Some(json!({"type": "user", "user": user_for_page(user)}))
        }
        UiChange::Status(channel, thread) => {
            let text = workspace.status(channel, thread).unwrap_or_default();
            Some(json!({"type": "status", "channel": channel, "thread_ts": thread, "text": text}))
        }
    });
    (events.collect(), workspace.revision)
}

struct ChangeStream {
    shared: Arc<PlaygroundState>,
    changes: watch::Receiver<u64>,
    revision: u64,
}

impl ChangeStream {
    /// Returns the next chunk of the stream; `None` after the stop.
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Self)> {
        loop {
            self.changes.borrow_and_update();
            let (events, revision) = self
                .shared
                .inspect(|workspace| changes_since(workspace, self.revision));
            self.revision = revision;
            if !events.is_empty() {
                let text: String = events
                    .iter()
                    .map(|one| format!("id: {revision}\ndata: {one}\n\n"))
                    .collect();
                return Some((Ok(text.into()), self));
            }
            tokio::select! {
                () = self.shared.stop.cancelled() => return None,
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => {
                    return Some((Ok(Bytes::from_static(b": still here\n\n")), self));
                }
            }
        }
    }
}

/// Streams changes from a revision on (SSE).
pub(super) fn stream_changes(shared: &Arc<PlaygroundState>, parts: &Parts) -> Response {
    let last_event_id = parts.headers.get("last-event-id");
    let last_event_id = last_event_id.and_then(|last| last.to_str().ok()?.parse().ok());
    let since_param = || query_param(parts, "since").and_then(|since| since.parse().ok());
    let watch = ChangeStream {
        shared: Arc::clone(shared),
        changes: shared.subscribe(),
        revision: last_event_id.or_else(since_param).unwrap_or_default(),
    };
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (
        headers,
        Body::from_stream(stream::unfold(watch, ChangeStream::next)),
    )
        .into_response()
}
