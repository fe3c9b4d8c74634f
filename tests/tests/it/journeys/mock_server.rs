//! Small HTTP server inside a test: an issuer's keys, a webhook receiver.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A received request with its body.
pub(crate) struct MockRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl MockRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self
            .headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        value.to_str().unwrap()
    }
}

/// Response of the mock server.
pub(crate) type MockResponse = Response<Full<Bytes>>;

pub(crate) fn json_response(status: u16, body: impl Into<Bytes>) -> MockResponse {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

pub(crate) struct MockServer {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl MockServer {
    pub(crate) async fn start(
        handler: impl Fn(MockRequest) -> MockResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler = Arc::new(handler);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let handler = handler.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| serve(request, handler.clone()));
                    // A client that disconnects is no error.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    request: Request<Incoming>,
    handler: Arc<impl Fn(MockRequest) -> MockResponse + Send + Sync + 'static>,
) -> Result<MockResponse, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(json_response(400, ""));
    };
    Ok(handler(MockRequest {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: body.to_bytes(),
    }))
}
