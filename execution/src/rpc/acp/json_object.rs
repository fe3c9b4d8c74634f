//! Edits one field of a caller's JSON object and keeps every other byte as sent. The text must be a valid JSON
//! object.

use interzone_protocol::vocab::{Metadata, VerbatimJson};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;

/// Sets `name` to `value`, replacing an existing value, else appending. Without an object, a new one is created.
pub(super) fn set_field(object: Option<&Metadata>, name: &str, value: &str) -> Option<Metadata> {
    let text = object.map_or("{}", Metadata::as_str);
    let value = serde_json::to_string(value).ok()?;
    match find_value(text, name) {
        Some(range) => {
            let mut out = String::with_capacity(text.len() + value.len());
            out.push_str(text.get(..range.start)?);
            out.push_str(&value);
            out.push_str(text.get(range.end..)?);
            to_metadata(out)
        }
        None => append(text, name, &value),
    }
}

/// Adds `name` unless the object has a field of that name.
pub(super) fn add_field(object: Option<&Metadata>, name: &str, value: &str) -> Option<Metadata> {
    let text = object.map_or("{}", Metadata::as_str);
    match (find_value(text, name), object) {
        (Some(_), Some(object)) => Some(object.clone()),
        _ => append(text, name, &serde_json::to_string(value).ok()?),
    }
}

fn append(text: &str, name: &str, value: &str) -> Option<Metadata> {
    let body = text.trim_end().strip_suffix('}')?;
    let comma = if body.trim_end().ends_with('{') && is_empty(text) {
        ""
    } else {
        ","
    };
    to_metadata(format!("{body}{comma}\"{name}\":{value}}}"))
}

fn is_empty(text: &str) -> bool {
    text.trim_start()
        .strip_prefix('{')
        .is_some_and(|after| after.trim_start().starts_with('}'))
}

fn to_metadata(text: String) -> Option<Metadata> {
    Metadata::new(VerbatimJson::parse(text).ok()?).ok()
}

/// Returns the range of a field's value; of the last one if the field is duplicated, which is the one that JSON
/// parsers agree on.
fn find_value(text: &str, name: &str) -> Option<Range<usize>> {
    // Fast path: nearly every object contains neither the name nor an escape that could spell it.
    if !text.contains(name) && !text.contains("\\u") {
        return None;
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    // The raw value is a slice of the text.
    let value = fields.get(name)?.get();
    let start = value.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(start..start.checked_add(value.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Metadata {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn set_field_keeps_every_other_byte() {
        for (before, after) in [
            ("{}", r#"{"priority":"HIGH"}"#),
            ("{ \n }", "{ \n \"priority\":\"HIGH\"}"),
            (r#"{"a":1.00}"#, r#"{"a":1.00,"priority":"HIGH"}"#),
            (
                r#"{ "a" : {"priority":"x"} }"#,
                r#"{ "a" : {"priority":"x"} ,"priority":"HIGH"}"#,
            ),
            (
                r#"{"priority":"LOW","z":[1, 2]}"#,
                r#"{"priority":"HIGH","z":[1, 2]}"#,
            ),
            (
                r#"{"z":"}{","priority" : {"a":["]"]} , "y":2}"#,
                r#"{"z":"}{","priority" : "HIGH" , "y":2}"#,
            ),
            (r#"{"\u0070riority":7}"#, r#"{"\u0070riority":"HIGH"}"#),
            (
                r#"{"a":"priority"}"#,
                r#"{"a":"priority","priority":"HIGH"}"#,
            ),
            (
                r#"{"a\"":"\\","priority":null}"#,
                r#"{"a\"":"\\","priority":"HIGH"}"#,
            ),
            (
                r#"{"priority":1,"priority":2}"#,
                r#"{"priority":1,"priority":"HIGH"}"#,
            ),
            (r#"{"a":{}}"#, r#"{"a":{},"priority":"HIGH"}"#),
            (r#"{"a":"{"}"#, r#"{"a":"{","priority":"HIGH"}"#),
        ] {
            let updated = set_field(Some(&object(before)), "priority", "HIGH").unwrap();
            assert_eq!(updated.as_str(), after);
        }
        assert_eq!(
            set_field(None, "p", "q\"").unwrap().as_str(),
            r#"{"p":"q\""}"#
        );
    }

    #[test]
    fn add_field_keeps_existing_field() {
        let object = object(r#"{"events":1}"#);
        assert_eq!(add_field(Some(&object), "events", "x").unwrap(), object);
        let added = add_field(Some(&object), "websocket", "wss://h").unwrap();
        assert_eq!(added.as_str(), r#"{"events":1,"websocket":"wss://h"}"#);
    }
}
