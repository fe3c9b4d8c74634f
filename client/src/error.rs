//! Errors of the client, and which of them can be retried.
//!
//! Errors are cheap to clone, because a failed token refresh is reported to all its waiters. They never
//! contain a token or a secret.

use crate::transport::TransportError;
use http::StatusCode;
use interzone_jsonrpc::{ErrorCode, InvalidMessageKind, RawJson};
use std::sync::Arc;
use std::time::Duration;

/// Error of a call.
///
/// ```
/// use interzone_client::{Client, Error};
///
/// let refused = Client::builder("http://agent.example").build();
/// assert!(matches!(&refused, Err(Error::Config(_))));
/// assert!(refused.is_err_and(|error| !error.is_retryable()));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The peer answered with a JSON-RPC error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The peer answered with an HTTP status and no JSON-RPC message.
    #[error("the peer answered with HTTP status {status} and no JSON-RPC message")]
    Http {
        /// The HTTP status.
        status: StatusCode,
        /// The peer's `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The peer could not be reached, or the connection broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The call timed out. It may or may not have been executed.
    #[error("no response within {} ms", after.as_millis())]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The peer's response is invalid.
    #[error(transparent)]
    InvalidResponse(#[from] InvalidResponse),
    /// The circuit breaker is open after repeated failures.
    #[error("the peer failed repeatedly, so it is not called for another {} ms", retry_in.as_millis())]
    CircuitOpen {
        /// Time until the next call is allowed.
        retry_in: Duration,
    },
    /// No token is available.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The params cannot be encoded as JSON.
    #[error("the params cannot be encoded as JSON")]
    Params(#[source] Arc<serde_json::Error>),
    /// The task is still running, but the time to wait for it is over.
    #[error("the task did not finish within {} ms", after.as_millis())]
    TaskTimeout {
        /// The task, whose result can be requested later.
        task_id: String,
        /// The time waited.
        after: Duration,
    },
    /// The result of a task could not be requested.
    #[error("the task result could not be requested: {0}")]
    Poll(#[source] Arc<Error>),
    /// The method name is invalid.
    #[error("a method name must not be empty or begin with `rpc.`")]
    Method,
}

impl Error {
    /// Returns true if the same call may succeed later. It does not mean that a write was not executed: after
    /// [`Error::TimedOut`] or a broken connection, check first.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Config(_) | Self::Params(_) | Self::Method | Self::InvalidResponse(_) => false,
            Self::Rpc(refusal) => refusal.is_retryable(),
            Self::Http { status, .. } => is_transient(*status),
            Self::Transport(error) => error.is_retryable(),
            Self::TimedOut { .. } | Self::CircuitOpen { .. } | Self::TaskTimeout { .. } => true,
            Self::Poll(error) => error.is_retryable(),
            Self::Token(error) => error.is_retryable(),
        }
    }

    /// Returns the JSON-RPC error, if the peer sent one.
    pub fn rpc_error(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the JSON-RPC error code, if the peer sent one.
    pub fn code(&self) -> Option<ErrorCode> {
        self.rpc_error().map(|error| error.code)
    }

    /// Returns the time to wait before a retry, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rpc(refusal) => refusal.retry_after,
            Self::Http { retry_after, .. } => *retry_after,
            Self::CircuitOpen { retry_in } => Some(*retry_in),
            Self::Token(TokenError::Unreachable(error)) => error.retry_after(),
            _ => None,
        }
    }
}

/// Returns true for statuses of transient failures.
pub(crate) fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// JSON-RPC error response of a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct RpcError {
    /// The JSON-RPC error code.
    pub code: ErrorCode,
    /// The error message.
    pub message: String,
    /// The `data` member, as it was sent.
    pub data: Option<RawJson<'static>>,
    /// The HTTP status of the response.
    pub status: StatusCode,
    /// The peer's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl RpcError {
    /// Returns true if the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        use interzone_protocol::acp::codes;
        self.code == codes::RATE_LIMITED
            || self.code == ErrorCode::INTERNAL_ERROR
            || self.code == codes::AGENT_NOT_AVAILABLE
            || is_transient(self.status)
    }

    /// Returns the member `name` of the data as a `T`, if it exists and has that type.
    pub fn data_field<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        let data: serde_json::Map<String, serde_json::Value> = self.data.as_ref()?.decode().ok()?;
        serde_json::from_value(data.get(name)?.clone()).ok()
    }
}

/// Error in the configuration of a client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The URL is not valid.
    #[error("the address is not an http or https URL with a host")]
    Address,
    /// The URL contains a user name or a password.
    #[error("an address must not contain a user name or a password: use credentials")]
    UserInfo,
    /// The URL is not https.
    #[error("{host} would be called over plain http: use https, or allow http for development")]
    PlainHttp {
        /// The host.
        host: String,
    },
    /// A certificate or key is not valid PEM.
    #[error("{what} cannot be read as PEM")]
    Pem {
        /// The invalid item.
        what: &'static str,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A file cannot be read.
    #[error("the CA file {path} cannot be read")]
    File {
        /// Path of the file.
        path: String,
        /// The cause.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The proxy URL is invalid.
    #[error("the proxy address is not a URL")]
    Proxy,
    /// A header value contains invalid characters.
    #[error("{what} contains characters that are not allowed in a header")]
    Header {
        /// The invalid item.
        what: &'static str,
    },
    /// The runtime ARN is invalid.
    #[error(
        "the runtime's ARN must look like arn:aws:bedrock-agentcore:REGION:ACCOUNT:runtime/NAME"
    )]
    Arn,
    /// The session id has an invalid length.
    #[error("a session id must have 33 to 256 characters")]
    Session,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// Error in a peer's response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidResponse {
    /// The response is not a valid JSON-RPC message.
    #[error("the response is not valid JSON-RPC: {0}")]
    Envelope(InvalidMessageKind),
    /// The message is not a response, or is a batch where a single response was expected, or the reverse.
    #[error("the response is not the expected kind of message")]
    UnexpectedKind,
    /// The response has the id of another call.
    #[error("the response has the id {received}, expected {expected}")]
    IdMismatch {
        /// The id of the request, as JSON.
        expected: String,
        /// The id of the response, as JSON.
        received: String,
    },
    /// Two responses of a batch have the same id.
    #[error("the batch has two responses to the call with the id {0}")]
    Duplicate(String),
    /// A call of a batch has no response.
    #[error("the batch has no response to the call with the id {0}")]
    Missing(String),
    /// The result does not match the method's type. The text may quote the result, so it must not be logged.
    #[error("the result does not match the method: {0}")]
    InvalidResult(String),
    /// The content type is not the expected one.
    #[error("the content type of the response is not {expected}")]
    ContentType {
        /// The expected content type.
        expected: &'static str,
    },
    /// The body exceeds the size limit.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// An event of a watch exceeds the size limit.
    #[error("an event is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit.
        limit: usize,
    },
}

/// Error while getting a token.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The peer requires a token and the client has no credentials.
    #[error("the peer requires a token: configure credentials for the client")]
    NoCredentials,
    /// No token endpoint was discovered.
    #[error("the token endpoint cannot be found: set it in the credentials")]
    NoEndpoint,
    /// The issuer or one of its endpoints is not https.
    #[error("the authorization server {host} cannot be used: it must be https")]
    Insecure {
        /// Host of the URL.
        host: String,
    },
    /// The issuer's metadata are invalid.
    #[error("the authorization server's metadata are invalid: {0}")]
    Metadata(&'static str),
    /// The issuer rejected the request.
    #[error("the authorization server rejected the request: {error}{}", description_suffix(description.as_deref()))]
    Refused {
        /// The RFC 6749 error code, such as `invalid_client`.
        error: String,
        /// The issuer's error description.
        description: Option<String>,
        /// The HTTP status.
        status: StatusCode,
    },
    /// The issuer's response is not a bearer token.
    #[error("the authorization server's response is not a bearer token")]
    InvalidResponse,
    /// The issuer could not be reached.
    #[error("the authorization server cannot be reached")]
    Unreachable(#[source] Arc<Error>),
    /// The session has expired and has no valid refresh token.
    #[error("the session has expired: log in again")]
    SessionExpired,
    /// A login did not succeed.
    #[error("the login failed: {0}")]
    Login(&'static str),
    /// A custom token source failed.
    #[error("the token source failed")]
    Source(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// Formats an optional description as a suffix.
fn description_suffix(text: Option<&str>) -> String {
    text.map(|text| format!(" ({text})")).unwrap_or_default()
}

impl TokenError {
    /// Returns true if a retry may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.is_retryable(),
            Self::Refused { status, .. } => is_transient(*status),
            Self::Source(_) => true,
            _ => false,
        }
    }
}
