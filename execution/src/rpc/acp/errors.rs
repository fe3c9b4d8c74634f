//! Errors of ACP. The zone dialect has the same codes for authentication and authorization.

use super::field_path;
use crate::rpc::errors::{
    AuthUrls, CallError, WireError, cannot_stream, ceil_seconds, from_hub_generic, internal,
    transport, truncate_echo, unavailable, unknown_method, with_field_path,
};
use axum::http::StatusCode;
use interzone_edge::auth::AuthFailure;
use interzone_hub::{HubError, Registry};
use interzone_protocol::Scope;
use interzone_protocol::acp::{Method, codes};
use interzone_protocol::vocab::{AgentId, TaskState, Timestamp};
use serde_json::json;
use std::time::Duration;

/// Maps an error of a call of this method, or of a request without a known method.
pub(crate) fn map_error(
    method: Option<Method>,
    error: &CallError,
    urls: AuthUrls<'_>,
) -> WireError {
    match error {
        CallError::Hub(error) => {
            with_field_path(from_hub(error), error, |what| field_path(method?, what))
        }
        CallError::Authentication(failure) => {
            authentication_error(failure, urls.token, urls.metadata)
        }
        CallError::MissingScope { required, provided } => {
            insufficient_scope(required, provided.iter().map(String::as_str), urls.metadata)
        }
        CallError::RateLimited { retry_after, limit } => rate_limited(*retry_after, *limit),
        CallError::UnknownMethod(name) => unknown_method(name),
        CallError::InvalidParams(invalid) => invalid.to_wire(),
        CallError::CannotStream => cannot_stream(),
        CallError::Busy(label) => unavailable(label),
        CallError::Transport {
            http,
            message,
            label,
        } => transport(*http, message.clone(), label),
        CallError::Internal(label) => internal(label),
        CallError::Wire(error) => (**error).clone(),
    }
}

/// Maps a hub error.
pub(crate) fn from_hub(error: &HubError) -> WireError {
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
        | HubError::Store(_) => from_hub_generic(error),
    }
}

/// Creates the error of a call that requested an agent by name, with the time at which the agent is available again,
/// if known.
pub(crate) fn for_agent(
    error: HubError,
    requested_agent: Option<String>,
    agents: &Registry,
) -> CallError {
    let (HubError::AgentUnavailable, Some(name)) = (&error, requested_agent) else {
        return CallError::Hub(error);
    };
    let wire = from_hub(&error).with_field("agentId", truncate_echo(&name));
    let agent_id = AgentId::new(&*name).ok();
    let available_in = agent_id.and_then(|id| agents.get(&id)?.retry_after());
    match available_in {
        Some(wait) => wire
            .with_field("retryAfter", ceil_seconds(wait).max(1))
            .into(),
        None => wire.into(),
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

/// Token error. `token_url` is the token endpoint.
pub(crate) fn authentication_error(
    refusal: &AuthFailure,
    token_url: &str,
    metadata_url: &str,
) -> WireError {
    let (code, message, label, description) = match refusal {
        AuthFailure::Missing => (
            codes::AUTHENTICATION_FAILED,
            "Authentication required",
            "token_missing",
            "send a bearer token in the Authorization header",
        ),
        AuthFailure::Malformed => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_malformed",
            "the Authorization header must be: Bearer, a space, the token",
        ),
        AuthFailure::Invalid(reason) => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_invalid",
            *reason,
        ),
        AuthFailure::Expired => (
            codes::TOKEN_EXPIRED,
            "Token expired",
            "token_expired",
            "the token has expired; get a new one",
        ),
        AuthFailure::Unavailable => {
            return unavailable("issuer_unavailable");
        }
    };
    let mut error =
        WireError::new(code, StatusCode::UNAUTHORIZED, message, label).with_data(json!({
            "error": "invalid_token",
            "error_description": description,
            "requiredScopes": [Scope::AgentIdentify.name()],
            "tokenUrl": token_url,
        }));
    // RFC 6750: a request without a token gets no error code.
    error.challenge = Some(match refusal {
        AuthFailure::Missing => format!("resource_metadata=\"{metadata_url}\""),
        _ => format!(
            "error=\"invalid_token\", error_description=\"{description}\", resource_metadata=\"{metadata_url}\""
        ),
    });
    error
}

/// Valid token without a required scope.
pub(crate) fn insufficient_scope<'s>(
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
    .with_data(json!({
        "requiredScopes": names,
        "providedScopes": provided.take(64).map(truncate_echo).collect::<Vec<_>>(),
        "suggestion": "get a token with all required scopes",
    }));
    error.challenge = Some(format!(
        "error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{metadata_url}\"",
        names.join(" ")
    ));
    error
}

/// Valid token without the operator scope.
pub(crate) fn not_operator(scope: &str) -> WireError {
    let mut error = WireError::new(
        codes::INSUFFICIENT_SCOPE,
        StatusCode::FORBIDDEN,
        "Insufficient scope",
        "insufficient_scope",
    )
    .with_data(json!({"requiredScopes": [scope]}));
    error.challenge = Some(format!("error=\"insufficient_scope\", scope=\"{scope}\""));
    error
}
