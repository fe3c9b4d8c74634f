//! Params: read by name, and if they do not fit, where, what was expected, and what kind of value
//! stood there instead. Never the value itself.

use super::errors::{Fault, WireError, field};
use interzone_jsonrpc::{Kind, RawJson};
use interzone_protocol::vocab::NoParts;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads params by name; absent ones are read as an empty object.
pub(crate) fn read<T: DeserializeOwned>(params: Option<&RawJson<'_>>) -> Result<T, Fault> {
    let text = match params {
        None => "{}",
        Some(params) if params.kind() == Kind::Object => params.as_str(),
        Some(params) => {
            return Err(field("params", "an object", params.kind().name()).into());
        }
    };
    // The first reading is plain and fast; only what fails is read again to find out where.
    serde_json::from_str(text).map_err(|_| explain::<T>(text).into())
}

fn explain<T: DeserializeOwned>(text: &str) -> WireError {
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
    let said = error.inner().to_string();
    let said = said
        .rsplit_once(" at line ")
        .map_or(&*said, |(said, _)| said);
    if let Some(name) = quoted_after(said, "missing field `") {
        path = format!("{path}.{name}");
        return field(path, "a value", "nothing");
    }
    if let Some(name) = quoted_after(said, "duplicate field `") {
        path = format!("{path}.{name}");
        return field(path, "one value", "several");
    }
    // What serde says names the value before it says what was expected: only the latter leaves.
    let expected = match said.rsplit_once(", expected ") {
        Some((_, expected)) => expected,
        None if said.starts_with("invalid ") || said.starts_with("unknown ") => "another value",
        None => said,
    };
    let expected = match expected {
        "u64" | "u32" | "usize" => "an integer that is not negative",
        "a sequence" => "an array",
        "a map" => "an object",
        // serde calls an object by the name of our type, which is nobody's business.
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    let (path, expected) = match expected == NoParts.to_string() {
        true => (format!("{path}.parts"), "at least one part"),
        false => (path, expected),
    };
    let received = received(text, &path);
    field(path, expected, received)
}

fn quoted_after<'s>(said: &'s str, before: &str) -> Option<&'s str> {
    said.strip_prefix(before)?.split('`').next()
}

/// The kind of the value at a path.
fn received(text: &str, path: &str) -> &'static str {
    let Ok(root) = serde_json::from_str::<Value>(text) else {
        return "something else";
    };
    let mut at = &root;
    for step in path
        .split(['.', '[', ']'])
        .skip(1)
        .filter(|step| !step.is_empty())
    {
        let next = match at {
            Value::Array(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
            other => other.get(step),
        };
        match next {
            Some(next) => at = next,
            None => return "nothing",
        }
    }
    match at {
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

    fn fault<T: DeserializeOwned>(text: &str) -> String {
        let raw = RawJson::parse(text).unwrap();
        let Err(Fault::Wire(error)) = read::<T>(Some(&raw)) else {
            panic!("{text} should not fit")
        };
        let data = error.data.unwrap();
        let word = |name: &str| data[name].as_str().unwrap().to_owned();
        format!(
            "{}: {} <- {}",
            word("field"),
            word("expected"),
            word("received")
        )
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let create = |rest: &str| {
            let text = format!(r#"{{"initialMessage":{rest}}}"#);
            fault::<TasksCreateParams>(&text)
        };
        let told = [
            fault::<TasksGetParams>("[1]"),
            fault::<TasksGetParams>("7"),
            fault::<TasksGetParams>("{}"),
            fault::<TasksGetParams>(r#"{"taskId":null}"#),
            fault::<TasksGetParams>(r#"{"taskId":{"secret":1}}"#),
            fault::<TasksGetParams>(r#"{"taskId":"a","taskId":"b"}"#),
            fault::<TasksGetParams>(r#"{"taskId":"a","includeMessages":"yes"}"#),
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
            fault::<TasksSubscribeParams>(r#"{"taskId":"t","callbackUrl":"u","events":["DONE"]}"#),
            fault::<StreamStartParams>(r#"{"participants":"me"}"#),
            fault::<StreamStartParams>(r#"{"participants":[1]}"#),
            fault::<StreamChunk>(
                r#"{"streamId":"s","chunk":{"role":"user","parts":[{"type":"TextPart"}]},"sequence":-1}"#,
            ),
        ];
        insta::assert_snapshot!(told.join("\n"));
        assert!(told.iter().all(|line| !line.contains("secret")));
    }

    #[test]
    fn absent_params_are_an_empty_object() {
        assert!(read::<StreamStartParams>(None).is_ok());
    }

    #[test]
    fn no_type_of_ours_is_named() {
        let told = fault::<interzone_protocol::zone::ExecuteTaskParams>(
            r#"{"channel":"c","text":"t","bot_token":"b","attachments":[1]}"#,
        );
        assert_eq!(told, "params.attachments[0]: an object <- number");
    }
}
