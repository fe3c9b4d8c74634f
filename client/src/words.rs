//! Every error by a stable word, and by the key under which a user's words for it are found. What a
//! user reads is written by whoever talks to users.

use crate::error::{Error, Refusal, TokenError};
use crate::transport::TransportError;
use http::StatusCode;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp;
use interzone_protocol::zone::{self, ErrorWord, MessageKey};

impl Error {
    /// What went wrong, by the word that the zones have for it: the peer's own if it sent one.
    ///
    /// ```
    /// use interzone_client::Error;
    /// use interzone_protocol::zone::{ErrorWord, MessageKey};
    ///
    /// let late = Error::TimedOut { after: std::time::Duration::from_secs(30) };
    /// assert_eq!(late.error_word(), ErrorWord::AsyncTimeout);
    /// assert_eq!(late.message_key(), MessageKey::OutOfTime);
    /// ```
    pub fn error_word(&self) -> ErrorWord {
        match self {
            Self::Refused(refusal) => of_refusal(refusal),
            Self::Http { status, .. } => of_status(*status),
            Self::Transport(error) => of_transport(error),
            Self::TimedOut { .. } | Self::OutOfTime { .. } => ErrorWord::AsyncTimeout,
            Self::Poll(_) => ErrorWord::PollError,
            Self::Answer(_) => ErrorWord::InvalidResponse,
            Self::CircuitOpen { .. } => ErrorWord::Unavailable,
            Self::Token(TokenError::Unreachable(_)) => ErrorWord::Unavailable,
            Self::Token(_) => ErrorWord::AccessDenied,
            Self::Config(_) | Self::Params(_) | Self::Method => ErrorWord::InternalError,
        }
    }

    /// By which key the words for the user are found.
    pub fn message_key(&self) -> MessageKey {
        self.error_word().message_key()
    }
}

fn of_refusal(refusal: &Refusal) -> ErrorWord {
    let word = refusal.detail::<String>("error_code");
    if let Some(word) = word.and_then(|word| ErrorWord::from_name(&word)) {
        return word;
    }
    match refusal.code {
        ErrorCode::PARSE_ERROR => ErrorWord::ParseError,
        ErrorCode::INVALID_REQUEST => ErrorWord::InvalidRequest,
        ErrorCode::METHOD_NOT_FOUND => ErrorWord::MethodNotFound,
        ErrorCode::INVALID_PARAMS => ErrorWord::InvalidParams,
        zone::codes::TIMEOUT => ErrorWord::AsyncTimeout,
        zone::codes::PLATFORM_THROTTLED => ErrorWord::Throttling,
        acp::codes::RATE_LIMITED => ErrorWord::RateLimited,
        acp::codes::TASK_NOT_FOUND => ErrorWord::TaskNotFound,
        acp::codes::TASK_ALREADY_COMPLETED => ErrorWord::TaskFinished,
        acp::codes::AGENT_NOT_AVAILABLE => ErrorWord::AgentUnavailable,
        acp::codes::PERMISSION_DENIED
        | acp::codes::AUTHENTICATION_FAILED
        | acp::codes::INSUFFICIENT_SCOPE
        | acp::codes::TOKEN_EXPIRED => ErrorWord::AccessDenied,
        _ => match refusal.status {
            status if status.is_success() => ErrorWord::InternalError,
            status => of_status(status),
        },
    }
}

fn of_status(status: StatusCode) -> ErrorWord {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorWord::AccessDenied,
        StatusCode::TOO_MANY_REQUESTS => ErrorWord::Throttling,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => ErrorWord::Unavailable,
        StatusCode::GATEWAY_TIMEOUT => ErrorWord::AsyncTimeout,
        // It says that all is well, and says nothing else.
        status if status.is_success() => ErrorWord::InvalidResponse,
        _ => ErrorWord::InternalError,
    }
}

fn of_transport(error: &TransportError) -> ErrorWord {
    match error {
        TransportError::NotConnected(_) => ErrorWord::Unavailable,
        TransportError::Broken(_) => ErrorWord::ResponseReadError,
        TransportError::Unsigned(_) => ErrorWord::AccessDenied,
        TransportError::Unsupported(_) => ErrorWord::InternalError,
        TransportError::Platform { code, status } => match code.as_str() {
            "ThrottlingException" | "ServiceQuotaExceededException" => ErrorWord::Throttling,
            "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "ExpiredTokenException"
            | "MissingAuthenticationTokenException" => ErrorWord::AccessDenied,
            "ResourceNotFoundException" => ErrorWord::AgentUnavailable,
            // Its container is not up yet.
            _ if *status == StatusCode::FAILED_DEPENDENCY => ErrorWord::Unavailable,
            _ if *status == StatusCode::NOT_FOUND => ErrorWord::AgentUnavailable,
            _ => of_status(*status),
        },
    }
}
