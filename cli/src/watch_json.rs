//! Watch events as JSON lines. docs/cli.md describes them.

use interzone_client::WatchEvent;
use serde_json::{Map, Value, json};

/// Converts an event to a JSON object: `event` is its name, `sequence` the value for `--after`.
pub(crate) fn event_json(event: &WatchEvent, sequence: Option<u64>) -> Value {
    let (name, members) = match event {
        WatchEvent::StatusChange(task) => ("status", json!({"task": task})),
        WatchEvent::Message(message) => ("message", json!({"message": message})),
        WatchEvent::Artifact(artifact) => ("artifact", json!({"artifact": artifact})),
        WatchEvent::Text { run, offset, delta } => (
            "text",
            json!({"run": run, "offset": offset, "delta": delta}),
        ),
        WatchEvent::StatusLine(text) => ("note", json!({"text": text})),
        WatchEvent::Completed(task) => ("completed", json!({"task": task})),
        WatchEvent::Failed(task) => ("failed", json!({"task": task})),
        WatchEvent::Chunk(chunk) => ("chunk", json!({"chunk": chunk})),
        WatchEvent::StreamState { status, reason } => {
            ("state", json!({"status": status, "reason": reason}))
        }
        WatchEvent::Other { method, params } => {
            let params: Option<Value> = params.as_ref().and_then(|params| params.decode().ok());
            ("other", json!({"method": method, "params": params}))
        }
        _ => ("other", json!({})),
    };
    let mut line = Map::new();
    line.insert("event".to_owned(), name.into());
    line.insert("sequence".to_owned(), sequence.into());
    if let Value::Object(members) = members {
        line.extend(members);
    }
    Value::Object(line)
}
