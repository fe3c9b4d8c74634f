//! What can go wrong between a caller and an agent, and whether trying again helps.
//!
//! Errors are cheap to clone, because one failed refresh of a token is told to many waiters. No
//! token or secret may enter one.

use crate::transport::TransportError;
use http::StatusCode;
use interzone_jsonrpc::{ErrorCode, Problem, RawJson};
use std::sync::Arc;
use std::time::Duration;

/// Why a call did not succeed.
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
    /// The client cannot be built like this.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The peer answered with an error of its dialect.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The peer answered with an HTTP status and no JSON-RPC message.
    #[error("the peer answered with HTTP status {status} and no JSON-RPC message")]
    Http {
        /// The status.
        status: StatusCode,
        /// How long the peer asks to wait.
        retry_after: Option<Duration>,
    },
    /// The peer could not be reached, or the connection broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The call took longer than it may. Whether it was done is not known.
    #[error("no answer within {} ms", after.as_millis())]
    TimedOut {
        /// How long it was given.
        after: Duration,
    },
    /// The peer's answer cannot be understood.
    #[error(transparent)]
    Answer(#[from] AnswerFault),
    /// The peer failed so often that it is left alone for a while.
    #[error("the peer failed repeatedly, so it is not called for another {} ms", retry_in.as_millis())]
    CircuitOpen {
        /// When the next call may try again.
        retry_in: Duration,
    },
    /// No token could be had.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The params have no JSON form.
    #[error("the params cannot be written as JSON")]
    Params(#[source] Arc<serde_json::Error>),
    /// The task goes on, but the time to wait for it is over.
    #[error("the task was not done within {} ms", after.as_millis())]
    OutOfTime {
        /// The task, which can be asked about later.
        task_id: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// What came of a task could not be asked.
    #[error("what came of the task cannot be asked: {0}")]
    Poll(#[source] Arc<Error>),
    /// The name cannot be a method's.
    #[error("a method needs a name that is not empty and does not begin with `rpc.`")]
    Method,
}

impl Error {
    /// Whether the same call may succeed later without anybody changing anything. It does not say
    /// that a write was not done: after [`Error::TimedOut`] or a broken connection, look first.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Config(_) | Self::Params(_) | Self::Method | Self::Answer(_) => false,
            Self::Refused(refusal) => refusal.is_retryable(),
            Self::Http { status, .. } => is_passing(*status),
            Self::Transport(error) => error.is_retryable(),
            Self::TimedOut { .. } | Self::CircuitOpen { .. } | Self::OutOfTime { .. } => true,
            Self::Poll(error) => error.is_retryable(),
            Self::Token(error) => error.is_retryable(),
        }
    }

    /// The refusal, if the peer sent one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The JSON-RPC error code, if the peer sent one.
    pub fn code(&self) -> Option<ErrorCode> {
        self.refusal().map(|refusal| refusal.code)
    }

    /// How long to wait before trying again, if anybody said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            Self::Http { retry_after, .. } => *retry_after,
            Self::CircuitOpen { retry_in } => Some(*retry_in),
            Self::Token(TokenError::Unreachable(error)) => error.retry_after(),
            _ => None,
        }
    }
}

/// Statuses that say "not now" and not "never".
pub(crate) fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// An error that the peer sent: its code, its words and whatever data came with them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct Refusal {
    /// The JSON-RPC error code.
    pub code: ErrorCode,
    /// The peer's words.
    pub message: String,
    /// What else the peer tells, as it was sent.
    pub data: Option<RawJson<'static>>,
    /// The HTTP status it came with.
    pub status: StatusCode,
    /// How long the peer asks to wait.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        use interzone_protocol::acp::codes;
        self.code == codes::RATE_LIMITED
            || self.code == ErrorCode::INTERNAL_ERROR
            || self.code == codes::AGENT_NOT_AVAILABLE
            || is_passing(self.status)
    }

    /// The member `name` of the data as a `T`, if it is there and is one.
    pub fn detail<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        let data: serde_json::Map<String, serde_json::Value> = self.data.as_ref()?.decode().ok()?;
        serde_json::from_value(data.get(name)?.clone()).ok()
    }
}

/// Why a client cannot be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The address is not a URL that can be called.
    #[error("the address is not an http or https URL with a host")]
    Address,
    /// The address names a user or a password.
    #[error("an address must not carry a user name or a password: use credentials")]
    UserInfo,
    /// The address is not https.
    #[error("{host} would be called over plain http: use https, or allow http for development")]
    PlainHttp {
        /// The host.
        host: String,
    },
    /// A certificate or key cannot be read.
    #[error("{what} cannot be read as PEM")]
    Pem {
        /// Which one.
        what: &'static str,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A file cannot be read.
    #[error("the CA file {path} cannot be read")]
    File {
        /// Which one.
        path: String,
        /// Why.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The proxy's address is not a URL.
    #[error("the proxy's address is not a URL")]
    Proxy,
    /// A header's value has characters that no header may have.
    #[error("{what} has characters that no header may have")]
    Header {
        /// Which one.
        what: &'static str,
    },
    /// The runtime's name is not one.
    #[error(
        "the runtime's ARN must look like arn:aws:bedrock-agentcore:REGION:ACCOUNT:runtime/NAME"
    )]
    Arn,
    /// The session's id does not fit.
    #[error("a session's id must have 33 to 256 characters")]
    Session,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// Why an answer cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// It is not a valid message.
    #[error("the answer is not valid JSON-RPC: {0}")]
    Envelope(Problem),
    /// It is a message, but not a response, or a batch where one was due, or the reverse.
    #[error("the answer is not the kind of message that was due")]
    Kind,
    /// It answers another call.
    #[error("the answer's id is {received}, and {expected} was asked")]
    IdMismatch {
        /// The id that was sent, as JSON.
        expected: String,
        /// The id that came back, as JSON.
        received: String,
    },
    /// One call of a batch was answered twice.
    #[error("the id {0} was answered twice")]
    Duplicate(String),
    /// One call of a batch was not answered.
    #[error("the batch has no answer to the call with the id {0}")]
    Missing(String),
    /// The result is not what the method gives. The words may quote it, so they are for the caller
    /// and not for a log.
    #[error("the result is not what the method gives: {0}")]
    Result(String),
    /// The body is not JSON, by its own account.
    #[error("the answer's content type is not {expected}")]
    ContentType {
        /// What was due.
        expected: &'static str,
    },
    /// The body is larger than the client takes.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// An event of a watch is larger than the client takes.
    #[error("an event is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit.
        limit: usize,
    },
}

/// Why no token could be had.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The client has no credentials, and the peer wants some.
    #[error("the peer wants a token: give the client credentials")]
    NoCredentials,
    /// Nobody says where tokens are issued.
    #[error("the token endpoint cannot be found: name it in the credentials")]
    NoEndpoint,
    /// The issuer, or one of its endpoints, may not be used.
    #[error("the authorization server {host} may not be used: it must be https")]
    Insecure {
        /// Its host.
        host: String,
    },
    /// The issuer's metadata contradict themselves.
    #[error("the authorization server's metadata cannot be used: {0}")]
    Metadata(&'static str),
    /// The issuer refused.
    #[error("the authorization server refused: {error}{}", described(description.as_deref()))]
    Refused {
        /// The error's name by RFC 6749, such as `invalid_client`.
        error: String,
        /// More words of the issuer.
        description: Option<String>,
        /// The HTTP status.
        status: StatusCode,
    },
    /// The issuer's answer is not a token.
    #[error("the authorization server's answer is not a bearer token")]
    Answer,
    /// The issuer could not be reached.
    #[error("the authorization server cannot be reached")]
    Unreachable(#[source] Arc<Error>),
    /// The session is over and has no refresh token.
    #[error("the session has expired: log in again")]
    SessionOver,
    /// A login did not succeed.
    #[error("the login failed: {0}")]
    Login(&'static str),
    /// A token source of the caller's own failed.
    #[error("the token source failed")]
    Source(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// Words to follow others, if there are any.
fn described(words: Option<&str>) -> String {
    words.map(|words| format!(" ({words})")).unwrap_or_default()
}

impl TokenError {
    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.is_retryable(),
            Self::Refused { status, .. } => is_passing(*status),
            Self::Source(_) => true,
            _ => false,
        }
    }
}
