//! A small HTTP server for a test to be the other side: an issuer's keys, a receiver of webhooks.

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

/// What was asked, whole.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self
            .headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        value.to_str().unwrap()
    }
}

/// What is answered.
pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Web {
    pub(crate) async fn start(handler: impl Fn(Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler = Arc::new(handler);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let handler = handler.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| serve(request, handler.clone()));
                    // Whoever hangs up is done.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    request: Request<Incoming>,
    handler: Arc<impl Fn(Asked) -> Answer + Send + Sync + 'static>,
) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(answer(400, ""));
    };
    Ok(handler(Asked {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: body.to_bytes(),
    }))
}
