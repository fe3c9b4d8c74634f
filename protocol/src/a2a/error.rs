//! Errors of A2A: one row each, with code, reason, HTTP status and name, and their bodies in both bindings.

use super::codes;
use super::invalid_field::InvalidField;
use super::method::WireFormat;
use super::version::UnsupportedVersion;
use interzone_jsonrpc::{ErrorCode, ErrorObject, RawJson};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Domain of all reasons.
const DOMAIN: &str = "a2a-protocol.org";

/// A row of the table of errors.
struct ErrorRow {
    /// Name in the specification, and in errors of REST 0.3.
    name: &'static str,
    reason: &'static str,
    code: ErrorCode,
    http_status: u16,
    /// Name of the gRPC status, which REST 1.0 sends.
    status: &'static str,
    message: &'static str,
}

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $reason:literal, $code:expr, $http:literal, $status:literal, $message:literal;)*) => {
        /// Kind of an error.
        ///
        /// ```
        /// use interzone_protocol::a2a::{A2aErrorKind, WireFormat, codes};
        ///
        /// let kind = A2aErrorKind::ExtensionSupportRequired;
        /// assert_eq!(kind.reason(), "EXTENSION_SUPPORT_REQUIRED");
        /// assert_eq!(kind.http_status(), 400);
        /// assert_eq!(kind.code(WireFormat::V1), codes::EXTENSION_SUPPORT_REQUIRED);
        /// assert_eq!(kind.code(WireFormat::V03), codes::UNSUPPORTED_OPERATION);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum A2aErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl A2aErrorKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            const fn row(self) -> ErrorRow {
                match self {
                    $(Self::$kind => ErrorRow {
                        name: $name,
                        reason: $reason,
                        code: $code,
                        http_status: $http,
                        status: $status,
                        message: $message,
                    },)*
                }
            }
        }
    };
}

error_kinds! {
    /// The task does not exist or is not visible to the caller.
    TaskNotFound = "TaskNotFoundError", "TASK_NOT_FOUND", codes::TASK_NOT_FOUND, 404, "NOT_FOUND", "Task not found";
    /// The push configuration does not exist.
    PushConfigNotFound = "TaskNotFoundError", "TASK_NOT_FOUND", codes::TASK_NOT_FOUND, 404, "NOT_FOUND", "Push notification config not found";
    /// The task is finished and cannot be canceled.
    TaskNotCancelable = "TaskNotCancelableError", "TASK_NOT_CANCELABLE", codes::TASK_NOT_CANCELABLE, 400, "FAILED_PRECONDITION", "Task cannot be canceled";
    /// The agent sends no push notifications.
    PushNotificationNotSupported = "PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", codes::PUSH_NOTIFICATION_NOT_SUPPORTED, 400, "FAILED_PRECONDITION", "Push notifications are not supported";
    /// The operation is not possible, or not in this state of the task.
    UnsupportedOperation = "UnsupportedOperationError", "UNSUPPORTED_OPERATION", codes::UNSUPPORTED_OPERATION, 400, "FAILED_PRECONDITION", "This operation is not supported";
    /// The agent does not accept the media type of a part.
    ContentTypeNotSupported = "ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", codes::CONTENT_TYPE_NOT_SUPPORTED, 400, "INVALID_ARGUMENT", "Incompatible content types";
    /// The media type of the request itself is not JSON.
    UnsupportedMediaType = "ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", codes::CONTENT_TYPE_NOT_SUPPORTED, 415, "INVALID_ARGUMENT", "Unsupported media type";
    /// The agent's answer is invalid. Interzone never sends it.
    InvalidAgentResponse = "InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", codes::INVALID_AGENT_RESPONSE, 500, "INTERNAL", "Invalid agent response";
    /// The agent has no extended card.
    ExtendedAgentCardNotConfigured = "ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", codes::EXTENDED_AGENT_CARD_NOT_CONFIGURED, 400, "FAILED_PRECONDITION", "Extended agent card is not configured";
    /// The agent requires an extension that the caller did not request.
    ExtensionSupportRequired = "ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", codes::EXTENSION_SUPPORT_REQUIRED, 400, "FAILED_PRECONDITION", "A required extension was not requested";
    /// The requested version of A2A is not supported.
    VersionNotSupported = "VersionNotSupportedError", "VERSION_NOT_SUPPORTED", codes::VERSION_NOT_SUPPORTED, 400, "FAILED_PRECONDITION", "A2A version is not supported";
    /// A param is missing or of the wrong type.
    InvalidParams = "InvalidParamsError", "INVALID_PARAMS", ErrorCode::INVALID_PARAMS, 400, "INVALID_ARGUMENT", "Invalid params";
    /// The idempotency key was used for another request.
    IdempotencyKeyReused = "InvalidParamsError", "IDEMPOTENCY_KEY_REUSED", ErrorCode::INVALID_PARAMS, 400, "INVALID_ARGUMENT", "Idempotency key was used for another request";
    /// Valid JSON, but not a valid request.
    InvalidRequest = "InvalidRequestError", "INVALID_REQUEST", ErrorCode::INVALID_REQUEST, 400, "INVALID_ARGUMENT", "Invalid Request";
    /// The body is not JSON.
    ParseError = "JSONParseError", "INVALID_REQUEST", ErrorCode::PARSE_ERROR, 400, "INVALID_ARGUMENT", "Parse error";
    /// Unknown method or path.
    MethodNotFound = "MethodNotFoundError", "METHOD_NOT_FOUND", ErrorCode::METHOD_NOT_FOUND, 404, "NOT_FOUND", "Method not found";
    /// The path exists, but not for this HTTP method.
    MethodNotAllowed = "MethodNotFoundError", "METHOD_NOT_FOUND", ErrorCode::METHOD_NOT_FOUND, 405, "UNIMPLEMENTED", "Method not allowed";
    /// Internal error.
    InternalError = "InternalError", "INTERNAL_ERROR", ErrorCode::INTERNAL_ERROR, 500, "INTERNAL", "Internal error";
    /// The agent is not available, or the call met contention; a retry may help.
    AgentUnavailable = "InternalError", "UNAVAILABLE", ErrorCode::INTERNAL_ERROR, 503, "UNAVAILABLE", "Temporarily unavailable";
    /// The token is missing or invalid.
    Unauthenticated = "UnauthenticatedError", "UNAUTHENTICATED", codes::CALL_REFUSED, 401, "UNAUTHENTICATED", "Authentication required";
    /// The caller is not permitted.
    PermissionDenied = "PermissionDeniedError", "PERMISSION_DENIED", codes::CALL_REFUSED, 403, "PERMISSION_DENIED", "Permission denied";
    /// The body is too large.
    PayloadTooLarge = "ResourceExhaustedError", "RESOURCE_EXHAUSTED", codes::CALL_REFUSED, 413, "RESOURCE_EXHAUSTED", "Request body is too large";
    /// The caller exceeded its rate limit.
    RateLimited = "ResourceExhaustedError", "RESOURCE_EXHAUSTED", codes::CALL_REFUSED, 429, "RESOURCE_EXHAUSTED", "Too many requests";
    /// The server is overloaded.
    Overloaded = "UnavailableError", "UNAVAILABLE", codes::CALL_REFUSED, 503, "UNAVAILABLE", "Server is overloaded";
}

impl A2aErrorKind {
    /// The code in JSON-RPC and in REST 0.3.
    pub const fn code(self, format: WireFormat) -> ErrorCode {
        match (self, format) {
            // 0.3 has no code for it.
            (Self::ExtensionSupportRequired, WireFormat::V03 | WireFormat::RestV03) => {
                codes::UNSUPPORTED_OPERATION
            }
            _ => self.row().code,
        }
    }

    /// The reason in `ErrorInfo`.
    pub const fn reason(self) -> &'static str {
        self.row().reason
    }

    /// The HTTP status in REST.
    pub const fn http_status(self) -> u16 {
        self.row().http_status
    }

    /// The HTTP status of a JSON-RPC response: 200 for every answer to a call that was looked at.
    pub const fn json_rpc_http_status(self) -> u16 {
        match self {
            Self::Unauthenticated
            | Self::PermissionDenied
            | Self::PayloadTooLarge
            | Self::RateLimited
            | Self::Overloaded
            | Self::UnsupportedMediaType
            | Self::MethodNotAllowed => self.row().http_status,
            _ => 200,
        }
    }

    /// The short text for the caller.
    pub const fn message(self) -> &'static str {
        self.row().message
    }
}

/// An error with its details.
///
/// ```
/// use interzone_protocol::a2a::{A2aError, A2aErrorKind, WireFormat};
///
/// let error = A2aError::new(A2aErrorKind::TaskNotFound);
/// assert_eq!(
///     serde_json::to_string(&error.rest_body(WireFormat::V1)).unwrap(),
///     concat!(
///         r#"{"error":{"code":404,"status":"NOT_FOUND","message":"Task not found","details":["#,
///         r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","#,
///         r#""domain":"a2a-protocol.org","metadata":{}}]}}"#
///     )
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aError {
    kind: A2aErrorKind,
    message: Cow<'static, str>,
    metadata: BTreeMap<&'static str, String>,
    violations: Vec<InvalidField>,
}

impl A2aError {
    /// An error with the text of its kind.
    pub fn new(kind: A2aErrorKind) -> Self {
        Self {
            kind,
            message: Cow::Borrowed(kind.message()),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// Replaces the text for the caller.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds metadata to the `ErrorInfo`.
    #[must_use]
    pub fn with_metadata(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.insert(name, value.into());
        self
    }

    /// Adds a field to the `BadRequest`.
    #[must_use]
    pub fn with_violation(mut self, field: InvalidField) -> Self {
        self.violations.push(field);
        self
    }

    /// The kind.
    pub fn kind(&self) -> A2aErrorKind {
        self.kind
    }

    /// The text for the caller.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The details, `ErrorInfo` first.
    pub fn details(&self) -> impl Serialize + '_ {
        let info = Detail::ErrorInfo {
            reason: self.kind.reason(),
            domain: DOMAIN,
            metadata: &self.metadata,
        };
        let bad_request = (!self.violations.is_empty()).then_some(Detail::BadRequest {
            field_violations: &self.violations,
        });
        std::iter::once(info).chain(bad_request).collect::<Vec<_>>()
    }

    /// The error object of a JSON-RPC response.
    pub fn to_error_object(&self, format: WireFormat) -> ErrorObject<'static> {
        let error = ErrorObject::new(self.kind.code(format), self.message.clone());
        match RawJson::from_value(&self.details()) {
            Ok(details) => error.with_data(details.into_owned()),
            Err(_) => error,
        }
    }

    /// The body of a REST response; the status is that of the kind.
    pub fn rest_body(&self, format: WireFormat) -> impl Serialize + '_ {
        let row = self.kind.row();
        match format {
            WireFormat::V1 => RestErrorBody::V1 {
                error: RestError {
                    code: row.http_status,
                    status: row.status,
                    message: &self.message,
                    details: self.details(),
                },
            },
            WireFormat::V03 | WireFormat::RestV03 => RestErrorBody::V03 {
                code: self.kind.code(format).get(),
                r#type: row.name,
                message: &self.message,
                data: self.details(),
            },
        }
    }
}

impl From<InvalidField> for A2aError {
    fn from(field: InvalidField) -> Self {
        Self::new(A2aErrorKind::InvalidParams).with_violation(field)
    }
}

impl From<UnsupportedVersion> for A2aError {
    fn from(version: UnsupportedVersion) -> Self {
        Self::new(A2aErrorKind::VersionNotSupported)
            .with_metadata("requested", version.requested)
            .with_metadata("supported", version.supported)
    }
}

#[derive(Serialize)]
#[serde(tag = "@type")]
enum Detail<'a> {
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo {
        reason: &'static str,
        domain: &'static str,
        metadata: &'a BTreeMap<&'static str, String>,
    },
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest")]
    BadRequest {
        #[serde(rename = "fieldViolations")]
        field_violations: &'a [InvalidField],
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum RestErrorBody<'a, D> {
    V1 {
        error: RestError<'a, D>,
    },
    V03 {
        code: i32,
        r#type: &'static str,
        message: &'a str,
        data: D,
    },
}

#[derive(Serialize)]
struct RestError<'a, D> {
    code: u16,
    status: &'static str,
    message: &'a str,
    details: D,
}
