//! Watching a task or a stream by SSE, as a browser would, with the place to resume from.

use super::soon;
use super::wire::Reply;
use super::zone::Zone;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use serde_json::Value;

/// One event as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its place in the log. What is only shown while it happens has none.
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Event {
    pub(crate) fn params(&self) -> &Value {
        &self.data["params"]
    }

    /// `STATUS_CHANGE` and the like, of a task's notification.
    pub(crate) fn kind(&self) -> &str {
        self.params()["event"].as_str().unwrap_or_default()
    }
}

/// An open watch.
pub(crate) struct Watch {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    rest: Vec<u8>,
    /// The last place seen, from which another watch may go on.
    pub(crate) last: Option<u64>,
}

impl Watch {
    /// The next event; nothing if the zone has said all, or the connection broke.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        soon("an event", self.read()).await
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.rest.windows(2).position(|at| at == b"\n\n") {
                let block: Vec<u8> = self.rest.drain(..end + 2).collect();
                if let Some(event) = parse(&block) {
                    self.last = event.id.or(self.last);
                    return Some(event);
                }
            }
            let block = self.bytes.try_next().await.ok().flatten()?;
            self.rest.extend_from_slice(&block);
        }
    }

    /// Everything until the end.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Events up to and with the first that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let event = event.unwrap_or_else(|| panic!("it ended after {events:#?}"));
            let last = fits(&event);
            events.push(event);
            if last {
                return events;
            }
        }
    }
}

/// A block between empty lines; comments alone are no event.
fn parse(block: &[u8]) -> Option<Event> {
    let text = std::str::from_utf8(block).unwrap();
    let (mut id, mut name, mut data) = (None, String::new(), String::new());
    for line in text.lines() {
        match line.split_once(':') {
            Some(("id", value)) => id = Some(value.trim().parse().unwrap()),
            Some(("event", value)) => name = value.trim().to_owned(),
            Some(("data", value)) => data.push_str(value.trim_start()),
            _ => {}
        }
    }
    if data.is_empty() {
        return None;
    }
    let data: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["jsonrpc"], "2.0");
    assert_eq!(data["method"], name, "the event is named after its method");
    assert!(data.get("id").is_none(), "a notification: {data}");
    Some(Event { id, name, data })
}

impl Zone {
    /// Watches `tasks/ID` or `streams/ID`, from the beginning or after a place.
    pub(crate) async fn watch(&self, token: &str, what: &str, after: Option<u64>) -> Watch {
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
    ) -> Result<Watch, Option<Reply>> {
        let mut request = self
            .http
            .get(format!("{}/{what}/events", self.url))
            .bearer_auth(token);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = request.send().await.map_err(|_| None)?;
        if response.status() != 200 {
            return Err(Some(Reply::read(response).await));
        }
        Ok(Watch {
            bytes: response.bytes_stream().boxed(),
            rest: Vec::new(),
            last: after,
        })
    }

    /// The task, once it is finished.
    pub(crate) async fn finished(&self, token: &str, id: &str) -> Value {
        self.watch(token, &format!("tasks/{id}"), None)
            .await
            .rest()
            .await;
        self.task(token, id).await
    }
}
