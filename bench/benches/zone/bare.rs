//! The limit: hyper behind TLS, which answers a constant and knows nothing else.
//!
//! It runs in a process of its own, as the zone does. Streams are opened by any GET; they stay open
//! and silent, so that what an idle one costs can be compared.

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Serves for ever. The first line that it prints is its port.
pub(crate) async fn serve(config: Arc<ServerConfig>, answer: Bytes) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let acceptor = TlsAcceptor::from(config);
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request| reply(request, answer.clone()));
            // Whoever measures hangs up when they are done, which is no failure.
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn reply(
    request: Request<Incoming>,
    answer: Bytes,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    if request.method() == Method::GET {
        let response = Response::builder().header("content-type", "text/event-stream");
        return Ok(response.body(Silent::default().boxed()).unwrap());
    }
    request.into_body().collect().await?;
    let response = Response::builder().header("content-type", "application/json");
    let body = http_body_util::Full::new(answer).boxed();
    Ok(response.body(body).unwrap())
}

/// Says hello, and then nothing more.
#[derive(Default)]
struct Silent {
    greeted: bool,
}

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::replace(&mut self.greeted, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": hello\n\n")))))
    }
}
