//! The limit: hyper behind TLS, which answers a constant and knows nothing else.
//!
//! It runs in a process of its own, as the zone does. Streams are opened by any GET; they stay open
//! and silent until `POST /tell`, whose body all of them are sent, so that what an idle one costs and how
//! soon all can hear of something can be compared.

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
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Serves for ever. The first line that it prints is its port.
pub(crate) async fn serve(config: Arc<ServerConfig>, answer: Bytes) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let acceptor = TlsAcceptor::from(config);
    let crowd = Arc::new(Crowd::default());
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (acceptor, answer, crowd) = (acceptor.clone(), answer.clone(), crowd.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request| {
                reply(request, answer.clone(), crowd.clone())
            });
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
    crowd: Arc<Crowd>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    if request.method() == Method::GET {
        let response = Response::builder().header("content-type", "text/event-stream");
        let silent = Silent { crowd, said: 0 };
        return Ok(response.body(silent.boxed()).unwrap());
    }
    let tells = request.uri().path() == "/tell";
    let body = request.into_body().collect().await?;
    if tells {
        crowd.tell(body.to_bytes());
    }
    let response = Response::builder().header("content-type", "application/json");
    let body = http_body_util::Full::new(answer).boxed();
    Ok(response.body(body).unwrap())
}

/// All streams, and the one thing that they are told.
#[derive(Default)]
struct Crowd {
    told: OnceLock<Bytes>,
    waiting: Mutex<Vec<Waker>>,
}

impl Crowd {
    fn tell(&self, what: Bytes) {
        let _ = self.told.set(what);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Says hello, waits for the one thing that all are told, and then says nothing more.
struct Silent {
    crowd: Arc<Crowd>,
    said: u8,
}

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.said {
            0 => Bytes::from_static(b": hello\n\n"),
            1 => {
                let mut waiting = self.crowd.waiting.lock().unwrap();
                match self.crowd.told.get() {
                    Some(told) => told.clone(),
                    None => {
                        waiting.push(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
            _ => return Poll::Pending,
        };
        self.said += 1;
        Poll::Ready(Some(Ok(Frame::data(next))))
    }
}
