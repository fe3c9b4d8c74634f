//! One connection, from its first byte to its last: the handshake under a deadline, then HTTP/1.1 or
//! HTTP/2 as the two sides agreed.

use super::addresses::Entered;
use super::frames::CountedFrames;
use super::pulse::{Order, Pulse};
use super::records::Records;
use super::service::Desk;
use super::transfer::StreamExecutor;
use super::unread::Explained;
use super::wire::Wire;
use super::{Peer, Shared};
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use sha2::{Digest, Sha256};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// Room for reading and for writing on one HTTP/1.1 connection. More would serve large bodies a
/// little faster, and a crowd of slow ones much worse.
const BUFFER: usize = 64 * 1024;
/// What may come on one HTTP/2 stream, and on all of a connection, before somebody reads it.
const WINDOW: (u32, u32) = (256 * 1024, 1024 * 1024);
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// How much of a plain request is read before the connection is closed, so that it is not reset
/// before its answer is read.
const PLAIN_LONGEST: usize = 16 * 1024;
const PLAIN_PATIENCE: Duration = Duration::from_secs(2);
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 57\r\n\
    connection: close\r\n\r\n\
    this door speaks HTTPS: begin the address with https://\r\n";

/// A connection that has just been accepted.
pub(super) struct Newcomer {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) permit: OwnedSemaphorePermit,
    /// None where HTTP is spoken plainly.
    pub(super) tls: Option<Arc<ServerConfig>>,
}

/// How many headers of a request hyper takes unless it is told otherwise; a test of the limits sees to it.
const HYPER_HEADERS: usize = 100;

/// How HTTP is spoken, decided once for all connections.
pub(super) struct Protocols {
    http1: http1::Builder,
}

impl Protocols {
    pub(super) fn new(limits: &HttpLimits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // The sweep does this, for less.
            .header_read_timeout(None)
            .max_header_size(limits.header_bytes)
            .max_buf_size(BUFFER.max(limits.header_bytes));
        // Told its own number, hyper would prepare the room for as many headers at every request.
        if limits.headers != HYPER_HEADERS {
            http1.max_headers(limits.headers);
        }
        Self { http1 }
    }

    /// HTTP/2 on a connection whose streams `executor` runs.
    fn http2(limits: &HttpLimits, executor: StreamExecutor) -> http2::Builder<StreamExecutor> {
        let mut http2 = http2::Builder::new(executor);
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(WINDOW.0)
            .initial_connection_window_size(WINDOW.1)
            .max_send_buf_size(BUFFER)
            // Streams that are opened and reset at once are work for nothing (CVE-2023-44487).
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(64)
            .keep_alive_interval(limits.ping)
            .keep_alive_timeout(limits.ping);
        http2
    }
}

/// Speaks with a newcomer until it goes.
pub(super) async fn welcome(
    newcomer: Newcomer,
    app: Router,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let Newcomer {
        stream,
        address,
        permit,
        tls,
    } = newcomer;
    let entry = shared.pulses.enter();
    let pulse = Arc::clone(entry.pulse());
    let prefix = AddressPrefix::from_address(address.ip());
    pulse.set_prefix(prefix);
    if tls.is_some() {
        pulse.set_encrypted();
    }
    let slot = match shared.addresses.enter(prefix, &pulse) {
        Entered::Now(slot) => slot,
        Entered::InPlaceOfAnother(slot) => {
            shared.metrics.connection_refused("displaced");
            slot
        }
        Entered::Refused => return shared.metrics.connection_refused("address_share"),
    };
    let wire = Wire {
        stream,
        entry,
        records: tls.is_some().then(Records::default),
        handshake: 0,
        _open: shared.metrics.connection(),
        _permit: permit,
        _address: slot,
    };
    // In a box of its own, for a handshake needs much room and a connection is kept much longer.
    let greeting = Box::pin({
        let pulse = Arc::clone(&pulse);
        async move {
            let Some(tls) = tls else {
                let _ = wire.stream.set_nodelay(true);
                let peer = Peer {
                    address,
                    certificate: None,
                    vouched: None,
                };
                return Some(speak(wire, false, peer, app, shared, pulse));
            };
            match greet(wire, tls, shared.limits.handshake).await {
                Ok(stream) => {
                    shared.metrics.handshake("ok");
                    let (multiplexed, peer) = agreed(&stream, address);
                    Some(speak(stream, multiplexed, peer, app, shared, pulse))
                }
                Err(why) => {
                    shared.metrics.handshake(why);
                    None
                }
            }
        }
    });
    let spoken = tokio::select! {
        () = stop.cancelled() => return,
        () = until_cut(&pulse) => return,
        spoken = greeting => spoken,
    };
    drop(stop);
    if let Some(spoken) = spoken {
        spoken.await;
        pulse.release();
    }
}

/// Waits until the connection is told to close now.
async fn until_cut(pulse: &Pulse) {
    poll_fn(|cx| match pulse.order(cx.waker()) {
        Order::Cut => Poll::Ready(()),
        Order::Go | Order::Close => Poll::Pending,
    })
    .await;
}

/// What the handshake agreed: whether it is HTTP/2, and who is at the other end.
fn agreed(stream: &TlsStream<Wire>, address: SocketAddr) -> (bool, Peer) {
    let session = stream.get_ref().1;
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let peer = Peer {
        address,
        certificate: certificate.map(|leaf| Sha256::digest(leaf).into()),
        vouched: None,
    };
    (session.alpn_protocol() == Some(b"h2"), peer)
}

/// HTTP on a connection.
///
/// This is no async function, and connections are in boxes of exactly their size: as locals of a
/// future they would be kept several times over, for as long as the connection is open.
fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    multiplexed: bool,
    peer: Peer,
    app: Router,
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let executor = multiplexed.then(StreamExecutor::default);
    let desk = Arc::new(Desk {
        app,
        streams: executor.clone(),
        prefix: AddressPrefix::from_address(peer.address.ip()),
        peer: Arc::new(peer),
        pulse: Arc::clone(&pulse),
        shared: Arc::clone(&shared),
    });
    let service = service_fn(move |request| Arc::clone(&desk).answer(request));
    pulse.drive(multiplexed);
    // An error is about one caller, who knows it already: there is nothing to do and, as callers can
    // make as many as they like, nothing to log.
    if let Some(executor) = executor {
        let frames = CountedFrames::new(stream, Arc::clone(&shared.metrics), Arc::clone(&pulse));
        let io = TokioIo::new(frames);
        let http2 = Protocols::http2(&shared.limits, executor);
        let connection = Box::pin(http2.serve_connection(io, service));
        Box::pin(drive(connection, pulse, |it| it.graceful_shutdown()))
    } else {
        let io = TokioIo::new(Explained::new(
            stream,
            Arc::clone(&shared),
            Arc::clone(&pulse),
        ));
        let connection = shared.protocols.http1.serve_connection(io, service);
        let connection = Box::pin(connection.with_upgrades());
        Box::pin(drive(connection, pulse, |it| it.graceful_shutdown()))
    }
}

/// Runs the connection to its end, and passes on what it is ordered to do.
async fn drive<C: Future>(
    mut connection: Pin<Box<C>>,
    pulse: Arc<Pulse>,
    close: impl Fn(Pin<&mut C>),
) {
    let mut closing = false;
    poll_fn(|cx| {
        match pulse.order(cx.waker()) {
            Order::Go => {}
            Order::Close => {
                if !std::mem::replace(&mut closing, true) {
                    close(connection.as_mut());
                }
            }
            Order::Cut => return Poll::Ready(()),
        }
        connection.as_mut().poll(cx).map(|_| ())
    })
    .await;
}

/// The TLS handshake, or a word for why there was none.
async fn greet(
    wire: Wire,
    tls: Arc<ServerConfig>,
    limit: Duration,
) -> Result<TlsStream<Wire>, &'static str> {
    // Answers are written whole, so there is nothing to be gained by waiting for more.
    wire.stream.set_nodelay(true).map_err(|_| "gone")?;
    timeout(limit, async {
        let mut first = [0];
        match wire.stream.peek(&mut first).await {
            Ok(1) => {}
            _ => return Err("gone"),
        }
        match first {
            [TLS_HANDSHAKE] => TlsAcceptor::from(tls)
                .accept(wire)
                .await
                .map_err(|_| "failed"),
            [byte] if byte.is_ascii_alphabetic() => {
                explain(wire).await;
                Err("plain_http")
            }
            _ => Err("not_tls"),
        }
    })
    .await
    .unwrap_or(Err("too_slow"))
}

/// Tells a caller who speaks plain HTTP what is wrong.
async fn explain(mut wire: Wire) {
    let talk = async {
        wire.write_all(PLAIN_ANSWER).await?;
        wire.shutdown().await?;
        let mut rest = [0; 1024];
        let mut read = 0;
        while read < PLAIN_LONGEST {
            match wire.read(&mut rest).await? {
                0 => break,
                more => read += more,
            }
        }
        std::io::Result::Ok(())
    };
    // Whether it was heard makes no difference to us.
    let _ = timeout(PLAIN_PATIENCE, talk).await;
}
