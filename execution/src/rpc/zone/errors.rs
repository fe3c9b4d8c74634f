//! Errors of the zone dialect: each has a reason of the contract, with its code and message. The Verification Zone
//! decides what the user sees.

use crate::rpc::acp;
use crate::rpc::errors::{
    AuthUrls, CallError, WireError, store_label, truncate_echo, with_field_path,
};
use axum::http::StatusCode;
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes::RATE_LIMITED;
use interzone_protocol::zone::{ErrorReason, codes};
use serde_json::{Value, json};
use std::time::Duration;

/// Field of `data` that every error has.
pub(crate) const ERROR_CODE_FIELD: &str = "error_code";

/// Maximum characters of an agent's failure text that are forwarded.
const MAX_DETAIL_CHARS: usize = 2_000;

/// Maps an error of a call. Authorization errors keep ACP's codes, and so do errors of calls that were never run.
pub(super) fn map_error(error: &CallError, urls: AuthUrls<'_>) -> WireError {
    match error {
        CallError::Hub(error) => {
            let wire = with_field_path(from_hub(error), error, |what| {
                field_path(what).map(str::to_owned)
            });
            adapt_to_zone(wire)
        }
        CallError::RateLimited { retry_after, limit } => rate_limited(*retry_after, *limit),
        CallError::Busy(_) | CallError::Transport { .. } => {
            acp::errors::map_error(None, error, urls)
        }
        CallError::Authentication(_)
        | CallError::MissingScope { .. }
        | CallError::UnknownMethod(_)
        | CallError::InvalidParams(_)
        | CallError::CannotStream
        | CallError::Internal(_)
        | CallError::Wire(_) => adapt_to_zone(acp::errors::map_error(None, error, urls)),
    }
}

/// Returns the JSON path of a field that the hub rejected: several params make up the message.
fn field_path(what: &str) -> Option<&'static str> {
    match what {
        "the message" | "parts" => Some("params.attachments"),
        "messages of a task" => Some("params.context"),
        "metadata" => Some("params"),
        "the user" => Some("params.user_id"),
        "the comment" => Some("params.comment"),
        "feedback of a task" => Some("params.task_id"),
        _ => None,
    }
}

/// Builds the error of a reason.
pub(crate) fn from_reason(reason: ErrorReason) -> WireError {
    let http = match reason {
        ErrorReason::ParseError | ErrorReason::InvalidRequest => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    WireError::new(reason.code(), http, message_for(reason), reason.name())
        .with_data(json!({ERROR_CODE_FIELD: reason.name()}))
}

/// Maps a hub error.
pub(crate) fn from_hub(error: &HubError) -> WireError {
    match error {
        HubError::TaskNotFound(id) => unknown_task(id.as_str()),
        HubError::TaskFinished { id, state } => from_reason(ErrorReason::TaskFinished)
            .with_field("task_id", id.as_str())
            .with_field("state", state.name()),
        HubError::IllegalTransition { from, .. } => {
            from_reason(ErrorReason::TaskNotWaiting).with_field("state", from.name())
        }
        HubError::AgentUnavailable => from_reason(ErrorReason::AgentUnavailable),
        HubError::NotAllowed => from_reason(ErrorReason::AccessDenied),
        HubError::TooLarge { what, limit } => {
            field(*what, format!("at most {limit} bytes"), "more than that")
        }
        HubError::TooMany { what, limit } => {
            field(*what, format!("at most {limit}"), "more than that")
        }
        HubError::Invalid {
            field: name,
            reason,
        } => field(*name, *reason, "something else"),
        HubError::Contended => unavailable("contended"),
        HubError::NoMemory => unavailable("memory_limit"),
        HubError::Stopped => internal("stopped"),
        HubError::Store(error) => match store_label(error) {
            (label, true) => unavailable(label),
            // It is unknown if the write succeeded, but a retry finds the same task.
            (label, false) if matches!(error, StoreError::InDoubt(_)) => unavailable(label),
            (label, false) => internal(label),
        },
        // The zone dialect has no methods for streams and subscriptions, its calls name no context, and its idempotency
        // keys contain the hash of the call.
        HubError::ContextMismatch(_)
        | HubError::IdempotencyKeyReused
        | HubError::StreamNotFound(_)
        | HubError::StreamNotActive { .. }
        | HubError::SubscriptionNotFound(_)
        | HubError::SubscriptionNotReady { .. } => internal("not_a_task"),
    }
}

/// Task does not exist or is not visible to the caller.
pub(crate) fn unknown_task(id: &str) -> WireError {
    from_reason(ErrorReason::TaskNotFound).with_field("task_id", truncate_echo(id))
}

/// Required params that are absent or blank. An empty question is the user's mistake and has a reason of its own;
/// anything else is the caller's.
pub(crate) fn missing_params(names: &[&str], is_empty_question: bool) -> WireError {
    let reason = if is_empty_question {
        ErrorReason::MissingText
    } else {
        ErrorReason::InvalidParams
    };
    from_reason(reason).with_field("missing", names.to_vec())
}

/// Invalid value of a params field.
pub(crate) fn field(
    path: impl Into<String>,
    expected: impl Into<String>,
    received: impl Into<String>,
) -> WireError {
    from_reason(ErrorReason::InvalidParams)
        .with_field("field", path.into())
        .with_field("expected", expected.into())
        .with_field("received", received.into())
}

/// Maps a task failure by the code that its agent set, if agents may use it. The agent's message is forwarded,
/// truncated.
pub(crate) fn from_agent_failure(code: Option<&str>, detail: Option<&str>) -> WireError {
    let reason = match code {
        Some("agent_timeout") => ErrorReason::AsyncTimeout,
        Some(name) => ErrorReason::from_name(name)
            .filter(|reason| is_agent_reason(*reason))
            .unwrap_or(ErrorReason::AgentFailed),
        None => ErrorReason::AgentFailed,
    };
    with_detail(from_reason(reason), detail)
}

/// Adds the agent's message to an error.
pub(crate) fn with_detail(error: WireError, detail: Option<&str>) -> WireError {
    let detail = detail.map(str::trim).filter(|said| !said.is_empty());
    match detail {
        Some(detail) => error.with_field(
            "detail",
            detail.chars().take(MAX_DETAIL_CHARS).collect::<String>(),
        ),
        None => error,
    }
}

/// True if agents may use a reason: those of the envelope and of task state are reserved.
fn is_agent_reason(reason: ErrorReason) -> bool {
    let is_agent_code = [codes::DOMAIN, codes::TIMEOUT].contains(&reason.code());
    let reserved = [
        ErrorReason::TaskFinished,
        ErrorReason::TaskNotFound,
        ErrorReason::Canceled,
    ];
    is_agent_code && !reserved.contains(&reason)
}

/// Rate limit exceeded.
pub(crate) fn rate_limited(wait: Duration, limit: u32) -> WireError {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let mut error = from_reason(ErrorReason::RateLimited)
        .with_field("retry_after", seconds)
        .with_field("limit", limit);
    error.retry_after = Some(seconds);
    error
}

fn internal(label: &'static str) -> WireError {
    WireError {
        label,
        ..from_reason(ErrorReason::InternalError)
    }
}

fn unavailable(label: &'static str) -> WireError {
    let mut error = from_reason(ErrorReason::Unavailable).with_field("retry_after", 1);
    error.label = label;
    error.retry_after = Some(1);
    error
}

/// Adapts an error of another dialect. Authorization errors keep ACP's codes.
pub(crate) fn adapt_to_zone(error: WireError) -> WireError {
    let has_error_code = |data: &Value| data.get(ERROR_CODE_FIELD).is_some();
    let is_zone_error = error.data.as_ref().is_some_and(has_error_code);
    match error.code {
        _ if is_zone_error && error.http == StatusCode::OK => error,
        ErrorCode::INTERNAL_ERROR if error.retry_after.is_some() => unavailable(error.label),
        ErrorCode::INTERNAL_ERROR => internal(error.label),
        ErrorCode::INVALID_PARAMS => {
            error.with_field(ERROR_CODE_FIELD, ErrorReason::InvalidParams.name())
        }
        ErrorCode::METHOD_NOT_FOUND => {
            error.with_field(ERROR_CODE_FIELD, ErrorReason::MethodNotFound.name())
        }
        ErrorCode::PARSE_ERROR => {
            error.with_field(ERROR_CODE_FIELD, ErrorReason::ParseError.name())
        }
        ErrorCode::INVALID_REQUEST => {
            error.with_field(ERROR_CODE_FIELD, ErrorReason::InvalidRequest.name())
        }
        RATE_LIMITED => WireError {
            http: StatusCode::OK,
            code: ErrorReason::RateLimited.code(),
            ..error.with_field(ERROR_CODE_FIELD, ErrorReason::RateLimited.name())
        },
        _ => {
            let label = error.label;
            error.with_field(ERROR_CODE_FIELD, label)
        }
    }
}

/// Returns the message of a reason, for developers.
const fn message_for(reason: ErrorReason) -> &'static str {
    match reason {
        ErrorReason::ParseError => "Parse error",
        ErrorReason::InvalidRequest => "Invalid Request",
        ErrorReason::MethodNotFound => "Method not found",
        ErrorReason::InvalidParams => "Invalid params",
        ErrorReason::InternalError => "Internal error",
        ErrorReason::Unavailable => "Service unavailable; try again",
        ErrorReason::ModelTimeout => "The model took too long",
        ErrorReason::AsyncTimeout => "The task took too long",
        ErrorReason::ModelThrottling => "The model is overloaded; try later",
        ErrorReason::Throttling => "The platform is overloaded; try later",
        ErrorReason::RateLimited => "Rate limit exceeded",
        ErrorReason::ModelAccessDenied => "Access to the model was denied",
        ErrorReason::AccessDenied => "Access denied",
        ErrorReason::InvalidResponse => "The response of the model cannot be used",
        ErrorReason::ResponseReadError => "The response was cut off",
        ErrorReason::AttachmentDownloadFailed => "An attachment could not be downloaded",
        ErrorReason::DownloadFailed => "A file could not be downloaded",
        ErrorReason::UrlNotAvailable => "An attachment has neither content nor an allowed URL",
        ErrorReason::FileTooLarge => "A file is too large",
        ErrorReason::FileBomb => "A file decompresses to too much data",
        ErrorReason::UnsupportedFileType => "A file type is not supported",
        ErrorReason::UnsupportedImageType => "An image type is not supported",
        ErrorReason::UnsupportedType => "A type is not supported",
        ErrorReason::ExtractionFailed => "A file could not be read",
        ErrorReason::FileEncrypted => "A file is password-protected",
        ErrorReason::FileReaderUnavailable => "File reading is temporarily unavailable; try again",
        ErrorReason::ToolFailure => "A file could not be generated",
        ErrorReason::AsyncTaskFailed => "The task failed",
        ErrorReason::PollError => "The result of the task could not be read",
        ErrorReason::MissingText => "There is neither text nor attachment",
        ErrorReason::Canceled => "The task was canceled",
        ErrorReason::AgentFailed => "The agent failed",
        ErrorReason::AgentRejected => "The agent rejected the task",
        ErrorReason::AgentUnavailable => "No agent is available for this",
        ErrorReason::TaskFinished => "The task is finished",
        ErrorReason::TaskNotWaiting => "The task is not waiting for an answer",
        ErrorReason::TaskNotFound => "Task not found",
    }
}
