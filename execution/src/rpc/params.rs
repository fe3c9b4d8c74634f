//! Params by name. An error names the field, the expected type and the received type, never the value.

use super::errors::{CallError, InvalidParams, field};
use interzone_jsonrpc::{JsonKind, RawJson};
use interzone_protocol::vocab::EmptyMessage;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Parses params by name; absent params are parsed as an empty object.
pub(crate) fn read<T: DeserializeOwned>(params: Option<&RawJson<'_>>) -> Result<T, CallError> {
    let text = match params {
        None => "{}",
        Some(params) if params.kind() == JsonKind::Object => params.as_str(),
        Some(params) => {
            return Err(field("params", "an object", params.kind().name()).into());
        }
    };
    // The first pass is plain and fast; only invalid params are parsed again to find the path.
    serde_json::from_str(text).map_err(|_| describe_error::<T>(text).into())
}

fn describe_error<T: DeserializeOwned>(text: &str) -> InvalidParams {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut reader) else {
        return field("params", "what the method takes", "something else");
    };
    let path = error.path().to_string();
    let mut path = if path == "." {
        "params".to_owned()
    } else {
        format!("params.{path}")
    };
    let message = error.inner().to_string();
    let message = message
        .rsplit_once(" at line ")
        .map_or(&*message, |(said, _)| said);
    if let Some(name) = quoted_after(message, "missing field `") {
        path = format!("{path}.{name}");
        return field(path, "a value", "nothing");
    }
    if let Some(name) = quoted_after(message, "duplicate field `") {
        path = format!("{path}.{name}");
        return field(path, "one value", "several");
    }
    // serde's message has the value before the expectation: only the latter is returned.
    let expected = match message.rsplit_once(", expected ") {
        Some((_, expected)) => expected,
        None if message.starts_with("invalid ") || message.starts_with("unknown ") => {
            "another value"
        }
        None => message,
    };
    let expected = match expected {
        "u64" | "u32" | "usize" => "an integer that is not negative",
        "a sequence" => "an array",
        "a map" => "an object",
        // serde names our type, which is an internal detail.
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    let (path, expected) = match expected == EmptyMessage.to_string() {
        true => (format!("{path}.parts"), "at least one part"),
        false => (path, expected),
    };
    let received = received_type(text, &path);
    field(path, expected, received)
}

fn quoted_after<'s>(message: &'s str, prefix: &str) -> Option<&'s str> {
    message.strip_prefix(prefix)?.split('`').next()
}

/// Returns the JSON type of the value at a path.
fn received_type(text: &str, path: &str) -> &'static str {
    let Ok(root) = serde_json::from_str::<Value>(text) else {
        return "something else";
    };
    let mut value = &root;
    for step in path
        .split(['.', '[', ']'])
        .skip(1)
        .filter(|step| !step.is_empty())
    {
        let next = match value {
            Value::Array(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
            other => other.get(step),
        };
        match next {
            Some(next) => value = next,
            None => return "nothing",
        }
    }
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) if items.is_empty() => "empty array",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::acp::{
        StreamChunk, StreamStartParams, TasksCreateParams, TasksGetParams, TasksSubscribeParams,
    };

    fn error_line<T: DeserializeOwned>(text: &str) -> String {
        let raw = RawJson::parse(text).unwrap();
        let Err(CallError::InvalidParams(error)) = read::<T>(Some(&raw)) else {
            panic!("{text} should not fit")
        };
        format!("{}: {} <- {}", error.field, error.expected, error.received)
    }

    #[test]
    fn invalid_params_name_field_and_types() {
        let create = |message: &str| {
            let text = format!(r#"{{"initialMessage":{message}}}"#);
            error_line::<TasksCreateParams>(&text)
        };
        let lines = [
            error_line::<TasksGetParams>("[1]"),
            error_line::<TasksGetParams>("7"),
            error_line::<TasksGetParams>("{}"),
            error_line::<TasksGetParams>(r#"{"taskId":null}"#),
            error_line::<TasksGetParams>(r#"{"taskId":{"secret":1}}"#),
            error_line::<TasksGetParams>(r#"{"taskId":"a","taskId":"b"}"#),
            error_line::<TasksGetParams>(r#"{"taskId":"a","includeMessages":"yes"}"#),
            create("\"secret, expected secret\""),
            create("{}"),
            create(r#"{"role":"boss","parts":[]}"#),
            create(r#"{"role":"user","parts":[]}"#),
            create(r#"{"role":"user","parts":[{"type":"text"}]}"#),
            create(r#"{"role":"user","parts":[{"type":"TextPart"},{"content":"x"}]}"#),
            create(r#"{"role":"user","parts":[{"type":"TextPart","size":-5}]}"#),
            create(r#"{"role":"user","parts":[{"type":"TextPart"}],"timestamp":"yesterday"}"#),
            create(r#"{"role":"user","parts":[{"type":"TextPart"}]},"priority":"MEDIUM""#),
            create(r#"{"role":"user","parts":[{"type":"TextPart"}]},"metadata":[]"#),
            error_line::<TasksSubscribeParams>(
                r#"{"taskId":"t","callbackUrl":"u","events":["DONE"]}"#,
            ),
            error_line::<StreamStartParams>(r#"{"participants":"me"}"#),
            error_line::<StreamStartParams>(r#"{"participants":[1]}"#),
            error_line::<StreamChunk>(
                r#"{"streamId":"s","chunk":{"role":"user","parts":[{"type":"TextPart"}]},"sequence":-1}"#,
            ),
        ];
        insta::assert_snapshot!(lines.join("\n"));
        assert!(lines.iter().all(|line| !line.contains("secret")));
    }

    #[test]
    fn absent_params_parse_as_empty_object() {
        assert!(read::<StreamStartParams>(None).is_ok());
    }

    #[test]
    fn errors_do_not_name_rust_types() {
        let line = error_line::<interzone_protocol::zone::ExecuteTaskParams>(
            r#"{"channel":"c","text":"t","bot_token":"b","attachments":[1]}"#,
        );
        assert_eq!(line, "params.attachments[0]: an object <- number");
    }
}
