//! SSE watches of tasks and streams, as a browser opens them, with the event id to resume from.

use super::rpc::HttpReply;
use super::within_timeout;
use super::zone_process::ZoneProcess;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use interzone_client::sse::{SseEvent, SseParser};
use serde_json::Value;
use std::collections::VecDeque;

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReceivedSseEvent {
    /// Position in the log; `None` for events that are only shown live.
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl ReceivedSseEvent {
    pub(crate) fn params(&self) -> &Value {
        &self.data["params"]
    }

    /// Returns the event kind of a task notification, such as `STATUS_CHANGE`.
    pub(crate) fn kind(&self) -> &str {
        self.params()["event"].as_str().unwrap_or_default()
    }
}

/// An open SSE watch.
pub(crate) struct SseWatch {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: SseParser,
    unread: VecDeque<SseEvent>,
    /// Last event id received, after which another watch may resume.
    pub(crate) last_event_id: Option<u64>,
}

impl SseWatch {
    /// Returns the next event, or `None` if the zone ended the watch or the connection broke.
    pub(crate) async fn next(&mut self) -> Option<ReceivedSseEvent> {
        within_timeout("an event", self.read()).await
    }

    async fn read(&mut self) -> Option<ReceivedSseEvent> {
        loop {
            if let Some(event) = self.unread.pop_front() {
                let event = decode_event(event);
                self.last_event_id = event.id.or(self.last_event_id);
                return Some(event);
            }
            let piece = self.bytes.try_next().await.ok().flatten()?;
            self.parser.push(&piece, &mut self.unread).unwrap();
        }
    }

    /// Returns all events up to the end.
    pub(crate) async fn remaining(mut self) -> Vec<ReceivedSseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Returns the events up to and including the first that matches.
    pub(crate) async fn until(
        &mut self,
        matches: impl Fn(&ReceivedSseEvent) -> bool,
    ) -> Vec<ReceivedSseEvent> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let event = event.unwrap_or_else(|| panic!("the watch ended after {events:#?}"));
            let last = matches(&event);
            events.push(event);
            if last {
                return events;
            }
        }
    }
}

fn decode_event(event: SseEvent) -> ReceivedSseEvent {
    let (id, name) = (event.id.map(|id| id.parse().unwrap()), event.name);
    let data: Value = serde_json::from_slice(&event.data).unwrap();
    assert_eq!(data["jsonrpc"], "2.0");
    assert_eq!(data["method"], name, "the event is named after its method");
    assert!(data.get("id").is_none(), "a notification: {data}");
    ReceivedSseEvent { id, name, data }
}

impl ZoneProcess {
    /// Watches `tasks/ID` or `streams/ID`, from the beginning or after an event id.
    pub(crate) async fn watch(&self, token: &str, what: &str, after: Option<u64>) -> SseWatch {
        match self.try_watch(token, what, after).await {
            Ok(watch) => watch,
            Err(refusal) => panic!("{what}: {refusal:?}"),
        }
    }

    pub(crate) async fn try_watch(
        &self,
        token: &str,
        what: &str,
        after: Option<u64>,
    ) -> Result<SseWatch, Option<HttpReply>> {
        let mut request = self
            .http
            .get(format!("{}/{what}/events", self.url))
            .bearer_auth(token);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = request.send().await.map_err(|_| None)?;
        if response.status() != 200 {
            return Err(Some(HttpReply::read(response).await));
        }
        Ok(SseWatch {
            bytes: response.bytes_stream().boxed(),
            parser: SseParser::new(64 << 20),
            unread: VecDeque::new(),
            last_event_id: after,
        })
    }

    /// Waits until the task is finished and returns it.
    pub(crate) async fn wait_for_task(&self, token: &str, id: &str) -> Value {
        self.watch(token, &format!("tasks/{id}"), None)
            .await
            .remaining()
            .await;
        self.task(token, id).await
    }
}
