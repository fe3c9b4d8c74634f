//! Maps errors to the zones' stable error reasons and to message keys. The texts for users are written
//! elsewhere.

use crate::error::{Error, RpcError, TokenError};
use crate::transport::TransportError;
use http::StatusCode;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp;
use interzone_protocol::zone::{self, ErrorReason, UserMessageKey};

impl Error {
    /// Returns the zone error reason: the peer's own if it sent one.
    ///
    /// ```
    /// use interzone_client::Error;
    /// use interzone_protocol::zone::{ErrorReason, UserMessageKey};
    ///
    /// let timeout = Error::TimedOut { after: std::time::Duration::from_secs(30) };
    /// assert_eq!(timeout.reason(), ErrorReason::AsyncTimeout);
    /// assert_eq!(timeout.message_key(), UserMessageKey::OutOfTime);
    /// ```
    pub fn reason(&self) -> ErrorReason {
        match self {
            Self::Rpc(refusal) => reason_of_rpc_error(refusal),
            Self::Http { status, .. } => reason_of_status(*status),
            Self::Transport(error) => reason_of_transport_error(error),
            Self::TimedOut { .. } | Self::TaskTimeout { .. } => ErrorReason::AsyncTimeout,
            Self::Poll(_) => ErrorReason::PollError,
            Self::InvalidResponse(_) => ErrorReason::InvalidResponse,
            Self::CircuitOpen { .. } => ErrorReason::Unavailable,
            Self::Token(TokenError::Unreachable(_)) => ErrorReason::Unavailable,
            Self::Token(_) => ErrorReason::AccessDenied,
            Self::Config(_) | Self::Params(_) | Self::Method => ErrorReason::InternalError,
        }
    }

    /// Returns the key of the text for users.
    pub fn message_key(&self) -> UserMessageKey {
        self.reason().message_key()
    }
}

fn reason_of_rpc_error(error: &RpcError) -> ErrorReason {
    let name = error.data_field::<String>("error_code");
    if let Some(reason) = name.and_then(|word| ErrorReason::from_name(&word)) {
        return reason;
    }
    match error.code {
        ErrorCode::PARSE_ERROR => ErrorReason::ParseError,
        ErrorCode::INVALID_REQUEST => ErrorReason::InvalidRequest,
        ErrorCode::METHOD_NOT_FOUND => ErrorReason::MethodNotFound,
        ErrorCode::INVALID_PARAMS => ErrorReason::InvalidParams,
        zone::codes::TIMEOUT => ErrorReason::AsyncTimeout,
        zone::codes::PLATFORM_THROTTLED => ErrorReason::Throttling,
        acp::codes::RATE_LIMITED => ErrorReason::RateLimited,
        acp::codes::TASK_NOT_FOUND => ErrorReason::TaskNotFound,
        acp::codes::TASK_ALREADY_COMPLETED => ErrorReason::TaskFinished,
        acp::codes::AGENT_NOT_AVAILABLE => ErrorReason::AgentUnavailable,
        acp::codes::PERMISSION_DENIED
        | acp::codes::AUTHENTICATION_FAILED
        | acp::codes::INSUFFICIENT_SCOPE
        | acp::codes::TOKEN_EXPIRED => ErrorReason::AccessDenied,
        _ => match error.status {
            status if status.is_success() => ErrorReason::InternalError,
            status => reason_of_status(status),
        },
    }
}

fn reason_of_status(status: StatusCode) -> ErrorReason {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorReason::AccessDenied,
        StatusCode::TOO_MANY_REQUESTS => ErrorReason::Throttling,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => ErrorReason::Unavailable,
        StatusCode::GATEWAY_TIMEOUT => ErrorReason::AsyncTimeout,
        // A success status without a valid response.
        status if status.is_success() => ErrorReason::InvalidResponse,
        _ => ErrorReason::InternalError,
    }
}

fn reason_of_transport_error(error: &TransportError) -> ErrorReason {
    match error {
        TransportError::NotConnected(_) => ErrorReason::Unavailable,
        TransportError::Broken(_) => ErrorReason::ResponseReadError,
        TransportError::Unsigned(_) => ErrorReason::AccessDenied,
        TransportError::Unsupported(_) => ErrorReason::InternalError,
        TransportError::Platform { code, status } => match code.as_str() {
            "ThrottlingException" | "ServiceQuotaExceededException" => ErrorReason::Throttling,
            "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "ExpiredTokenException"
            | "MissingAuthenticationTokenException" => ErrorReason::AccessDenied,
            "ResourceNotFoundException" => ErrorReason::AgentUnavailable,
            // The container is not running yet.
            _ if *status == StatusCode::FAILED_DEPENDENCY => ErrorReason::Unavailable,
            _ if *status == StatusCode::NOT_FOUND => ErrorReason::AgentUnavailable,
            _ => reason_of_status(*status),
        },
    }
}
