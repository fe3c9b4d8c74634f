//! Transport abstraction: sends one request and returns one response, without knowledge of methods, tokens or
//! retries.

pub(crate) mod https;
pub(crate) mod in_process;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use std::sync::Arc;

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Response body as a stream of chunks.
pub type ByteStream = BoxStream<'static, Result<Bytes, BoxError>>;

/// Sends one request to a peer and returns its response.
///
/// Pass one to [`ClientBuilder::transport`](crate::ClientBuilder::transport) to replace HTTPS;
/// [`InProcess`](crate::InProcess) wraps a function.
///
/// ```
/// use async_trait::async_trait;
/// use bytes::Bytes;
/// use interzone_client::{ByteStream, Transport, TransportError};
///
/// struct Unreachable;
///
/// #[async_trait]
/// impl Transport for Unreachable {
///     async fn send(
///         &self,
///         _: http::Request<Bytes>,
///     ) -> Result<http::Response<ByteStream>, TransportError> {
///         Err(TransportError::not_connected(std::io::Error::other("unreachable")))
///     }
/// }
/// ```
#[async_trait::async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends the request. The response body may still be incomplete.
    ///
    /// # Errors
    /// If the peer was not reached, or the connection broke before the response began.
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError>;
}

/// Request extension with the conversation of a request, for transports with a session per conversation.
/// [`Client::with_conversation`](crate::Client::with_conversation) adds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationName(Arc<str>);

impl ConversationName {
    /// Creates a conversation name.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(name.as_ref().into())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Error of a transport.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No connection was established, so the peer did not receive the request.
    #[error("no connection to the peer")]
    NotConnected(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The connection broke. The peer may have executed the request.
    #[error("the connection to the peer broke")]
    Broken(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// An intermediary, such as a cloud platform's gateway, rejected the request.
    #[error("the platform rejected the call: {code} (HTTP status {status})")]
    Platform {
        /// The platform's error code, such as `ThrottlingException`.
        code: String,
        /// The HTTP status.
        status: http::StatusCode,
    },
    /// The request could not be signed, so it was not sent.
    #[error("the request cannot be signed")]
    Unsigned(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The transport does not support this request, so it was not sent.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl TransportError {
    /// Returns true if the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::Broken(_) | Self::Unsigned(_) => true,
            Self::Platform { status, .. } => {
                crate::error::is_transient(*status)
                    || *status == http::StatusCode::FAILED_DEPENDENCY
            }
            Self::Unsupported(_) => false,
        }
    }

    /// Creates a [`TransportError::NotConnected`].
    pub fn not_connected(source: impl Into<BoxError>) -> Self {
        Self::NotConnected(source.into().into())
    }

    /// Creates a [`TransportError::Broken`].
    pub fn broken(source: impl Into<BoxError>) -> Self {
        Self::Broken(source.into().into())
    }
}
