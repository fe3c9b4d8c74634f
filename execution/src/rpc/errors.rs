//! The one map from what went wrong to what a caller is told: code, HTTP status, words, `data`.
//!
//! Every reason is named, so a new one does not build until it has a code. Nothing of a request but
//! ids and names leaves here again, and nothing that happened inside: details go to the log.

mod access;
mod fault;
mod wire;
pub(crate) mod zone;

pub(crate) use access::{lacks_scope, not_operator, refused};
pub(crate) use fault::Fault;
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

/// The most characters of a name that is told back to its sender.
const LONGEST_ECHO: usize = 128;

/// What the hub's refusal is in a dialect. Dialects without codes of their own say no more than the
/// envelope's codes can.
pub(crate) fn to_wire(error: &HubError, dialect: Dialect) -> WireError {
    match dialect {
        Dialect::Acp => acp(error),
        Dialect::Zone => zone::of(error),
        Dialect::Cauce | Dialect::A2a => plain(error),
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
        .with(json!({
            "taskId": id.as_str(),
            "currentStatus": state.acp(),
            "suggestion": "create a new task",
        })),
        HubError::IllegalMove { from, .. } => WireError::new(
            codes::TASK_ALREADY_COMPLETED,
            ok,
            "The task cannot do this now",
            "illegal_move",
        )
        .with(json!({"currentStatus": from.acp(), "suggestion": "read the task with tasks.get"})),
        HubError::StreamNotFound(id) => unknown_stream(id.as_str()),
        HubError::StreamNotActive { id, state } => WireError::new(
            codes::STREAM_ALREADY_CLOSED,
            ok,
            if *state == interzone_protocol::vocab::StreamState::Closed {
                "Stream already closed"
            } else {
                "Stream takes no messages now"
            },
            "stream_not_active",
        )
        .with(json!({"streamId": id.as_str(), "currentStatus": state.name()})),
        HubError::AgentUnavailable => WireError::new(
            codes::AGENT_NOT_AVAILABLE,
            ok,
            "Agent not available",
            "agent_unavailable",
        )
        .with(json!({
            "reason": "no agent is available for this",
            "suggestion": "leave assignTo out, or name an agent that is there",
        })),
        HubError::NotAllowed => WireError::new(
            codes::PERMISSION_DENIED,
            StatusCode::FORBIDDEN,
            "Permission denied",
            "not_allowed",
        )
        .with(json!({"suggestion": "ask an operator"})),
        HubError::SubscriptionNotFound(_)
        | HubError::SubscriptionNotReady { .. }
        | HubError::TooLarge { .. }
        | HubError::TooMany { .. }
        | HubError::Invalid { .. }
        | HubError::Stopped
        | HubError::Contended
        | HubError::NoMemory
        | HubError::Store(_) => plain(error),
    }
}

/// What the envelope's own codes can say.
fn plain(error: &HubError) -> WireError {
    match error {
        HubError::TaskNotFound(_)
        | HubError::TaskFinished { .. }
        | HubError::IllegalMove { .. }
        | HubError::StreamNotFound(_)
        | HubError::StreamNotActive { .. }
        | HubError::AgentUnavailable
        | HubError::NotAllowed => invalid_params().and("reason", error.to_string()),
        HubError::SubscriptionNotFound(_) => field(
            "params.subscriptionId",
            "the id of a subscription of this task",
            "unknown id",
        ),
        HubError::SubscriptionNotReady { state, .. } => {
            invalid_params().and("currentStatus", state.name())
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
        HubError::NoMemory => unavailable("no_room"),
        HubError::Store(error) => store(error),
    }
}

fn store(error: &StoreError) -> WireError {
    match store_word(error) {
        (word, true) => unavailable(word),
        (word, false) if matches!(error, StoreError::InDoubt(_)) => unconfirmed(word),
        (word, false) => internal(word),
    }
}

/// The store went away in the middle of a write. No `retryAfter`: a caller that repeats it may do it twice.
fn unconfirmed(word: &'static str) -> WireError {
    WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        "Service unavailable; it is not known whether this was done",
        word,
    )
    .with(json!({zone::ERROR_CODE: "unavailable"}))
}

/// What is wrong with the store, for the log, and whether it will be right again.
fn store_word(error: &StoreError) -> (&'static str, bool) {
    match error {
        StoreError::Full => ("store_full", true),
        StoreError::Unavailable(_) => ("store_unavailable", true),
        StoreError::InDoubt(_) => ("store_in_doubt", false),
        StoreError::Unusable(_) => ("store_unusable", false),
        StoreError::Corrupt(_) => ("store_corrupt", false),
        // What the hub settles by itself; it is `non_exhaustive`, so there must be an answer to more.
        _ => ("store", false),
    }
}

/// There is no such task, as far as the caller may know.
pub(crate) fn unknown_task(id: &str) -> WireError {
    WireError::new(
        codes::TASK_NOT_FOUND,
        StatusCode::OK,
        "Task not found",
        "task_not_found",
    )
    .with(json!({"taskId": echo(id), "suggestion": "check the taskId"}))
}

/// There is no such stream, as far as the caller may know.
pub(crate) fn unknown_stream(id: &str) -> WireError {
    WireError::new(
        codes::STREAM_NOT_FOUND,
        StatusCode::OK,
        "Stream not found",
        "stream_not_found",
    )
    .with(json!({"streamId": echo(id), "suggestion": "check the streamId"}))
}

/// When a finished task was finished: the hub's refusal does not say.
pub(crate) fn finished_at(error: WireError, state: TaskState, at: Option<Timestamp>) -> WireError {
    let error = error.and("currentStatus", state.acp());
    match at {
        Some(at) => error.and("completedAt", at.to_string()),
        None => error,
    }
}

/// Params that do not fit, without a word on why.
fn invalid_params() -> WireError {
    WireError::new(
        ErrorCode::INVALID_PARAMS,
        StatusCode::OK,
        "Invalid params",
        "invalid_params",
    )
}

/// A member of the params that does not fit.
pub(crate) fn field(
    path: impl Into<String>,
    expected: impl Into<String>,
    received: impl Into<String>,
) -> WireError {
    invalid_params().with(json!({
        "field": path.into(),
        "expected": expected.into(),
        "received": received.into(),
    }))
}

/// A method that nobody has.
pub(crate) fn unknown_method(name: &str) -> WireError {
    WireError::new(
        ErrorCode::METHOD_NOT_FOUND,
        StatusCode::OK,
        "Method not found",
        "unknown_method",
    )
    .with(json!({"method": echo(name), zone::ERROR_CODE: "method_not_found"}))
}

/// Whoever asks too often.
pub(crate) fn too_fast(wait: Duration, limit: u32) -> WireError {
    let seconds = whole_seconds(wait);
    let mut error = WireError::new(
        codes::RATE_LIMITED,
        StatusCode::TOO_MANY_REQUESTS,
        "Rate limit exceeded",
        "rate_limited",
    )
    .with(json!({"retryAfter": seconds, "limit": limit}));
    error.retry_after = Some(seconds);
    error
}

/// Whoever has too many watches open. When one of them ends is theirs to know.
pub(crate) fn too_many_watches(limit: usize) -> WireError {
    WireError::new(
        codes::RATE_LIMITED,
        StatusCode::TOO_MANY_REQUESTS,
        "Too many watches are open",
        "too_many_watches",
    )
    .with(json!({"limit": limit, "suggestion": "close one first"}))
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Something is wrong with us. The word is for the log alone.
pub(crate) fn internal(word: &'static str) -> WireError {
    WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::INTERNAL_SERVER_ERROR,
        "Internal error",
        word,
    )
}

/// Something is wrong with us, and will be right again.
pub(crate) fn unavailable(word: &'static str) -> WireError {
    let mut error = WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        "Service unavailable; try again",
        word,
    )
    .with(json!({"retryAfter": 1, zone::ERROR_CODE: "unavailable"}));
    error.retry_after = Some(1);
    error
}

/// A call that took longer than any may.
pub(crate) fn took_too_long() -> WireError {
    WireError::new(
        ErrorCode::INTERNAL_ERROR,
        StatusCode::GATEWAY_TIMEOUT,
        "The call took too long and was given up; look before you repeat it",
        "too_slow",
    )
    .with(json!({zone::ERROR_CODE: "internal_error"}))
}

/// A request that the transport turns away before anybody reads it.
pub(crate) fn transport(
    http: StatusCode,
    message: impl Into<Cow<'static, str>>,
    word: &'static str,
) -> WireError {
    // Which dialect it would have been is not known, so it has what any of them asks for.
    WireError::new(ErrorCode::INVALID_REQUEST, http, message, word)
        .with(json!({zone::ERROR_CODE: "invalid_request"}))
}

/// A name as it may be told back: short.
fn echo(name: &str) -> String {
    let mut out: String = name.chars().take(LONGEST_ECHO).collect();
    if out.len() < name.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
