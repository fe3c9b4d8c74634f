//! Looking at members of what a server sends.

use super::answer::Answer;
use super::verdict::{Finding, Flaw};
use interzone_protocol::vocab::Timestamp;
use serde_json::Value;

/// A member that must be a string with something in it.
pub(super) fn string(object: &Value, member: &str) -> Result<String, Flaw> {
    match object.get(member).and_then(Value::as_str) {
        Some("") => Err(Flaw::broken(format!("`{member}` is empty"))),
        Some(text) => Ok(text.to_owned()),
        None => Err(Flaw::broken(format!("`{member}` is missing or no string"))),
    }
}

/// A member that must be a moment with its offset.
pub(super) fn timestamp(object: &Value, member: &str) -> Result<(), Flaw> {
    let text = string(object, member)?;
    let moment: Result<Timestamp, _> = serde_json::from_value(Value::String(text));
    match moment {
        Ok(_) => Ok(()),
        Err(_) => Err(Flaw::broken(format!(
            "`{member}` is no RFC 3339 time with an offset"
        ))),
    }
}

/// That nothing absent is sent as null. Content and metadata are the caller's own.
pub(super) fn no_nulls(value: &Value) -> Finding {
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
        Some(path) => Err(Flaw::broken(format!(
            "`{}` is sent as null",
            crate::printable::text(&path)
        ))),
    }
}

/// That a refusal says which field is wrong: in `data.field`, or at least in words.
pub(super) fn names_field(answer: &Answer, field: &str, words: String) -> Finding {
    let error = answer.error()?;
    let told = error.pointer("/data/field").and_then(Value::as_str);
    if told.is_some_and(|told| told.contains(field)) {
        return Ok(words);
    }
    if error.to_string().contains(field) {
        return Err(Flaw::poor(format!("{words}; data.field does not name it")));
    }
    Err(Flaw::poor(format!("{words}, and nothing names the field")))
}
