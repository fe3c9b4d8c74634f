//! Serves one connection: the TLS handshake with a timeout, then HTTP/1.1 or HTTP/2 as negotiated by ALPN.

use super::addresses::AddressAdmission;
use super::conn_registry::{ConnState, ConnectionHandle, ShutdownOrder};
use super::frames::FrameLimitedIo;
use super::head_counter::HeadCounter;
use super::service::ConnService;
use super::tls_records::TlsRecordTracker;
use super::tracked_socket::TrackedSocket;
use super::transfer::StreamExecutor;
use super::{ListenerShared, Peer};
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

/// Read and write buffer size of an HTTP/1.1 connection. More would serve large bodies a little faster, but many slow
/// connections much worse.
const BUFFER_BYTES: usize = 64 * 1024;
/// Flow-control windows of an HTTP/2 stream and of the whole connection.
const H2_WINDOWS: (u32, u32) = (256 * 1024, 1024 * 1024);
/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Maximum bytes of a plain-HTTP request that are read before the connection is closed, so that it is not reset before
/// its response is read.
const MAX_PLAIN_REQUEST_BYTES: usize = 16 * 1024;
const PLAIN_REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const USE_HTTPS_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 53\r\n\
    connection: close\r\n\r\n\
    this server requires HTTPS: use an https:// address\r\n";

/// An accepted connection.
pub(super) struct AcceptedConn {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) permit: OwnedSemaphorePermit,
    /// None for plain HTTP.
    pub(super) tls: Option<Arc<ServerConfig>>,
}

/// Default header limit of hyper; a test of the limits checks it.
const HYPER_DEFAULT_HEADERS: usize = 100;

/// HTTP configuration, shared by all connections.
pub(super) struct HttpProtocols {
    http1: http1::Builder,
}

impl HttpProtocols {
    pub(super) fn new(limits: &HttpLimits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // The sweep does this at lower cost.
            .header_read_timeout(None)
            .max_header_size(limits.header_bytes)
            .max_buf_size(BUFFER_BYTES.max(limits.header_bytes));
        // With an explicit limit, even the default, hyper allocates the header slots for every request.
        if limits.headers != HYPER_DEFAULT_HEADERS {
            http1.max_headers(limits.headers);
        }
        Self { http1 }
    }

    /// Returns the HTTP/2 configuration of a connection whose streams `executor` runs.
    fn http2(limits: &HttpLimits, executor: StreamExecutor) -> http2::Builder<StreamExecutor> {
        let mut http2 = http2::Builder::new(executor);
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.http2_streams)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(H2_WINDOWS.0)
            .initial_connection_window_size(H2_WINDOWS.1)
            .max_send_buf_size(BUFFER_BYTES)
            // Streams that are opened and reset at once are wasted work (CVE-2023-44487).
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(64)
            .keep_alive_interval(limits.http2_ping_interval)
            .keep_alive_timeout(limits.http2_ping_interval);
        http2
    }
}

/// Serves an accepted connection until it is closed.
pub(super) async fn serve_connection(
    accepted: AcceptedConn,
    app: Router,
    shared: Arc<ListenerShared>,
    stop: CancellationToken,
) {
    let AcceptedConn {
        stream,
        address,
        permit,
        tls,
    } = accepted;
    let registration = shared.registry.register();
    let conn = Arc::clone(registration.conn());
    let prefix = AddressPrefix::from_address(address.ip());
    conn.set_prefix(prefix);
    if tls.is_some() {
        conn.set_uses_tls();
    }
    let slot = match shared.addresses.admit(prefix, &conn) {
        AddressAdmission::Admitted(slot) => slot,
        AddressAdmission::AdmittedByEviction(slot) => {
            shared.metrics.record_connection_rejected("displaced");
            slot
        }
        AddressAdmission::Rejected => {
            return shared.metrics.record_connection_rejected("address_share");
        }
    };
    let wire = TrackedSocket {
        stream,
        registration,
        records: tls.is_some().then(TlsRecordTracker::default),
        handshake_bytes: 0,
        _open: shared.metrics.track_connection(),
        _permit: permit,
        _address: slot,
    };
    // Boxed separately: a handshake needs much memory, and the connection lives much longer.
    let handshake = Box::pin({
        let conn = Arc::clone(&conn);
        async move {
            let Some(tls) = tls else {
                let _ = wire.stream.set_nodelay(true);
                let peer = Peer {
                    address,
                    certificate: None,
                    platform_identity: None,
                    connection: ConnectionHandle::new(&conn),
                };
                return Some(serve_http(wire, false, peer, app, shared, conn));
            };
            match tls_handshake(wire, tls, shared.limits.handshake_timeout).await {
                Ok(stream) => {
                    shared.metrics.record_handshake("ok");
                    let (multiplexed, peer) = negotiated(&stream, address, &conn);
                    Some(serve_http(stream, multiplexed, peer, app, shared, conn))
                }
                Err(outcome) => {
                    shared.metrics.record_handshake(outcome);
                    None
                }
            }
        }
    });
    let serving = tokio::select! {
        () = stop.cancelled() => return,
        () = until_aborted(&conn) => return,
        spoken = handshake => spoken,
    };
    drop(stop);
    if let Some(serving) = serving {
        serving.await;
        conn.end_http();
    }
}

/// Waits until the connection is ordered to abort.
async fn until_aborted(conn: &ConnState) {
    poll_fn(|cx| match conn.poll_order(cx.waker()) {
        ShutdownOrder::Abort => Poll::Ready(()),
        ShutdownOrder::KeepOpen | ShutdownOrder::Close => Poll::Pending,
    })
    .await;
}

/// Returns the result of the handshake: true for HTTP/2 (ALPN), and the peer.
fn negotiated(
    stream: &TlsStream<TrackedSocket>,
    address: SocketAddr,
    conn: &Arc<ConnState>,
) -> (bool, Peer) {
    let session = stream.get_ref().1;
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let peer = Peer {
        address,
        certificate: certificate.map(|leaf| Sha256::digest(leaf).into()),
        platform_identity: None,
        connection: ConnectionHandle::new(conn),
    };
    (session.alpn_protocol() == Some(b"h2"), peer)
}

/// Serves HTTP on a connection.
///
/// Not an async function, and connections are boxed individually: as locals of a future they would be stored several
/// times over, for as long as the connection is open.
fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
    peer: Peer,
    app: Router,
    shared: Arc<ListenerShared>,
    conn: Arc<ConnState>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let executor = is_http2.then(StreamExecutor::default);
    let service = Arc::new(ConnService {
        app,
        streams: executor.clone(),
        prefix: AddressPrefix::from_address(peer.address.ip()),
        peer: Arc::new(peer),
        conn: Arc::clone(&conn),
        shared: Arc::clone(&shared),
    });
    let service = service_fn(move |request| Arc::clone(&service).handle(request));
    conn.start_http(is_http2);
    if let Some(executor) = executor {
        let frames = FrameLimitedIo::new(stream, Arc::clone(&shared.metrics), Arc::clone(&conn));
        let io = TokioIo::new(frames);
        let http2 = HttpProtocols::http2(&shared.limits, executor);
        let connection = Box::pin(http2.serve_connection(io, service));
        Box::pin(poll_with_shutdown(connection, conn, shared, |it| {
            it.graceful_shutdown()
        }))
    } else {
        let io = TokioIo::new(HeadCounter::new(stream, Arc::clone(&conn)));
        let connection = shared.protocols.http1.serve_connection(io, service);
        let connection = Box::pin(connection.with_upgrades());
        Box::pin(poll_with_shutdown(connection, conn, shared, |it| {
            it.graceful_shutdown()
        }))
    }
}

/// Polls the connection to its end, and applies shutdown orders.
async fn poll_with_shutdown<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<Box<C>>,
    conn: Arc<ConnState>,
    shared: Arc<ListenerShared>,
    close: impl Fn(Pin<&mut C>),
) {
    let mut closing = false;
    poll_fn(|cx| {
        match conn.poll_order(cx.waker()) {
            ShutdownOrder::KeepOpen => {}
            ShutdownOrder::Close => {
                if !std::mem::replace(&mut closing, true) {
                    close(connection.as_mut());
                }
            }
            ShutdownOrder::Abort => return Poll::Ready(()),
        }
        connection.as_mut().poll(cx).map(|result| {
            if let Err(error) = result {
                count_parse_error(&shared, &error);
            }
        })
    })
    .await;
}

/// Counts a request that the HTTP library rejected. Errors are not logged, because clients can cause any number of them.
fn count_parse_error(shared: &ListenerShared, error: &hyper::Error) {
    if error.is_parse_too_large() {
        shared.metrics.record_rejected("head_too_large");
    } else if error.is_parse() {
        shared.metrics.record_rejected("unreadable");
    }
}

/// Performs the TLS handshake. Returns the outcome label on failure.
async fn tls_handshake(
    wire: TrackedSocket,
    tls: Arc<ServerConfig>,
    limit: Duration,
) -> Result<TlsStream<TrackedSocket>, &'static str> {
    // Responses are written completely, so waiting for more data (Nagle) gains nothing.
    wire.stream.set_nodelay(true).map_err(|_| "disconnected")?;
    timeout(limit, async {
        let mut first = [0];
        match wire.stream.peek(&mut first).await {
            Ok(1) => {}
            _ => return Err("disconnected"),
        }
        match first {
            [TLS_HANDSHAKE] => TlsAcceptor::from(tls)
                .accept(wire)
                .await
                .map_err(|_| "failed"),
            [byte] if byte.is_ascii_alphabetic() => {
                reply_use_https(wire).await;
                Err("plain_http")
            }
            _ => Err("not_tls"),
        }
    })
    .await
    .unwrap_or(Err("too_slow"))
}

/// Answers a plain-HTTP request with a hint to use https.
async fn reply_use_https(mut wire: TrackedSocket) {
    let reply = async {
        wire.write_all(USE_HTTPS_RESPONSE).await?;
        wire.shutdown().await?;
        let mut discarded = [0; 1024];
        let mut read = 0;
        while read < MAX_PLAIN_REQUEST_BYTES {
            match wire.read(&mut discarded).await? {
                0 => break,
                more => read += more,
            }
        }
        std::io::Result::Ok(())
    };
    // Best effort.
    let _ = timeout(PLAIN_REPLY_TIMEOUT, reply).await;
}
