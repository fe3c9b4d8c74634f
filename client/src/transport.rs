//! How a request reaches a peer. A transport moves one request and one response; it knows no
//! method, no token and no retry.

pub(crate) mod https;
pub(crate) mod in_process;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use std::sync::Arc;

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response as it arrives.
pub type ByteStream = BoxStream<'static, Result<Bytes, BoxError>>;

/// Carries one request to a peer and its response back.
///
/// Give one to [`ClientBuilder::transport`](crate::ClientBuilder::transport) to call something that
/// is not at the end of an HTTPS connection; [`InProcess`](crate::InProcess) makes one of a function.
///
/// ```
/// use async_trait::async_trait;
/// use bytes::Bytes;
/// use interzone_client::{ByteStream, Transport, TransportError};
///
/// struct Nowhere;
///
/// #[async_trait]
/// impl Transport for Nowhere {
///     async fn send(
///         &self,
///         _: http::Request<Bytes>,
///     ) -> Result<http::Response<ByteStream>, TransportError> {
///         Err(TransportError::not_connected(std::io::Error::other("nowhere")))
///     }
/// }
/// ```
#[async_trait::async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends the request. The response's body may still be on its way.
    ///
    /// # Errors
    /// The peer was not reached, or the connection broke before the response began.
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError>;
}

/// To which conversation a request belongs, among its extensions: for transports that keep a session
/// for each. [`Client::with_conversation`](crate::Client::with_conversation) puts it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation(Arc<str>);

impl Conversation {
    /// A conversation by whatever name it has.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(name.as_ref().into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Why a request got no response.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// There never was a connection, so the peer has seen nothing of the request.
    #[error("no connection to the peer")]
    NotConnected(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The connection broke. The peer may have done what it was asked.
    #[error("the connection to the peer broke")]
    Broken(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// Whoever stands between us and the peer, such as a cloud's own door, refused to pass it on.
    #[error("the platform refused the call: {code} (HTTP status {status})")]
    Platform {
        /// The platform's word for it, such as `ThrottlingException`.
        code: String,
        /// The HTTP status.
        status: http::StatusCode,
    },
    /// The request could not be signed, so it was not sent.
    #[error("the request cannot be signed")]
    Unsigned(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// This transport cannot carry such a request, so it was not sent.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl TransportError {
    /// Whether the same request may get through later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::Broken(_) | Self::Unsigned(_) => true,
            Self::Platform { status, .. } => {
                crate::error::is_passing(*status) || *status == http::StatusCode::FAILED_DEPENDENCY
            }
            Self::Unsupported(_) => false,
        }
    }

    /// There never was a connection.
    pub fn not_connected(source: impl Into<BoxError>) -> Self {
        Self::NotConnected(source.into().into())
    }

    /// The connection broke.
    pub fn broken(source: impl Into<BoxError>) -> Self {
        Self::Broken(source.into().into())
    }
}
