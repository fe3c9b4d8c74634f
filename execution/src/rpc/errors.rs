//! The error map: JSON-RPC code, HTTP status, message and `data` of every error.
//!
//! Matches are exhaustive, so a new error does not compile without a code. Of a request only ids and names are
//! echoed, and internal details only go to the log.

mod access;
mod call_error;
mod wire;
pub(crate) mod zone;

pub(crate) use access::{authentication_error, insufficient_scope, not_operator};
pub(crate) use call_error::CallError;
pub(crate) use wire::WireError;

use axum::http::StatusCode;
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::Dialect;
use interzone_protocol::acp::codes;
use interzone_protocol::vocab::{TaskState, Timestamp};
use serde_json::json;
use std::borrow::Cow;
use std::time::Duration;

/// Maximum characters of a name that is echoed to its sender.
const MAX_ECHO_CHARS: usize = 128;

/// Maps a hub error to a dialect. Dialects without codes of their own use the generic JSON-RPC codes.
pub(crate) fn to_wire(error: &HubError, dialect: Dialect) -> WireError {
    match dialect {
        Dialect::Acp => acp(error),
        Dialect::Zone => zone::from_hub(error),
        Dialect::Cauce | Dialect::A2a => generic(error),
    }
}

fn acp(error: &HubError) -> WireError {
    let ok = StatusCode::OK;
    match error {
        HubError::TaskNotFound(id) => unknown_task(id.as_str()),
        HubError::TaskFinished { id, state } => WireError::new(
            codes::TASK_ALREADY_COMPLETED,
            ok,
            "Task already completed",
            "task_finished",
        )
        .with_data(json!({
            "taskId": id.as_str(),
            "currentStatus": state.acp(),
            "suggestion": "create a new task",
        })),
        HubError::IllegalTransition { from, .. } => WireError::new(
            codes::TASK_ALREADY_COMPLETED,
            ok,
            "The task cannot do this now",
            "illegal_move",
        )
        .with_data(
            json!({"currentStatus": from.acp(), "suggestion": "read the task with tasks.get"}),
        ),
        HubError::StreamNotFound(id) => unknown_stream(id.as_str()),
        HubError::StreamNotActive { id, state } => WireError::new(
            codes::STREAM_ALREADY_CLOSED,
            ok,
            if *state == interzone_protocol::vocab::StreamState::Closed {
                "Stream already closed"
            } else {
                "Stream accepts no messages now"
            },
            "stream_not_active",
        )
        .with_data(json!({"streamId": id.as_str(), "currentStatus": state.name()})),
        HubError::AgentUnavailable => WireError::new(
            codes::AGENT_NOT_AVAILABLE,
            ok,
            "Agent not available",
            "agent_unavailable",
        )
        .with_data(json!({
            "reason": "no agent is available for this",
            "suggestion": "omit assignTo, or name an available agent",
        })),
        HubError::NotAllowed => WireError::new(
            codes::PERMISSION_DENIED,
            StatusCode::FORBIDDEN,
            "Permission denied",
            "not_allowed",
        )
        .with_data(json!({"suggestion": "ask an operator"})),
        HubError::ContextMismatch(_)
        | HubError::IdempotencyKeyReused
        | HubError::SubscriptionNotFound(_)
        | HubError::SubscriptionNotReady { .. }
        | HubError::TooLarge { .. }
        | HubError::TooMany { .. }
        | HubError::Invalid { .. }
        | HubError::Stopped
        | HubError::Contended
        | HubError::NoMemory
        | HubError::Store(_) => generic(error),
    }
}

/// Maps a hub error to the generic JSON-RPC codes.
fn generic(error: &HubError) -> WireError {
    match error {
        HubError::TaskNotFound(_)
        | HubError::TaskFinished { .. }
        | HubError::IllegalTransition { .. }
        | HubError::ContextMismatch(_)
        | HubError::IdempotencyKeyReused
        | HubError::StreamNotFound(_)
        | HubError::StreamNotActive { .. }
        | HubError::AgentUnavailable
        | HubError::NotAllowed => invalid_params().with_field("reason", error.to_string()),
        HubError::SubscriptionNotFound(_) => field(
            "params.subscriptionId",
            "the id of a subscription of this task",
            "unknown id",
        ),
        HubError::SubscriptionNotReady { state, .. } => {
            invalid_params().with_field("currentStatus", state.name())
        }
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
        HubError::Stopped => internal("stopped"),
        HubError::Contended => unavailable("contended"),
        HubError::NoMemory => unavailable("memory_limit"),
        HubError::Store(error) => store_error(error),
    }
}

fn store_error(error: &StoreError) -> WireError {
    match store_label(error) {
        (label, true) => unavailable(label),
        (label, false) if matches!(error, StoreError::InDoubt(_)) => outcome_unknown(label),
        (label, false) => internal(label),
    }
}

/// Error if the store became unavailable during a write. No `retryAfter`: a retry may execute the call twice.
fn outcome_unknown(label: &'static str) -> WireError {
    WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        "Service unavailable; the outcome of this call is unknown",
        label,
    )
    .with_data(json!({zone::ERROR_CODE_FIELD: "unavailable"}))
}

/// Returns the label of a store error, and true if it is transient.
fn store_label(error: &StoreError) -> (&'static str, bool) {
    match error {
        StoreError::Full => ("store_full", true),
        StoreError::Unavailable(_) => ("store_unavailable", true),
        StoreError::InDoubt(_) => ("store_in_doubt", false),
        StoreError::Unusable(_) => ("store_unusable", false),
        StoreError::Corrupt(_) => ("store_corrupt", false),
        // Handled by the hub; the enum is `non_exhaustive`.
        _ => ("store", false),
    }
}

/// Task does not exist or is not visible to the caller.
pub(crate) fn unknown_task(id: &str) -> WireError {
    WireError::new(
        codes::TASK_NOT_FOUND,
        StatusCode::OK,
        "Task not found",
        "task_not_found",
    )
    .with_data(json!({"taskId": truncate_echo(id), "suggestion": "check the taskId"}))
}

/// Stream does not exist or is not visible to the caller.
pub(crate) fn unknown_stream(id: &str) -> WireError {
    WireError::new(
        codes::STREAM_NOT_FOUND,
        StatusCode::OK,
        "Stream not found",
        "stream_not_found",
    )
    .with_data(json!({"streamId": truncate_echo(id), "suggestion": "check the streamId"}))
}

/// Adds the status and end time of a finished task, which the hub's error does not contain.
pub(crate) fn with_finished_at(
    error: WireError,
    state: TaskState,
    at: Option<Timestamp>,
) -> WireError {
    let error = error.with_field("currentStatus", state.acp());
    match at {
        Some(at) => error.with_field("completedAt", at.to_string()),
        None => error,
    }
}

/// Invalid params without details.
fn invalid_params() -> WireError {
    WireError::new(
        ErrorCode::INVALID_PARAMS,
        StatusCode::OK,
        "Invalid params",
        "invalid_params",
    )
}

/// Invalid value of a params field.
pub(crate) fn field(
    path: impl Into<String>,
    expected: impl Into<String>,
    received: impl Into<String>,
) -> WireError {
    invalid_params().with_data(json!({
        "field": path.into(),
        "expected": expected.into(),
        "received": received.into(),
    }))
}

/// Unknown method.
pub(crate) fn unknown_method(name: &str) -> WireError {
    WireError::new(
        ErrorCode::METHOD_NOT_FOUND,
        StatusCode::OK,
        "Method not found",
        "unknown_method",
    )
    .with_data(json!({"method": truncate_echo(name), zone::ERROR_CODE_FIELD: "method_not_found"}))
}

/// Rate limit exceeded.
pub(crate) fn rate_limited(wait: Duration, limit: u32) -> WireError {
    let seconds = ceil_seconds(wait);
    let mut error = WireError::new(
        codes::RATE_LIMITED,
        StatusCode::TOO_MANY_REQUESTS,
        "Rate limit exceeded",
        "rate_limited",
    )
    .with_data(json!({"retryAfter": seconds, "limit": limit}));
    error.retry_after = Some(seconds);
    error
}

/// Watch limit reached. No `Retry-After`: only the caller knows when one of its watches ends.
pub(crate) fn too_many_watches(limit: usize) -> WireError {
    WireError::new(
        codes::RATE_LIMITED,
        StatusCode::TOO_MANY_REQUESTS,
        "Too many watches are open",
        "too_many_watches",
    )
    .with_data(json!({"limit": limit, "suggestion": "close one first"}))
}

fn ceil_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Internal error. The label is for log and metrics only.
pub(crate) fn internal(label: &'static str) -> WireError {
    WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::INTERNAL_SERVER_ERROR,
        "Internal error",
        label,
    )
}

/// Transient internal error, with `Retry-After`.
pub(crate) fn unavailable(label: &'static str) -> WireError {
    let mut error = WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        "Service unavailable; try again",
        label,
    )
    .with_data(json!({"retryAfter": 1, zone::ERROR_CODE_FIELD: "unavailable"}));
    error.retry_after = Some(1);
    error
}

/// Call that exceeded the request timeout.
pub(crate) fn timed_out() -> WireError {
    WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::GATEWAY_TIMEOUT,
        "The call timed out; check its outcome before you retry",
        "too_slow",
    )
    .with_data(json!({zone::ERROR_CODE_FIELD: "internal_error"}))
}

/// Request that the transport rejects before it is parsed.
pub(crate) fn transport(
    http: StatusCode,
    message: impl Into<Cow<'static, str>>,
    label: &'static str,
) -> WireError {
    // The dialect is unknown, so it has the fields of all dialects.
    WireError::new(ErrorCode::INVALID_REQUEST, http, message, label)
        .with_data(json!({zone::ERROR_CODE_FIELD: "invalid_request"}))
}

/// Truncates a name for echoing.
fn truncate_echo(name: &str) -> String {
    let mut out: String = name.chars().take(MAX_ECHO_CHARS).collect();
    if out.len() < name.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
