//! Reference parser: `serde_json`.

use serde_json::Value;

/// Result of the reference parser.
pub(crate) enum ReferenceResult {
    /// The bytes are this value.
    Json(Value),
    /// The bytes are not JSON.
    NotJson,
    /// A number is too large for its types, or the nesting exceeds 127.
    Unsupported,
}

pub(crate) fn parse_reference(bytes: &[u8]) -> ReferenceResult {
    match serde_json::from_slice(bytes) {
        Ok(value) => ReferenceResult::Json(value),
        Err(error) => {
            let message = error.to_string();
            let unsupported = ["number out of range", "recursion limit exceeded"];
            match unsupported.iter().any(|start| message.starts_with(start)) {
                true => ReferenceResult::Unsupported,
                false => ReferenceResult::NotJson,
            }
        }
    }
}
