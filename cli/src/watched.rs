//! What a watch sees, as lines of JSON for programs. docs/cli.md describes them.

use interzone_client::Watched;
use serde_json::{Map, Value, json};

/// One event as one object: `event` names it, `sequence` is what to give to `--after`.
pub(crate) fn line(event: &Watched, sequence: Option<u64>) -> Value {
    let (name, members) = match event {
        Watched::StatusChange(task) => ("status", json!({"task": task})),
        Watched::Message(message) => ("message", json!({"message": message})),
        Watched::Artifact(artifact) => ("artifact", json!({"artifact": artifact})),
        Watched::Text { run, offset, delta } => (
            "text",
            json!({"run": run, "offset": offset, "delta": delta}),
        ),
        Watched::StatusLine(text) => ("note", json!({"text": text})),
        Watched::Completed(task) => ("completed", json!({"task": task})),
        Watched::Failed(task) => ("failed", json!({"task": task})),
        Watched::Chunk(chunk) => ("chunk", json!({"chunk": chunk})),
        Watched::StreamState { status, reason } => {
            ("state", json!({"status": status, "reason": reason}))
        }
        Watched::Other { method, params } => {
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
