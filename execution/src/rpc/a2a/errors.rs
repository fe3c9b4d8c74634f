//! Errors of A2A. Every error has `data`: an array that begins with an `ErrorInfo`. Answers to calls that were looked at
//! have HTTP status 200.

use super::A2aCall;
use crate::rpc::acp;
use crate::rpc::errors::{AuthUrls, CallError, WireError, ceil_seconds, store_label};
use axum::http::StatusCode;
use interzone_edge::auth::AuthFailure;
use interzone_hub::HubError;
use interzone_jsonrpc::{ErrorCode, ErrorObject};
use interzone_protocol::a2a::{
    A2aError, A2aErrorKind, A2aMethod, Expectation, InvalidField, WireFormat,
};
use interzone_protocol::vocab::TaskState;

/// Seconds after which a call that met an overloaded server may be repeated.
const RETRY_SECONDS: u64 = 1;

/// Maps an error of a call, or of a request without a known method.
pub(super) fn map_error(call: Option<A2aCall>, error: &CallError, urls: AuthUrls<'_>) -> WireError {
    let format = call.map_or(WireFormat::V1, |call| call.format);
    let wire = |kind| to_wire(&A2aError::new(kind), format);
    match error {
        CallError::Hub(error) => from_hub(call.map(|call| call.method), error, format),
        CallError::Authentication(AuthFailure::Unavailable) => {
            overloaded("issuer_unavailable", format)
        }
        CallError::Authentication(failure) => {
            let shared = acp::errors::authentication_error(failure, urls.token, urls.metadata);
            WireError {
                challenge: shared.challenge,
                label: shared.label,
                ..wire(A2aErrorKind::Unauthenticated)
            }
        }
        CallError::MissingScope { required, provided } => {
            let provided = provided.iter().map(String::as_str);
            let shared = acp::errors::insufficient_scope(required, provided, urls.metadata);
            WireError {
                challenge: shared.challenge,
                label: shared.label,
                ..wire(A2aErrorKind::PermissionDenied)
            }
        }
        CallError::RateLimited { retry_after, .. } => WireError {
            retry_after: Some(ceil_seconds(*retry_after)),
            ..wire(A2aErrorKind::RateLimited)
        },
        CallError::UnknownMethod(_) => wire(A2aErrorKind::MethodNotFound),
        CallError::InvalidParams(invalid) => {
            let message = format!("{} must be {}", invalid.field, invalid.expected);
            let error = A2aError::new(A2aErrorKind::InvalidParams).with_message(message);
            to_wire(&error, format)
        }
        CallError::CannotStream => to_wire(
            &A2aError::new(A2aErrorKind::UnsupportedOperation)
                .with_message("A batch cannot contain a method that streams"),
            format,
        ),
        CallError::Busy(label) => overloaded(label, format),
        CallError::Transport {
            http,
            message,
            label,
        } => WireError {
            http: *http,
            message: message.clone(),
            label,
            ..wire(transport_kind(*http))
        },
        CallError::Internal(label) => internal(label, format),
        CallError::Wire(error) => (**error).clone(),
    }
}

/// Maps an error to its response.
fn to_wire(error: &A2aError, format: WireFormat) -> WireError {
    let kind = error.kind();
    let http = StatusCode::from_u16(kind.json_rpc_http_status());
    let wire = WireError::new(
        kind.code(format),
        http.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        error.message().to_owned(),
        label(kind),
    );
    match serde_json::to_value(error.details()) {
        Ok(details) => wire.with_data(details),
        Err(_) => wire,
    }
}

/// Refuses a call with this error.
pub(super) fn refuse(error: impl Into<A2aError>, format: WireFormat) -> CallError {
    to_wire(&error.into(), format).into()
}

/// Refuses a call because of this field, whose path is relative to the params.
pub(super) fn refuse_field(
    path: impl Into<String>,
    expectation: Expectation,
    format: WireFormat,
) -> CallError {
    refuse(InvalidField::new(path, expectation), format)
}

/// A finished task has no more events.
pub(super) fn no_streams_of_finished_task(state: TaskState, format: WireFormat) -> CallError {
    let error = A2aError::new(A2aErrorKind::UnsupportedOperation)
        .with_message("The task is finished; read it with GetTask")
        .with_metadata("state", state.name());
    refuse(error, format)
}

/// The agent sends no push notifications.
pub(super) fn no_push_notifications(format: WireFormat) -> CallError {
    refuse(
        A2aError::new(A2aErrorKind::PushNotificationNotSupported),
        format,
    )
}

/// The agent has no extended card, and declares none.
pub(super) fn no_extended_card(format: WireFormat) -> CallError {
    let kind = match format {
        WireFormat::V1 => A2aErrorKind::UnsupportedOperation,
        WireFormat::V03 | WireFormat::RestV03 => A2aErrorKind::ExtendedAgentCardNotConfigured,
    };
    refuse(
        A2aError::new(kind).with_message("There is no extended agent card"),
        format,
    )
}

/// Error object for a message that is no valid request.
pub(super) fn invalid_message(code: ErrorCode) -> ErrorObject<'static> {
    let kind = match code {
        ErrorCode::PARSE_ERROR => A2aErrorKind::ParseError,
        ErrorCode::METHOD_NOT_FOUND => A2aErrorKind::MethodNotFound,
        _ => A2aErrorKind::InvalidRequest,
    };
    A2aError::new(kind).to_error_object(WireFormat::V1)
}

/// Maps a hub error.
fn from_hub(method: Option<A2aMethod>, error: &HubError, format: WireFormat) -> WireError {
    let new = A2aError::new;
    let error = match error {
        HubError::TaskNotFound(_) => new(A2aErrorKind::TaskNotFound),
        HubError::TaskFinished { state, .. } => {
            let error = match method {
                Some(A2aMethod::CancelTask) => new(A2aErrorKind::TaskNotCancelable),
                _ => new(A2aErrorKind::UnsupportedOperation)
                    .with_message("The task is finished; start a new one in its context"),
            };
            error.with_metadata("state", state.name())
        }
        HubError::IllegalTransition { from, .. } => new(A2aErrorKind::UnsupportedOperation)
            .with_message("The task cannot do this in its state")
            .with_metadata("state", from.name()),
        HubError::ContextMismatch(_) => InvalidField::new(
            "message.contextId",
            Expectation::Rule("must be the context of the task, or absent"),
        )
        .into(),
        HubError::IdempotencyKeyReused => new(A2aErrorKind::IdempotencyKeyReused),
        HubError::SubscriptionNotFound(_) => new(A2aErrorKind::PushConfigNotFound),
        HubError::AgentUnavailable => {
            new(A2aErrorKind::AgentUnavailable).with_message("The agent is not available")
        }
        HubError::NotAllowed => new(A2aErrorKind::PermissionDenied),
        HubError::TooLarge { what, limit } => {
            InvalidField::new(field_path(what), Expectation::MaxBytes(*limit)).into()
        }
        HubError::TooMany { what, limit } => {
            InvalidField::new(field_path(what), Expectation::MaxLength(*limit)).into()
        }
        HubError::Invalid { field, reason } => {
            InvalidField::new(field_path(field), Expectation::Rule(reason)).into()
        }
        HubError::Contended => return unavailable("contended", format),
        HubError::NoMemory => return unavailable("memory_limit", format),
        HubError::Store(error) => {
            return match store_label(error) {
                (label, true) => unavailable(label, format),
                (label, false) => internal(label, format),
            };
        }
        HubError::Stopped => return internal("stopped", format),
        // Only methods of other dialects can cause these.
        HubError::StreamNotFound(_)
        | HubError::StreamNotActive { .. }
        | HubError::SubscriptionNotReady { .. } => return internal("not_a_task", format),
    };
    to_wire(&error, format)
}

/// Returns the path of a field that the hub rejected. `what` is the hub's name of the field.
fn field_path(what: &str) -> &'static str {
    match what {
        "metadata" => "metadata",
        "parts" => "message.parts",
        "role" => "message.role",
        "context_id" => "message.contextId",
        _ => "message",
    }
}

fn internal(label: &'static str, format: WireFormat) -> WireError {
    let wire = to_wire(&A2aError::new(A2aErrorKind::InternalError), format);
    WireError { label, ..wire }
}

/// The call met a state that passes.
fn unavailable(label: &'static str, format: WireFormat) -> WireError {
    let wire = to_wire(&A2aError::new(A2aErrorKind::AgentUnavailable), format);
    WireError { label, ..wire }
}

/// The call was not looked at.
fn overloaded(label: &'static str, format: WireFormat) -> WireError {
    WireError {
        label,
        retry_after: Some(RETRY_SECONDS),
        ..to_wire(&A2aError::new(A2aErrorKind::Overloaded), format)
    }
}

/// Kind of an error of the transport.
fn transport_kind(http: StatusCode) -> A2aErrorKind {
    match http {
        StatusCode::PAYLOAD_TOO_LARGE => A2aErrorKind::PayloadTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => A2aErrorKind::UnsupportedMediaType,
        StatusCode::METHOD_NOT_ALLOWED => A2aErrorKind::MethodNotAllowed,
        StatusCode::NOT_FOUND => A2aErrorKind::MethodNotFound,
        _ => A2aErrorKind::InvalidRequest,
    }
}

/// Label for log and metrics.
const fn label(kind: A2aErrorKind) -> &'static str {
    match kind {
        A2aErrorKind::TaskNotFound => "task_not_found",
        A2aErrorKind::PushConfigNotFound => "push_config_not_found",
        A2aErrorKind::TaskNotCancelable => "task_finished",
        A2aErrorKind::PushNotificationNotSupported => "no_push_notifications",
        A2aErrorKind::UnsupportedOperation => "unsupported_operation",
        A2aErrorKind::ContentTypeNotSupported => "content_type",
        A2aErrorKind::UnsupportedMediaType => "media_type",
        A2aErrorKind::InvalidAgentResponse => "invalid_agent_response",
        A2aErrorKind::ExtendedAgentCardNotConfigured => "no_extended_card",
        A2aErrorKind::ExtensionSupportRequired => "extension_required",
        A2aErrorKind::VersionNotSupported => "version",
        A2aErrorKind::InvalidParams => "invalid_params",
        A2aErrorKind::IdempotencyKeyReused => "idempotency_key_reused",
        A2aErrorKind::InvalidRequest => "invalid_request",
        A2aErrorKind::ParseError => "parse_error",
        A2aErrorKind::MethodNotFound => "unknown_method",
        A2aErrorKind::MethodNotAllowed => "wrong_verb",
        A2aErrorKind::InternalError => "internal",
        A2aErrorKind::AgentUnavailable => "agent_unavailable",
        A2aErrorKind::Unauthenticated => "token_missing",
        A2aErrorKind::PermissionDenied => "not_allowed",
        A2aErrorKind::PayloadTooLarge => "too_large",
        A2aErrorKind::RateLimited => "rate_limited",
        A2aErrorKind::Overloaded => "busy",
    }
}
