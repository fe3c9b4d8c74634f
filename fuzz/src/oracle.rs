//! What `serde_json` makes of the same bytes.

use serde_json::Value;

/// The second opinion.
pub(crate) enum Opinion {
    /// The bytes are this value.
    Json(Value),
    /// The bytes are not JSON.
    NotJson,
    /// It gave up on a number too large for its types, or on nesting beyond 127.
    GaveUp,
}

pub(crate) fn ask(bytes: &[u8]) -> Opinion {
    match serde_json::from_slice(bytes) {
        Ok(value) => Opinion::Json(value),
        Err(error) => {
            let words = error.to_string();
            let gave_up = ["number out of range", "recursion limit exceeded"];
            match gave_up.iter().any(|start| words.starts_with(start)) {
                true => Opinion::GaveUp,
                false => Opinion::NotJson,
            }
        }
    }
}
