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
}

impl TransportError {
    /// There never was a connection.
    pub fn not_connected(source: impl Into<BoxError>) -> Self {
        Self::NotConnected(source.into().into())
    }

    /// The connection broke.
    pub fn broken(source: impl Into<BoxError>) -> Self {
        Self::Broken(source.into().into())
    }
}
