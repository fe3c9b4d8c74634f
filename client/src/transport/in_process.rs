//! In-process transport: calls a function instead of the network.

use super::{ByteStream, Transport, TransportError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Function from a request to a response.
pub type InProcessHandler = Arc<
    dyn Fn(http::Request<Bytes>) -> BoxFuture<'static, http::Response<ByteStream>> + Send + Sync,
>;

/// Transport that calls a function.
///
/// ```
/// use bytes::Bytes;
/// use futures_util::{FutureExt, StreamExt, stream};
/// use interzone_client::{Client, InProcess};
/// use std::sync::Arc;
///
/// let handler = InProcess::new(Arc::new(|_: http::Request<Bytes>| {
///     async { http::Response::new(stream::empty().boxed()) }.boxed()
/// }));
/// let client = Client::builder("https://zone.internal").transport(Arc::new(handler)).build()?;
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone)]
pub struct InProcess(InProcessHandler);

impl InProcess {
    /// Creates a transport from a function.
    pub fn new(handler: InProcessHandler) -> Self {
        Self(handler)
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

#[async_trait::async_trait]
impl Transport for InProcess {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        Ok((self.0)(request).await)
    }
}
