//! Reading what a zone answers, older forms too. Whatever form it came in, it leaves in ours: failures
//! as errors, the first file both among the artifacts and on its own.

use crate::error::{AnswerFault, Error, Refusal};
use crate::methods::plain;
use http::StatusCode;
use interzone_jsonrpc::{ErrorCode, RawJson};
use interzone_protocol::zone::{
    ArtifactPart, ErrorWord, ExecuteResult, ExecuteStatus, TaskOutcome, TaskResult,
    TaskResultStatus, WireFault, ZoneArtifact, codes,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a failure looked like before failures were errors.
#[derive(Deserialize)]
struct Older {
    status: String,
    #[serde(default)]
    error_code: Option<String>,
    #[serde(default, alias = "message", alias = "response_text")]
    error_message: Option<String>,
}

/// The result of `execute_task`.
pub(crate) fn executed(result: &RawJson<'_>) -> Result<ExecuteResult, Error> {
    if let Some(failure) = older_failure(result) {
        return Err(failure.into());
    }
    let read: ExecuteResult = plain(result)?;
    if read.status == ExecuteStatus::Accepted && read.task_id.is_none() {
        return Err(AnswerFault::Result("it is accepted without a task_id".to_owned()).into());
    }
    Ok(whole(read))
}

fn older_failure(result: &RawJson<'_>) -> Option<Refusal> {
    let older: Older = result.decode().ok()?;
    if older.status != "error" {
        return None;
    }
    let word = older
        .error_code
        .unwrap_or_else(|| ErrorWord::AgentFailed.name().to_owned());
    let code = ErrorWord::from_name(&word).map_or(codes::DOMAIN, ErrorWord::code);
    let message = older.error_message.unwrap_or_else(|| word.clone());
    Some(refusal(code, message, word_data(&word)))
}

/// The same result with everything in every place where it may be looked for.
fn whole(mut result: ExecuteResult) -> ExecuteResult {
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

/// The result of `get_task_result`.
pub(crate) fn task_outcome(result: &RawJson<'_>) -> Result<TaskOutcome, Error> {
    /// Its `result` is read apart, for it may have an older form.
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, default)]
        result: Option<RawJson<'a>>,
    }
    let older = || {
        let raw: Raw<'_> = result.decode_borrowed().ok()?;
        older_failure(&raw.result?)
    };
    if let Some(failure) = older() {
        return Ok(TaskOutcome::Failed(WireFault {
            code: failure.code.get().into(),
            message: failure.message,
            data: failure.data.and_then(|data| data.decode().ok()),
        }));
    }
    let read: TaskResult = plain(result)?;
    let lacks = |what: &str| Error::from(AnswerFault::Result(format!("it carries no {what}")));
    match read.status {
        TaskResultStatus::Running => Ok(TaskOutcome::Running(read.progress)),
        TaskResultStatus::Completed => {
            let done = read.result.ok_or_else(|| lacks("result"))?;
            Ok(TaskOutcome::Done(Box::new(whole(done))))
        }
        TaskResultStatus::Failed => {
            let fault = read.error.ok_or_else(|| lacks("error"))?;
            Ok(TaskOutcome::Failed(fault))
        }
    }
}

/// The error that a task ended with, as if the call had failed with it.
pub(crate) fn failed(fault: WireFault) -> Refusal {
    let code = i32::try_from(fault.code).map_or(codes::DOMAIN, ErrorCode::new);
    let data = fault.data.as_ref().and_then(|data| RawJson::of(data).ok());
    let mut refusal = refusal(code, fault.message, data);
    if refusal.detail::<String>("error_code").is_none() && refusal.data.is_none() {
        refusal.data = word_data(ErrorWord::AsyncTaskFailed.name());
    }
    refusal
}

fn refusal(code: ErrorCode, message: String, data: Option<RawJson<'static>>) -> Refusal {
    Refusal {
        code,
        message,
        data,
        status: StatusCode::OK,
        retry_after: None,
    }
}

fn word_data(word: &str) -> Option<RawJson<'static>> {
    RawJson::of(&BTreeMap::from([("error_code", word)])).ok()
}
