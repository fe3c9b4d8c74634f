//! Assertions on members of JSON values that a server sends.

use super::check_result::{CheckFailure, CheckOutcome};
use super::response::ServerResponse;
use interzone_protocol::vocab::Timestamp;
use serde_json::Value;

/// Returns a member that must be a non-empty string.
pub(super) fn string(object: &Value, member: &str) -> Result<String, CheckFailure> {
    match object.get(member).and_then(Value::as_str) {
        Some("") => Err(CheckFailure::violation(format!("`{member}` is empty"))),
        Some(text) => Ok(text.to_owned()),
        None => Err(CheckFailure::violation(format!(
            "`{member}` is missing or not a string"
        ))),
    }
}

/// Checks that a member is a timestamp with an offset.
pub(super) fn timestamp(object: &Value, member: &str) -> Result<(), CheckFailure> {
    let text = string(object, member)?;
    let parsed: Result<Timestamp, _> = serde_json::from_value(Value::String(text));
    match parsed {
        Ok(_) => Ok(()),
        Err(_) => Err(CheckFailure::violation(format!(
            "`{member}` is not an RFC 3339 time with an offset"
        ))),
    }
}

/// Checks that absent members are not sent as null. `content` and `metadata` belong to the caller.
pub(super) fn no_nulls(value: &Value) -> CheckOutcome {
    fn find(value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Null => Some(path.to_owned()),
            Value::Array(items) => items.iter().find_map(|item| find(item, path)),
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "content" | "metadata"))
                .find_map(|(name, value)| find(value, name)),
            _ => None,
        }
    }
    match find(value, "") {
        None => Ok(String::new()),
        Some(path) => Err(CheckFailure::violation(format!(
            "`{}` is sent as null",
            crate::printable::text(&path)
        ))),
    }
}

/// Checks that an error names the invalid field: in `data.field`, or at least in its text.
pub(super) fn names_field(answer: &ServerResponse, field: &str, reply: String) -> CheckOutcome {
    let error = answer.error()?;
    let named = error.pointer("/data/field").and_then(Value::as_str);
    if named.is_some_and(|named| named.contains(field)) {
        return Ok(reply);
    }
    if error.to_string().contains(field) {
        return Err(CheckFailure::warning(format!(
            "{reply}; data.field does not name the field"
        )));
    }
    Err(CheckFailure::warning(format!(
        "{reply}; the error does not name the field"
    )))
}
