//! The one map from what went wrong to what a caller is told: code, HTTP status, words, `data`.
//!
//! Every reason is named, so a new one does not build until it has a code. Nothing of a request but
//! ids and names leaves here again, and nothing that happened inside: details go to the log.

mod fault;
mod wire;

pub(crate) use fault::Fault;
pub(crate) use wire::WireError;

use axum::http::StatusCode;
use interzone_edge::auth::Refusal;
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::Dialect;
use interzone_protocol::acp::{Scope, codes};
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
        Dialect::Zone | Dialect::Cauce | Dialect::A2a => plain(error),
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
        HubError::Store(error) => store(error),
    }
}

fn store(error: &StoreError) -> WireError {
    match error {
        StoreError::Full => unavailable("store_full"),
        StoreError::Unavailable(_) => unavailable("store_unavailable"),
        StoreError::InDoubt(_) => internal("store_in_doubt"),
        StoreError::Unusable(_) => internal("store_unusable"),
        StoreError::Corrupt(_) => internal("store_corrupt"),
        // What the hub settles by itself; it is `non_exhaustive`, so there must be an answer to more.
        _ => internal("store"),
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
    .with(json!({"method": echo(name)}))
}

/// A token that is not good. `token_url` is where a good one comes from.
pub(crate) fn refused(refusal: &Refusal, token_url: &str, metadata_url: &str) -> WireError {
    let (code, message, word, why) = match refusal {
        Refusal::Missing => (
            codes::AUTHENTICATION_FAILED,
            "Authentication required",
            "token_missing",
            "send a bearer token in the Authorization header",
        ),
        Refusal::Malformed => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_malformed",
            "the Authorization header must be: Bearer, a space, the token",
        ),
        Refusal::Invalid(why) => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_invalid",
            *why,
        ),
        Refusal::Expired => (
            codes::TOKEN_EXPIRED,
            "Token expired",
            "token_expired",
            "the token has expired; get a new one",
        ),
        Refusal::Unavailable => {
            return unavailable("issuer_unavailable");
        }
    };
    let mut error = WireError::new(code, StatusCode::UNAUTHORIZED, message, word).with(json!({
        "error": "invalid_token",
        "error_description": why,
        "requiredScopes": [Scope::AgentIdentify.name()],
        "tokenUrl": token_url,
    }));
    // RFC 6750: whoever sent no token at all is told no error.
    error.challenge = Some(match refusal {
        Refusal::Missing => format!("resource_metadata=\"{metadata_url}\""),
        _ => format!(
            "error=\"invalid_token\", error_description=\"{why}\", resource_metadata=\"{metadata_url}\""
        ),
    });
    error
}

/// A good token that lacks a scope.
pub(crate) fn lacks_scope<'s>(
    required: &[Scope],
    provided: impl Iterator<Item = &'s str>,
    metadata_url: &str,
) -> WireError {
    let names: Vec<&str> = required.iter().map(|scope| scope.name()).collect();
    let mut error = WireError::new(
        codes::INSUFFICIENT_SCOPE,
        StatusCode::FORBIDDEN,
        "Insufficient scope",
        "insufficient_scope",
    )
    .with(json!({
        "requiredScopes": names,
        "providedScopes": provided.take(64).map(echo).collect::<Vec<_>>(),
        "suggestion": "get a token with all required scopes",
    }));
    error.challenge = Some(format!(
        "error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{metadata_url}\"",
        names.join(" ")
    ));
    error
}

/// A good token of somebody who does not run the zone.
pub(crate) fn not_operator(scope: &str) -> WireError {
    let mut error = WireError::new(
        codes::INSUFFICIENT_SCOPE,
        StatusCode::FORBIDDEN,
        "Insufficient scope",
        "insufficient_scope",
    )
    .with(json!({"requiredScopes": [scope]}));
    error.challenge = Some(format!("error=\"insufficient_scope\", scope=\"{scope}\""));
    error
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
    .with(json!({"retryAfter": 1}));
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
}

/// A request that the transport turns away before anybody reads it.
pub(crate) fn transport(
    http: StatusCode,
    message: impl Into<Cow<'static, str>>,
    word: &'static str,
) -> WireError {
    WireError::new(ErrorCode::INVALID_REQUEST, http, message, word)
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
