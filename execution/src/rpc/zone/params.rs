//! Params of the zones: what must be there, and how long anything may be. What is wrong is told by its
//! name, never by its value.

use crate::rpc::errors::{Fault, zone};
use crate::rpc::params::read;
use interzone_jsonrpc::{Kind, RawJson};
use interzone_protocol::vocab::Json;
use interzone_protocol::zone::{Attachment, ExecuteTaskParams, FeedbackParams, TaskIdParams};
use std::collections::BTreeMap;

/// The most bytes of an id or a name.
const LONGEST_NAME: usize = 1_024;
/// The most bytes of a text: far more than anybody types, far less than a body.
const LONGEST_TEXT: usize = 1024 * 1024;
/// The most bytes of an address.
const LONGEST_URL: usize = 16 * 1024;
/// The most attachments that are looked at; how many are taken is decided later.
const MOST_ATTACHMENTS: usize = 64;
/// The most messages of what was said before.
const MOST_CONTEXT: usize = 500;

/// Reads the params of `execute_task`.
pub(in crate::rpc) fn execute(raw: Option<&RawJson<'_>>) -> Result<ExecuteTaskParams, Fault> {
    let params = match read::<ExecuteTaskParams>(raw) {
        Ok(params) => params,
        // What is not there at all is told first, and all of it at once.
        Err(fault) => {
            return Err(match raw {
                Some(raw) if raw.kind() != Kind::Object => fault,
                _ => absent(raw.map_or("{}", RawJson::as_str)).unwrap_or(fault),
            });
        }
    };
    blank(&params)?;
    bounded(&params)?;
    Ok(params)
}

/// Reads the params of a method that names a task.
pub(in crate::rpc) fn task_id(raw: Option<&RawJson<'_>>) -> Result<TaskIdParams, Fault> {
    let params: TaskIdParams = read(raw).map_err(|fault| lacking(raw, &[TASK_ID], fault))?;
    match params.task_id.trim().is_empty() {
        true => Err(zone::missing(&[TASK_ID], false).into()),
        false => Ok(params),
    }
}

/// Reads the params of `interzone.feedback`.
pub(in crate::rpc) fn feedback(raw: Option<&RawJson<'_>>) -> Result<FeedbackParams, Fault> {
    const REQUIRED: [&str; 3] = [TASK_ID, "user_id", "verdict"];
    let mut params: FeedbackParams = read(raw).map_err(|fault| lacking(raw, &REQUIRED, fault))?;
    let blank = [(TASK_ID, &params.task_id), ("user_id", &params.user_id)];
    let blank = blank.into_iter().filter(|(_, text)| text.trim().is_empty());
    let blank: Vec<&str> = blank.map(|(name, _)| name).collect();
    if !blank.is_empty() {
        return Err(zone::missing(&blank, false).into());
    }
    if params.user_id.chars().any(char::is_control) {
        return Err(zone::field("params.user_id", "a name", "something else").into());
    }
    params.comment = params.comment.filter(|comment| !comment.trim().is_empty());
    Ok(params)
}

/// What is to be said of params that do not fit: those that are not there at all come first.
fn lacking(raw: Option<&RawJson<'_>>, required: &[&str], fault: Fault) -> Fault {
    let members = match raw {
        None => Some(BTreeMap::new()),
        Some(raw) => serde_json::from_str::<BTreeMap<String, Json>>(raw.as_str()).ok(),
    };
    let Some(members) = members else {
        return fault;
    };
    let is_absent = |name: &&str| members.get(*name).is_none_or(Json::is_null);
    let missing: Vec<&str> = required.iter().copied().filter(is_absent).collect();
    match missing.is_empty() {
        true => fault,
        false => zone::missing(&missing, false).into(),
    }
}

const TASK_ID: &str = "task_id";

/// What must be there and is not, whatever else is wrong.
fn absent(text: &str) -> Option<Fault> {
    let members: BTreeMap<String, Json> = serde_json::from_str(text).ok()?;
    let text_of = |name: &str| members.get(name).filter(|value| !value.is_null());
    let attached = text_of("attachments").is_some_and(|list| {
        let list: Result<Vec<Json>, _> = list.decode();
        list.is_ok_and(|list| !list.is_empty())
    });
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|name| match text_of(name) {
            None => true,
            Some(value) => {
                let text: Result<String, _> = value.decode();
                let may_be_blank = *name == "text" && attached;
                !may_be_blank && text.is_ok_and(|text| text.trim().is_empty())
            }
        })
        .collect();
    (!missing.is_empty()).then(|| zone::missing(&missing, false).into())
}

const REQUIRED: [&str; 3] = ["channel", "text", "bot_token"];

/// What is there and says nothing.
fn blank(params: &ExecuteTaskParams) -> Result<(), Fault> {
    let attached = params.attachments.as_ref().is_some_and(|a| !a.is_empty());
    let blank = [
        params.channel.trim().is_empty(),
        params.text.trim().is_empty() && !attached,
        params.bot_token.is_blank(),
    ];
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .zip(blank)
        .filter_map(|(name, blank)| blank.then_some(name))
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        ["text"] => Err(zone::missing(&missing, true).into()),
        _ => Err(zone::missing(&missing, false).into()),
    }
}

fn bounded(params: &ExecuteTaskParams) -> Result<(), Fault> {
    at_most("params.channel", Some(&params.channel), LONGEST_NAME)?;
    at_most("params.text", Some(&params.text), LONGEST_TEXT)?;
    for (name, value) in [
        ("params.correlation_id", &params.correlation_id),
        ("params.thread_ts", &params.thread_ts),
        ("params.team_id", &params.team_id),
        ("params.user_id", &params.user_id),
        ("params.task_id", &params.task_id),
    ] {
        at_most(name, value.as_deref(), LONGEST_NAME)?;
    }
    let attachments = params.attachments.as_deref().unwrap_or_default();
    count("params.attachments", attachments.len(), MOST_ATTACHMENTS)?;
    for (index, attachment) in attachments.iter().enumerate() {
        bounded_attachment(index, attachment)?;
    }
    let context = params.context.as_deref().unwrap_or_default();
    count("params.context", context.len(), MOST_CONTEXT)?;
    for (index, said) in context.iter().enumerate() {
        let place = |member: &str| format!("params.context[{index}].{member}");
        at_most(place("user"), said.user.as_deref(), LONGEST_NAME)?;
        at_most(place("text"), Some(&said.text), LONGEST_TEXT)?;
    }
    Ok(())
}

fn bounded_attachment(index: usize, attachment: &Attachment) -> Result<(), Fault> {
    let place = |member: &str| format!("params.attachments[{index}].{member}");
    at_most(place("id"), attachment.id.as_deref(), LONGEST_NAME)?;
    at_most(place("name"), Some(&attachment.name), LONGEST_NAME)?;
    at_most(place("mimetype"), Some(&attachment.mimetype), LONGEST_NAME)?;
    let url = attachment.presigned_url.as_deref();
    at_most(place("presigned_url"), url, LONGEST_URL)
}

fn at_most(place: impl Into<String>, text: Option<&str>, most: usize) -> Result<(), Fault> {
    if text.map_or(0, str::len) <= most {
        return Ok(());
    }
    let expected = format!("at most {most} bytes");
    Err(zone::field(place, expected, "more than that").into())
}

fn count(place: &str, count: usize, most: usize) -> Result<(), Fault> {
    if count <= most {
        return Ok(());
    }
    Err(zone::field(place, format!("at most {most}"), "more than that").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::errors::zone::dressed;
    use serde_json::{Value, json};

    fn fault(params: &Value) -> String {
        let text = params.to_string();
        let raw = RawJson::parse(&text).unwrap();
        let Err(Fault::Wire(error)) = execute(Some(&raw)) else {
            panic!("{text:.80} should not fit")
        };
        let error = dressed(*error);
        format!("{} {}", error.code.get(), error.data.unwrap())
    }

    #[test]
    fn what_is_wrong_is_told_by_name_and_never_by_value() {
        let good = |more: Value| {
            let mut params = json!({"channel": "C1", "text": "hi", "bot_token": "secret-t"});
            let members = more.as_object().unwrap().clone();
            params.as_object_mut().unwrap().extend(members);
            params
        };
        let file = |more: Value| {
            let mut file = json!({"name": "a", "mimetype": "text/csv"});
            let members = more.as_object().unwrap().clone();
            file.as_object_mut().unwrap().extend(members);
            good(json!({"attachments": [file]}))
        };
        let long = "secret".repeat(200_000);
        let told = [
            fault(&json!([1])),
            fault(&json!({})),
            fault(&json!({"channel": "C1"})),
            fault(&json!({"channel": null, "text": "hi", "bot_token": "secret-t"})),
            fault(&json!({"channel": " ", "text": "\n", "bot_token": ""})),
            fault(&json!({"channel": 7, "text": ["secret"]})),
            fault(&good(json!({"text": "  "}))),
            fault(&good(json!({"text": " ", "attachments": []}))),
            fault(&good(json!({"channel": 7}))),
            fault(&good(json!({"text": {"secret": 1}}))),
            fault(&good(json!({"bot_token": 9}))),
            fault(&good(json!({"thread_ts": 1.5}))),
            fault(&good(json!({"attachments": "secret"}))),
            fault(&good(json!({"attachments": [{"name": "secret"}]}))),
            fault(&file(json!({"size": -1}))),
            fault(&file(json!({"size": "secret"}))),
            fault(&file(json!({"name": long}))),
            fault(&file(json!({"presigned_url": long}))),
            fault(&good(
                json!({"context": [{"role": "boss", "text": "secret"}]}),
            )),
            fault(&good(json!({"context": [{"role": "user"}]}))),
            fault(&good(json!({"text": long}))),
            fault(&good(json!({"channel": long}))),
            fault(&good(json!({"task_id": long}))),
            fault(&good(
                json!({"attachments": vec![json!({"name": "a", "mimetype": "b"}); 65]}),
            )),
            fault(&good(
                json!({"context": vec![json!({"role": "user", "text": "x"}); 501]}),
            )),
        ];
        assert!(told.iter().all(|line| !line.contains("secret")));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_task_that_is_not_named_is_missing() {
        let told = |text: Option<&str>| {
            let raw = text.map(|text| RawJson::parse(text).unwrap());
            match task_id(raw.as_ref()) {
                Ok(params) => params.task_id,
                Err(Fault::Wire(error)) => dressed(*error).data.unwrap().to_string(),
                Err(_) => panic!("{text:?} is no fault of the hub"),
            }
        };
        let missing = r#"{"error_code":"invalid_params","missing":["task_id"]}"#;
        for absent in [
            None,
            Some("{}"),
            Some(r#"{"task_id":null}"#),
            Some(r#"{"task_id":" "}"#),
            Some(r#"{"other":1}"#),
        ] {
            assert_eq!(told(absent), missing, "{absent:?}");
        }
        assert_eq!(told(Some(r#"{"task_id":"t1"}"#)), "t1");
        for wrong in ["[]", r#"{"task_id":7}"#] {
            let told = told(Some(wrong));
            assert!(
                told.contains("expected") && !told.contains("missing"),
                "{told}"
            );
        }
    }

    #[test]
    fn what_lacks_of_feedback_is_told_at_once() {
        let told = |text: &str| {
            let raw = RawJson::parse(text).unwrap();
            match feedback(Some(&raw)) {
                Ok(params) => format!("{:?} {:?}", params.verdict, params.comment),
                Err(Fault::Wire(error)) => dressed(*error).data.unwrap().to_string(),
                Err(_) => panic!("{text} is no fault of the hub"),
            }
        };
        let told = [
            told("{}"),
            told(r#"{"task_id":"t","verdict":null}"#),
            told(r#"{"task_id":" ","user_id":"","verdict":"up"}"#),
            told(r#"{"task_id":"t","user_id":"U1","verdict":"secret"}"#),
            told(r#"{"task_id":"t","user_id":"U\u0000","verdict":"up"}"#),
            told(r#"{"task_id":"t","user_id":"U1","verdict":"up","given_at":"secret"}"#),
            told(r#"{"task_id":"t","user_id":"U1","verdict":"up","comment":" "}"#),
            told(r#"{"task_id":"t","user_id":"U1","verdict":"down","comment":"too long","x":1}"#),
        ];
        assert!(told.iter().all(|line| !line.contains("secret")));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn text_may_be_blank_beside_an_attachment() {
        let text = json!({"channel": "C1", "text": "", "bot_token": "t", "more": 1,
            "user_id": null, "attachments": [{"name": "a", "mimetype": "text/csv"}]})
        .to_string();
        let raw = RawJson::parse(&text).unwrap();
        assert!(execute(Some(&raw)).is_ok());
    }
}
