//! Errors of calls, and what the error maps of the dialects share: `rpc/<dialect>/errors.rs` maps each error to code,
//! HTTP status, message and `data`.
//!
//! Matches are exhaustive, so a new error does not compile without a code. Of a request only ids and names are
//! echoed, and internal details only go to the log.

use super::zone::errors::ERROR_CODE_FIELD;
use axum::http::StatusCode;
use interzone_edge::auth::AuthFailure;
use interzone_edge::request_context::CorrelationId;
use interzone_hub::ports::StoreError;
use interzone_hub::{HubError, LogThrottle};
use interzone_jsonrpc::{ErrorCode, ErrorObject, RawJson};
use interzone_protocol::Scope;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum characters of a name that is echoed to its sender.
const MAX_ECHO_CHARS: usize = 128;

/// A full store fails every call, so these errors share one log line every few seconds.
static STORE_FULL_THROTTLE: Mutex<LogThrottle> =
    Mutex::new(LogThrottle::new(Duration::from_secs(5)));

/// Error of a call, before its dialect maps it to a response.
#[derive(Debug)]
pub(crate) enum CallError {
    Hub(HubError),
    /// The caller is not authenticated.
    Authentication(AuthFailure),
    /// The token lacks a scope.
    MissingScope {
        required: &'static [Scope],
        provided: Vec<String>,
    },
    RateLimited {
        retry_after: Duration,
        limit: u32,
    },
    UnknownMethod(String),
    InvalidParams(InvalidParams),
    /// The method streams its reply, which a batch cannot contain.
    CannotStream,
    /// Rejected before the call ran, for a reason that passes. The label is for log and metrics only.
    Busy(&'static str),
    /// Rejected by the transport with this HTTP status.
    Transport {
        http: StatusCode,
        message: Cow<'static, str>,
        label: &'static str,
    },
    /// A fault of the zone itself. The label is for log and metrics only.
    Internal(&'static str),
    /// Mapped by the dialect already. Boxed, since most calls do not fail.
    Wire(Box<WireError>),
}

impl CallError {
    /// Creates the error of a transport that rejects a request.
    pub(crate) fn transport(
        http: StatusCode,
        message: impl Into<Cow<'static, str>>,
        label: &'static str,
    ) -> Self {
        Self::Transport {
            http,
            message: message.into(),
            label,
        }
    }

    /// Logs a store error. Audit and metrics have every call.
    pub(super) fn log(&self, correlation: &CorrelationId) {
        let Self::Hub(HubError::Store(error)) = self else {
            return;
        };
        if !matches!(error, StoreError::Full) {
            tracing::error!(%correlation, %error, "store operation failed");
            return;
        }
        let mut throttle = STORE_FULL_THROTTLE
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = throttle.record(1, Instant::now()) {
            tracing::error!(%correlation, %error, calls, "store is full, calls rejected");
        }
    }
}

impl From<HubError> for CallError {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

impl From<InvalidParams> for CallError {
    fn from(error: InvalidParams) -> Self {
        Self::InvalidParams(error)
    }
}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Wire(Box::new(error))
    }
}

/// Invalid value of a params field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidParams {
    /// JSON path.
    pub(crate) field: String,
    pub(crate) expected: String,
    pub(crate) received: String,
}

impl InvalidParams {
    /// Maps it to the generic JSON-RPC code.
    pub(crate) fn to_wire(&self) -> WireError {
        invalid_params().with_data(json!({
            "field": self.field,
            "expected": self.expected,
            "received": self.received,
        }))
    }
}

/// URLs that authentication errors name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthUrls<'z> {
    /// The token endpoint.
    pub(crate) token: &'z str,
    /// Metadata of the protected resource.
    pub(crate) metadata: &'z str,
}

/// Error as sent to a caller.
#[derive(Clone, Debug)]
pub(crate) struct WireError {
    pub(crate) code: ErrorCode,
    pub(crate) http: StatusCode,
    pub(crate) message: Cow<'static, str>,
    pub(crate) data: Option<Value>,
    /// Parameters of `WWW-Authenticate: Bearer`, if present.
    pub(crate) challenge: Option<String>,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Stable label for log and metrics.
    pub(crate) label: &'static str,
}

impl WireError {
    pub(crate) fn new(
        code: ErrorCode,
        http: StatusCode,
        message: impl Into<Cow<'static, str>>,
        label: &'static str,
    ) -> Self {
        Self {
            code,
            http,
            message: message.into(),
            data: None,
            challenge: None,
            retry_after: None,
            label,
        }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds a field to `data`.
    pub(crate) fn with_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = data {
            fields.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Returns the JSON-RPC error object.
    pub(crate) fn to_error_object(&self) -> ErrorObject<'_> {
        let error = ErrorObject::new(self.code, &*self.message);
        match self.data.as_ref().map(RawJson::from_value) {
            Some(Ok(data)) => error.with_data(data),
            _ => error,
        }
    }
}

/// Maps a hub error to the generic JSON-RPC codes.
pub(crate) fn from_hub_generic(error: &HubError) -> WireError {
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
        HubError::SubscriptionNotFound(_) => invalid_field(
            "params.subscriptionId",
            "the id of a subscription of this task",
            "unknown id",
        ),
        HubError::SubscriptionNotReady { state, .. } => {
            invalid_params().with_field("currentStatus", state.name())
        }
        HubError::TooLarge { what, limit } => {
            invalid_field(*what, format!("at most {limit} bytes"), "more than that")
        }
        HubError::TooMany { what, limit } => {
            invalid_field(*what, format!("at most {limit}"), "more than that")
        }
        HubError::Invalid {
            field: name,
            reason,
        } => invalid_field(*name, *reason, "something else"),
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
    .with_data(json!({ERROR_CODE_FIELD: "unavailable"}))
}

/// Returns the label of a store error, and true if it is transient.
pub(crate) fn store_label(error: &StoreError) -> (&'static str, bool) {
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

/// Invalid params without details.
fn invalid_params() -> WireError {
    WireError::new(
        ErrorCode::INVALID_PARAMS,
        StatusCode::OK,
        "Invalid params",
        "invalid_params",
    )
}

/// Maps an invalid value of a params field.
pub(crate) fn invalid_field(
    path: impl Into<String>,
    expected: impl Into<String>,
    received: impl Into<String>,
) -> WireError {
    field(path, expected, received).to_wire()
}

/// Invalid value of a params field.
pub(crate) fn field(
    path: impl Into<String>,
    expected: impl Into<String>,
    received: impl Into<String>,
) -> InvalidParams {
    InvalidParams {
        field: path.into(),
        expected: expected.into(),
        received: received.into(),
    }
}

/// Adds the JSON path of the field that the hub rejected. `path_of` maps the hub's name of the field.
pub(crate) fn with_field_path(
    wire: WireError,
    error: &HubError,
    path_of: impl FnOnce(&str) -> Option<String>,
) -> WireError {
    let what = match error {
        HubError::Invalid { field: what, .. }
        | HubError::TooLarge { what, .. }
        | HubError::TooMany { what, .. } => what,
        _ => return wire,
    };
    match path_of(what) {
        Some(path) => wire.with_field("field", path),
        None => wire,
    }
}

/// A method that streams its reply was called in a batch.
pub(crate) fn cannot_stream() -> WireError {
    WireError::new(
        ErrorCode::INVALID_REQUEST,
        StatusCode::OK,
        "This method streams its reply; call it outside a batch",
        "cannot_stream",
    )
    .with_data(json!({ERROR_CODE_FIELD: "invalid_request"}))
}

/// Unknown method.
pub(crate) fn unknown_method(name: &str) -> WireError {
    WireError::new(
        ErrorCode::METHOD_NOT_FOUND,
        StatusCode::OK,
        "Method not found",
        "unknown_method",
    )
    .with_data(json!({"method": truncate_echo(name), ERROR_CODE_FIELD: "method_not_found"}))
}

pub(crate) fn ceil_seconds(wait: Duration) -> u64 {
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
    .with_data(json!({"retryAfter": 1, ERROR_CODE_FIELD: "unavailable"}));
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
    .with_data(json!({ERROR_CODE_FIELD: "internal_error"}))
}

/// Request that the transport rejects before it is parsed.
pub(crate) fn transport(
    http: StatusCode,
    message: impl Into<Cow<'static, str>>,
    label: &'static str,
) -> WireError {
    // The dialect is unknown, so it has the fields of all dialects.
    WireError::new(ErrorCode::INVALID_REQUEST, http, message, label)
        .with_data(json!({ERROR_CODE_FIELD: "invalid_request"}))
}

/// Truncates a name for echoing.
pub(crate) fn truncate_echo(name: &str) -> String {
    let mut out: String = name.chars().take(MAX_ECHO_CHARS).collect();
    if out.len() < name.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
