//! Upper bound: hyper behind TLS with a constant response, in its own process.
//!
//! A GET opens a silent stream; `POST /broadcast` broadcasts its body to all streams, to compare the cost of idle
//! streams and the fan-out latency.

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

/// Serves for ever. Prints its port on the first line.
pub(crate) async fn serve(config: Arc<ServerConfig>, answer: Bytes) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let acceptor = TlsAcceptor::from(config);
    let streams = Arc::new(StreamSet::default());
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (acceptor, answer, streams) = (acceptor.clone(), answer.clone(), streams.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request| {
                reply(request, answer.clone(), streams.clone())
            });
            // Clients hang up when they are done; that is not an error.
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn reply(
    request: Request<Incoming>,
    answer: Bytes,
    streams: Arc<StreamSet>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    if request.method() == Method::GET {
        let response = Response::builder().header("content-type", "text/event-stream");
        let body = StreamBody {
            streams,
            frames_sent: 0,
        };
        return Ok(response.body(body.boxed()).unwrap());
    }
    let is_broadcast = request.uri().path() == "/broadcast";
    let body = request.into_body().collect().await?;
    if is_broadcast {
        streams.broadcast(body.to_bytes());
    }
    let response = Response::builder().header("content-type", "application/json");
    let body = http_body_util::Full::new(answer).boxed();
    Ok(response.body(body).unwrap())
}

/// All open streams and the message broadcast to them.
#[derive(Default)]
struct StreamSet {
    message: OnceLock<Bytes>,
    waiting: Mutex<Vec<Waker>>,
}

impl StreamSet {
    fn broadcast(&self, message: Bytes) {
        let _ = self.message.set(message);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Body of a stream: a greeting, then the broadcast message, then nothing.
struct StreamBody {
    streams: Arc<StreamSet>,
    frames_sent: u8,
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.frames_sent {
            0 => Bytes::from_static(b": hello\n\n"),
            1 => {
                let mut waiting = self.streams.waiting.lock().unwrap();
                match self.streams.message.get() {
                    Some(message) => message.clone(),
                    None => {
                        waiting.push(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
            _ => return Poll::Pending,
        };
        self.frames_sent += 1;
        Poll::Ready(Some(Ok(Frame::data(next))))
    }
}
