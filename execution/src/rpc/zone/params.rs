//! Params of the zone dialect: required fields and size limits. Errors name the field, never the value.

use super::errors as zone;
use crate::rpc::errors::CallError;
use crate::rpc::params::read;
use interzone_jsonrpc::{JsonKind, RawJson};
use interzone_protocol::vocab::VerbatimJson;
use interzone_protocol::zone::{Attachment, ExecuteTaskParams, FeedbackParams, TaskIdParams};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// Maximum bytes of an id or a name.
const MAX_NAME_BYTES: usize = 1_024;
/// Maximum bytes of a text: far more than a user types, far less than a body.
const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// Maximum bytes of a URL.
const MAX_URL_BYTES: usize = 16 * 1024;
/// Maximum attachments of a call; the attachment loader applies lower limits later.
const MAX_ATTACHMENTS: usize = 64;
/// Maximum context messages.
const MAX_CONTEXT_MESSAGES: usize = 500;

/// Parses the params of `execute_task`.
pub(in crate::rpc) fn execute_task(
    raw: Option<&RawJson<'_>>,
) -> Result<ExecuteTaskParams, CallError> {
    let params = match read::<ExecuteTaskParams>(raw) {
        Ok(params) => params,
        // Missing fields are reported first, all at once.
        Err(error) => {
            return Err(match raw {
                Some(raw) if raw.kind() != JsonKind::Object => error,
                _ => missing_fields(raw.map_or("{}", RawJson::as_str)).unwrap_or(error),
            });
        }
    };
    check_blank(&params)?;
    check_limits(&params)?;
    Ok(params)
}

/// Parses the params of a method that only has a task id.
pub(in crate::rpc) fn task_id(raw: Option<&RawJson<'_>>) -> Result<TaskIdParams, CallError> {
    let params: TaskIdParams = read(raw).map_err(|error| missing_or(raw, &[TASK_ID], error))?;
    match params.task_id.trim().is_empty() {
        true => Err(zone::missing_params(&[TASK_ID], false).into()),
        false => Ok(params),
    }
}

/// Parses the params of `interzone.feedback`.
pub(in crate::rpc) fn feedback(raw: Option<&RawJson<'_>>) -> Result<FeedbackParams, CallError> {
    const REQUIRED: [&str; 3] = [TASK_ID, "user_id", "verdict"];
    let mut params: FeedbackParams =
        read(raw).map_err(|error| missing_or(raw, &REQUIRED, error))?;
    let blank = [(TASK_ID, &params.task_id), ("user_id", &params.user_id)];
    let blank = blank.into_iter().filter(|(_, text)| text.trim().is_empty());
    let blank: Vec<&str> = blank.map(|(name, _)| name).collect();
    if !blank.is_empty() {
        return Err(zone::missing_params(&blank, false).into());
    }
    if params.user_id.chars().any(char::is_control) {
        return Err(zone::field("params.user_id", "a name", "something else").into());
    }
    params.comment = params.comment.filter(|comment| !comment.trim().is_empty());
    Ok(params)
}

/// Returns the missing fields as error, if there are any, else the original error.
fn missing_or(raw: Option<&RawJson<'_>>, required: &[&str], error: CallError) -> CallError {
    let fields = match raw {
        None => Some(BTreeMap::new()),
        Some(raw) => serde_json::from_str::<BTreeMap<String, VerbatimJson>>(raw.as_str()).ok(),
    };
    let Some(fields) = fields else {
        return error;
    };
    let is_absent = |name: &&str| fields.get(*name).is_none_or(VerbatimJson::is_null);
    let missing: Vec<&str> = required.iter().copied().filter(is_absent).collect();
    match missing.is_empty() {
        true => error,
        false => zone::missing_params(&missing, false).into(),
    }
}

const TASK_ID: &str = "task_id";

/// Returns the missing fields as the error, even if other fields are invalid.
fn missing_fields(text: &str) -> Option<CallError> {
    let fields: BTreeMap<String, VerbatimJson> = serde_json::from_str(text).ok()?;
    let value_of = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let has_attachments = value_of("attachments").is_some_and(|list| {
        // `IgnoredAny` has no size: a list of millions must not take more memory than its text.
        let list: Result<Vec<IgnoredAny>, _> = list.decode();
        list.is_ok_and(|list| !list.is_empty())
    });
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|name| match value_of(name) {
            None => true,
            Some(value) => {
                let text: Result<String, _> = value.decode();
                let may_be_blank = *name == "text" && has_attachments;
                !may_be_blank && text.is_ok_and(|text| text.trim().is_empty())
            }
        })
        .collect();
    (!missing.is_empty()).then(|| zone::missing_params(&missing, false).into())
}

const REQUIRED: [&str; 3] = ["channel", "text", "bot_token"];

/// Checks that required fields are not blank.
fn check_blank(params: &ExecuteTaskParams) -> Result<(), CallError> {
    let has_attachments = params.attachments.as_ref().is_some_and(|a| !a.is_empty());
    let blank = [
        params.channel.trim().is_empty(),
        params.text.trim().is_empty() && !has_attachments,
        params.bot_token.is_blank(),
    ];
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .zip(blank)
        .filter_map(|(name, blank)| blank.then_some(name))
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        ["text"] => Err(zone::missing_params(&missing, true).into()),
        _ => Err(zone::missing_params(&missing, false).into()),
    }
}

fn check_limits(params: &ExecuteTaskParams) -> Result<(), CallError> {
    check_len("params.channel", Some(&params.channel), MAX_NAME_BYTES)?;
    check_len("params.text", Some(&params.text), MAX_TEXT_BYTES)?;
    for (name, value) in [
        ("params.correlation_id", &params.correlation_id),
        ("params.thread_ts", &params.thread_ts),
        ("params.team_id", &params.team_id),
        ("params.user_id", &params.user_id),
        ("params.task_id", &params.task_id),
    ] {
        check_len(name, value.as_deref(), MAX_NAME_BYTES)?;
    }
    let attachments = params.attachments.as_deref().unwrap_or_default();
    check_count("params.attachments", attachments.len(), MAX_ATTACHMENTS)?;
    for (index, attachment) in attachments.iter().enumerate() {
        check_attachment_limits(index, attachment)?;
    }
    let context = params.context.as_deref().unwrap_or_default();
    check_count("params.context", context.len(), MAX_CONTEXT_MESSAGES)?;
    for (index, message) in context.iter().enumerate() {
        let path = |field: &str| format!("params.context[{index}].{field}");
        check_len(path("user"), message.user.as_deref(), MAX_NAME_BYTES)?;
        check_len(path("text"), Some(&message.text), MAX_TEXT_BYTES)?;
    }
    Ok(())
}

fn check_attachment_limits(index: usize, attachment: &Attachment) -> Result<(), CallError> {
    let path = |field: &str| format!("params.attachments[{index}].{field}");
    check_len(path("id"), attachment.id.as_deref(), MAX_NAME_BYTES)?;
    check_len(path("name"), Some(&attachment.name), MAX_NAME_BYTES)?;
    check_len(path("mimetype"), Some(&attachment.mimetype), MAX_NAME_BYTES)?;
    let url = attachment.presigned_url.as_deref();
    check_len(path("presigned_url"), url, MAX_URL_BYTES)
}

fn check_len(path: impl Into<String>, text: Option<&str>, limit: usize) -> Result<(), CallError> {
    if text.map_or(0, str::len) <= limit {
        return Ok(());
    }
    let expected = format!("at most {limit} bytes");
    Err(zone::field(path, expected, "more than that").into())
}

fn check_count(path: &str, count: usize, limit: usize) -> Result<(), CallError> {
    if count <= limit {
        return Ok(());
    }
    Err(zone::field(path, format!("at most {limit}"), "more than that").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::errors::AuthUrls;
    use serde_json::{Value, json};

    const URLS: AuthUrls<'_> = AuthUrls {
        token: "",
        metadata: "",
    };

    fn error_line(params: &Value) -> String {
        let text = params.to_string();
        let raw = RawJson::parse(&text).unwrap();
        let Err(error) = execute_task(Some(&raw)) else {
            panic!("{text:.80} should not fit")
        };
        let error = zone::map_error(&error, URLS);
        format!("{} {}", error.code.get(), error.data.unwrap())
    }

    #[test]
    fn execute_task_params_errors_name_fields_not_values() {
        let valid_with = |more: Value| {
            let mut params = json!({"channel": "C1", "text": "hi", "bot_token": "secret-t"});
            let members = more.as_object().unwrap().clone();
            params.as_object_mut().unwrap().extend(members);
            params
        };
        let file_with = |more: Value| {
            let mut file = json!({"name": "a", "mimetype": "text/csv"});
            let members = more.as_object().unwrap().clone();
            file.as_object_mut().unwrap().extend(members);
            valid_with(json!({"attachments": [file]}))
        };
        let long = "secret".repeat(200_000);
        let lines = [
            error_line(&json!([1])),
            error_line(&json!({})),
            error_line(&json!({"channel": "C1"})),
            error_line(&json!({"channel": null, "text": "hi", "bot_token": "secret-t"})),
            error_line(&json!({"channel": " ", "text": "\n", "bot_token": ""})),
            error_line(&json!({"channel": 7, "text": ["secret"]})),
            error_line(&valid_with(json!({"text": "  "}))),
            error_line(&valid_with(json!({"text": " ", "attachments": []}))),
            error_line(&valid_with(json!({"channel": 7}))),
            error_line(&valid_with(json!({"text": {"secret": 1}}))),
            error_line(&valid_with(json!({"bot_token": 9}))),
            error_line(&valid_with(json!({"thread_ts": 1.5}))),
            error_line(&valid_with(json!({"attachments": "secret"}))),
            error_line(&valid_with(json!({"attachments": [{"name": "secret"}]}))),
            error_line(&file_with(json!({"size": -1}))),
            error_line(&file_with(json!({"size": "secret"}))),
            error_line(&file_with(json!({"name": long}))),
            error_line(&file_with(json!({"presigned_url": long}))),
            error_line(&valid_with(
                json!({"context": [{"role": "boss", "text": "secret"}]}),
            )),
            error_line(&valid_with(json!({"context": [{"role": "user"}]}))),
            error_line(&valid_with(json!({"text": long}))),
            error_line(&valid_with(json!({"channel": long}))),
            error_line(&valid_with(json!({"task_id": long}))),
            error_line(&valid_with(
                json!({"attachments": vec![json!({"name": "a", "mimetype": "b"}); 65]}),
            )),
            error_line(&valid_with(
                json!({"context": vec![json!({"role": "user", "text": "x"}); 501]}),
            )),
        ];
        assert!(lines.iter().all(|line| !line.contains("secret")));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn blank_task_id_is_reported_as_missing() {
        let parse = |text: Option<&str>| {
            let raw = text.map(|text| RawJson::parse(text).unwrap());
            match task_id(raw.as_ref()) {
                Ok(params) => params.task_id,
                Err(error) => zone::map_error(&error, URLS).data.unwrap().to_string(),
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
            assert_eq!(parse(absent), missing, "{absent:?}");
        }
        assert_eq!(parse(Some(r#"{"task_id":"t1"}"#)), "t1");
        for wrong in ["[]", r#"{"task_id":7}"#] {
            let error = parse(Some(wrong));
            assert!(
                error.contains("expected") && !error.contains("missing"),
                "{error}"
            );
        }
    }

    #[test]
    fn feedback_params_report_all_missing_fields() {
        let parse = |text: &str| {
            let raw = RawJson::parse(text).unwrap();
            match feedback(Some(&raw)) {
                Ok(params) => format!("{:?} {:?}", params.verdict, params.comment),
                Err(error) => zone::map_error(&error, URLS).data.unwrap().to_string(),
            }
        };
        let lines = [
            parse("{}"),
            parse(r#"{"task_id":"t","verdict":null}"#),
            parse(r#"{"task_id":" ","user_id":"","verdict":"up"}"#),
            parse(r#"{"task_id":"t","user_id":"U1","verdict":"secret"}"#),
            parse(r#"{"task_id":"t","user_id":"U\u0000","verdict":"up"}"#),
            parse(r#"{"task_id":"t","user_id":"U1","verdict":"up","given_at":"secret"}"#),
            parse(r#"{"task_id":"t","user_id":"U1","verdict":"up","comment":" "}"#),
            parse(r#"{"task_id":"t","user_id":"U1","verdict":"down","comment":"too long","x":1}"#),
        ];
        assert!(lines.iter().all(|line| !line.contains("secret")));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn text_may_be_blank_with_an_attachment() {
        let text = json!({"channel": "C1", "text": "", "bot_token": "t", "more": 1,
            "user_id": null, "attachments": [{"name": "a", "mimetype": "text/csv"}]})
        .to_string();
        let raw = RawJson::parse(&text).unwrap();
        assert!(execute_task(Some(&raw)).is_ok());
    }
}
