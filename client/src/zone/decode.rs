//! Decodes results of a zone, including legacy forms, and normalizes them: failures become errors, the first file
//! is both among the artifacts and in `file_artifact`.

use crate::error::{Error, InvalidResponse, RpcError};
use crate::methods::decode_plain;
use http::StatusCode;
use interzone_jsonrpc::{ErrorCode, RawJson};
use interzone_protocol::zone::{
    ArtifactPart, ErrorObject, ErrorReason, ExecuteResult, ExecuteStatus, TaskOutcome, TaskResult,
    TaskResultStatus, ZoneArtifact, codes,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Legacy form of a failed result.
#[derive(Deserialize)]
struct LegacyResult {
    status: String,
    #[serde(default)]
    error_code: Option<String>,
    #[serde(default, alias = "message", alias = "response_text")]
    error_message: Option<String>,
}

/// Decodes the result of `execute_task`.
pub(crate) fn decode_execute_result(result: &RawJson<'_>) -> Result<ExecuteResult, Error> {
    if let Some(failure) = decode_legacy_failure(result) {
        return Err(failure.into());
    }
    let decoded: ExecuteResult = decode_plain(result)?;
    if decoded.status == ExecuteStatus::Accepted && decoded.task_id.is_none() {
        return Err(
            InvalidResponse::InvalidResult("it is accepted but has no task_id".to_owned()).into(),
        );
    }
    Ok(normalize(decoded))
}

fn decode_legacy_failure(result: &RawJson<'_>) -> Option<RpcError> {
    let legacy: LegacyResult = result.decode().ok()?;
    if legacy.status != "error" {
        return None;
    }
    let reason = legacy
        .error_code
        .unwrap_or_else(|| ErrorReason::AgentFailed.name().to_owned());
    let code = ErrorReason::from_name(&reason).map_or(codes::DOMAIN, ErrorReason::code);
    let message = legacy.error_message.unwrap_or_else(|| reason.clone());
    Some(new_rpc_error(code, message, reason_data(&reason)))
}

/// Normalizes a result: fills in artifacts, `file_artifact` and `response_text` from each other.
fn normalize(mut result: ExecuteResult) -> ExecuteResult {
    let is_file = |artifact: &&ZoneArtifact| {
        matches!(artifact.parts.first(), Some(ArtifactPart::File { .. }))
    };
    match (&mut result.artifacts, &result.file_artifact) {
        (Some(artifacts), None) => {
            result.file_artifact = artifacts.iter().find(is_file).cloned();
        }
        (Some(artifacts), Some(file)) if !artifacts.iter().any(|artifact| is_file(&artifact)) => {
            artifacts.push(file.clone());
        }
        (None, Some(file)) => result.artifacts = Some(vec![file.clone()]),
        _ => {}
    }
    if result.response_text.is_none() {
        let artifacts = result.artifacts.iter().flatten();
        let mut parts = artifacts.flat_map(|artifact| &artifact.parts);
        result.response_text = parts.find_map(|part| match part {
            ArtifactPart::Text { text } => Some(text.clone()),
            ArtifactPart::File { .. } => None,
        });
    }
    result
}

/// Decodes the result of `get_task_result`.
pub(crate) fn decode_task_outcome(result: &RawJson<'_>) -> Result<TaskOutcome, Error> {
    /// The `result` member is decoded separately, because it may have a legacy form.
    #[derive(Deserialize)]
    struct RawTaskResult<'a> {
        #[serde(borrow, default)]
        result: Option<RawJson<'a>>,
    }
    let legacy_failure = || {
        let raw: RawTaskResult<'_> = result.decode_borrowed().ok()?;
        decode_legacy_failure(&raw.result?)
    };
    if let Some(failure) = legacy_failure() {
        return Ok(TaskOutcome::Failed(ErrorObject {
            code: failure.code.get().into(),
            message: failure.message,
            data: failure.data.and_then(|data| data.decode().ok()),
        }));
    }
    let decoded: TaskResult = decode_plain(result)?;
    let missing =
        |what: &str| Error::from(InvalidResponse::InvalidResult(format!("it has no {what}")));
    match decoded.status {
        TaskResultStatus::Running => Ok(TaskOutcome::Running(decoded.progress)),
        TaskResultStatus::Completed => {
            let result = decoded.result.ok_or_else(|| missing("result"))?;
            Ok(TaskOutcome::Done(Box::new(normalize(result))))
        }
        TaskResultStatus::Failed => {
            let error = decoded.error.ok_or_else(|| missing("error"))?;
            Ok(TaskOutcome::Failed(error))
        }
    }
}

/// Converts a task's error into the error of the call.
pub(crate) fn decode_failure(error: ErrorObject) -> RpcError {
    let code = i32::try_from(error.code).map_or(codes::DOMAIN, ErrorCode::new);
    let data = error
        .data
        .as_ref()
        .and_then(|data| RawJson::from_value(data).ok());
    let mut rpc_error = new_rpc_error(code, error.message, data);
    if rpc_error.data_field::<String>("error_code").is_none() && rpc_error.data.is_none() {
        rpc_error.data = reason_data(ErrorReason::AsyncTaskFailed.name());
    }
    rpc_error
}

fn new_rpc_error(code: ErrorCode, message: String, data: Option<RawJson<'static>>) -> RpcError {
    RpcError {
        code,
        message,
        data,
        status: StatusCode::OK,
        retry_after: None,
    }
}

fn reason_data(reason: &str) -> Option<RawJson<'static>> {
    RawJson::from_value(&BTreeMap::from([("error_code", reason)])).ok()
}
