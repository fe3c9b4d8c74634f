//! HTTP listener: accepts connections, serves TLS and HTTP, enforces limits and shuts down gracefully. The [`Router`]
//! handles the requests.
//!
//! A connection costs one task and a small entry in the connection registry. One sweep over the registry finds slow
//! connections, so that no connection needs a timer and no request arms one.

mod addresses;
mod admission;
mod conn_registry;
mod connection;
mod frames;
mod head_counter;
mod heads;
mod request_body;
mod service;
mod tls_records;
mod tracked_socket;
mod transfer;
mod unread_responses;

pub use admission::PendingUpload;
pub use conn_registry::ConnectionHandle;

use crate::auth::Identity;
use crate::budget::{AddressPrefix, ShareKey};
use crate::limits::HttpLimits;
use crate::request_context::CorrelationId;
use crate::telemetry::Metrics;
use crate::tls::ServerTls;
use addresses::AddressTable;
use admission::Admission;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use conn_registry::{ConnRegistry, ShutdownOrder};
use connection::AcceptedConn;
use http::{HeaderValue, StatusCode, header};
use interzone_backoff::Backoff;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Backlog of the listening socket; the system may allow fewer. The usual 128 are exceeded when many clients connect at
/// once, and each dropped connection is retried only after a second.
const LISTEN_BACKLOG: u32 = 4096;
/// Delays between failing accepts.
const ACCEPT_BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// Time for aborted connections to close.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// Maximum time between two sweeps. Unread responses are noticed only by a sweep.
const MAX_SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Peer of a connection. Every request has it in its extensions, as `Arc<Peer>`.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Remote address.
    pub address: SocketAddr,
    /// SHA-256 of the client certificate, if there is one. It has been verified.
    pub certificate: Option<[u8; 32]>,
    /// Identity of the caller, if the platform in front of this server has authenticated it. A listener never sets it;
    /// only the endpoint of such a platform does.
    pub platform_identity: Option<Arc<Identity>>,
    /// Connection of the peer, for the limits of callers that are not authenticated. The default belongs to no
    /// connection.
    pub connection: ConnectionHandle,
}

impl Peer {
    /// Records that a caller on this connection was authenticated.
    pub(crate) fn set_authenticated(&self) {
        self.connection.set_authenticated();
    }

    /// Returns the share key of this peer while it is unauthenticated.
    pub fn share_key(&self) -> ShareKey {
        ShareKey::Address(AddressPrefix::from_address(self.address.ip()))
    }
}

/// Reason why the listener rejects a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The maximum number of requests is in flight. 503, retryable.
    Busy,
    /// The request was aborted because too many other request bodies are being received. 503, retryable.
    TooManyUploads,
    /// The handler timed out and was dropped. 504.
    Timeout,
    /// The request has no single valid `Host`, as HTTP/1.1 requires. 400.
    BadHost,
}

type RejectFn = dyn Fn(RejectReason, CorrelationId) -> Response + Send + Sync;

/// State shared by all connections of a listener.
struct ListenerShared {
    limits: HttpLimits,
    metrics: Arc<Metrics>,
    admission: Arc<Admission>,
    addresses: Arc<AddressTable>,
    on_reject: Box<RejectFn>,
    registry: Arc<ConnRegistry>,
    protocols: connection::HttpProtocols,
}

impl ListenerShared {
    /// Returns the response to a rejected request, and counts it.
    fn reject(&self, reason: RejectReason, correlation: CorrelationId) -> Response {
        self.metrics.record_rejected(match reason {
            RejectReason::Busy => "busy",
            RejectReason::TooManyUploads => "too_many_uploads",
            RejectReason::Timeout => "too_slow",
            RejectReason::BadHost => "bad_host",
        });
        (self.on_reject)(reason, correlation)
    }
}

/// A listener bound to its address. Accepts nothing until [`Listener::serve`].
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    /// None for plain HTTP.
    tls: Option<ServerTls>,
    limits: HttpLimits,
    metrics: Arc<Metrics>,
    on_reject: Box<RejectFn>,
}

impl Listener {
    /// Binds the address; port 0 selects a free port.
    pub async fn bind(
        address: SocketAddr,
        tls: ServerTls,
        limits: HttpLimits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::bind_with(address, Some(tls), limits, metrics).await
    }

    /// Like [`bind`](Self::bind), but plain HTTP/1.1 with the same limits: for a platform that terminates TLS and is
    /// the only client. Anywhere else traffic would be unencrypted.
    pub async fn bind_plain(
        address: SocketAddr,
        limits: HttpLimits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::bind_with(address, None, limits, metrics).await
    }

    async fn bind_with(
        address: SocketAddr,
        tls: Option<ServerTls>,
        limits: HttpLimits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let socket = listen(address)?;
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            tls,
            limits,
            metrics,
            on_reject: Box::new(plain_text_rejection),
        })
    }

    /// Returns the bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Sets the response to rejected requests. The default is a line of plain text.
    #[must_use]
    pub fn on_reject(
        self,
        respond: impl Fn(RejectReason, CorrelationId) -> Response + Send + Sync + 'static,
    ) -> Self {
        Self {
            on_reject: Box::new(respond),
            ..self
        }
    }

    /// Serves `app` until `stop`. Then accepts no more connections, lets running requests finish within `grace`, and
    /// aborts the others.
    ///
    /// A WebSocket must be closed by its handler: the handler should watch the same `stop`, or the socket is aborted at
    /// the end of `grace`.
    pub async fn serve(self, app: Router, stop: CancellationToken, grace: Duration) {
        let max_connections = self.limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        let max_connections = u32::try_from(max_connections).unwrap_or(u32::MAX);
        let connections = Arc::new(Semaphore::new(max_connections as usize));
        let registry = ConnRegistry::new();
        let shared = Arc::new(ListenerShared {
            admission: Admission::new(&self.limits),
            addresses: AddressTable::new(&self.limits),
            protocols: connection::HttpProtocols::new(&self.limits),
            limits: self.limits,
            metrics: self.metrics,
            on_reject: self.on_reject,
            registry: Arc::clone(&registry),
        });
        let done = CancellationToken::new();
        let sweeper = tokio::spawn(sweep(Arc::clone(&shared), done.clone()));

        let mut is_full = false;
        while let Some((stream, address, permit)) =
            accept_next(&self.socket, &connections, &mut is_full, &stop).await
        {
            let accepted = AcceptedConn {
                stream,
                address,
                permit,
                tls: self.tls.as_ref().map(ServerTls::config),
            };
            tokio::spawn(connection::serve_connection(
                accepted,
                app.clone(),
                Arc::clone(&shared),
                stop.clone(),
            ));
        }

        // From here on the system refuses connections.
        drop(self.socket);
        registry.signal_all(ShutdownOrder::Close);
        let all_closed = || connections.acquire_many(max_connections);
        if tokio::time::timeout(grace, all_closed()).await.is_err() {
            tracing::warn!("shutdown grace over, aborting running requests");
            registry.signal_all(ShutdownOrder::Abort);
            let _ = tokio::time::timeout(KILL_GRACE, all_closed()).await;
        }
        done.cancel();
        // It ends by the token; its result does not matter.
        let _ = sweeper.await;
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("address", &self.address)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Listens on the address with a longer backlog than [`TcpListener::bind`].
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restarted node can bind its address at once. On Windows the option would let other processes bind it too.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

/// Returns the next connection as soon as there is a free permit; `None` at the stop.
async fn accept_next(
    socket: &TcpListener,
    connections: &Arc<Semaphore>,
    is_full: &mut bool,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    if connections.available_permits() > 0 {
        *is_full = false;
    } else if !std::mem::replace(is_full, true) {
        tracing::warn!("connection limit reached, new connections wait");
    }
    let permit = tokio::select! {
        () = stop.cancelled() => return None,
        permit = Arc::clone(connections).acquire_owned() => permit.ok()?,
    };
    let mut failures = 0_u32;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return None,
            accepted = socket.accept() => accepted,
        };
        let error = match accepted {
            Ok((stream, address)) => return Some((stream, address, permit)),
            Err(error) => error,
        };
        // These concern one client, which has disconnected.
        if matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionAborted
                | std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::Interrupted
        ) {
            continue;
        }
        // The others, such as too many open files, concern this process, and last until something is closed.
        if failures == 0 {
            tracing::error!(%error, "accepting connections failed, retrying");
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(ACCEPT_BACKOFF.delay(failures)) => failures = failures.saturating_add(1),
        }
    }
}

/// Runs the slow-client sweep until `done`.
async fn sweep(shared: Arc<ListenerShared>, done: CancellationToken) {
    let limits = &shared.limits;
    let shortest = limits
        .header_timeout
        .min(limits.idle_timeout)
        .min(limits.stall_timeout);
    let interval = (shortest / 4).clamp(Duration::from_millis(10), MAX_SWEEP_INTERVAL);
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = done.cancelled() => return,
            _ = ticks.tick() => {
                let stalled = shared.registry.sweep(limits, tokio::time::Instant::now());
                shared.metrics.record_client_terminations("stream_stalled", stalled.streams);
                shared.metrics.record_client_terminations("connection_stalled", stalled.connections);
                shared.metrics.record_client_terminations("unfinished_head", shared.addresses.sweep_heads());
            }
        }
    }
}

fn plain_text_rejection(reason: RejectReason, correlation: CorrelationId) -> Response {
    let (status, text) = match reason {
        RejectReason::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests, try again soon\n",
        ),
        RejectReason::TooManyUploads => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests are being received, send it again\n",
        ),
        RejectReason::Timeout => (StatusCode::GATEWAY_TIMEOUT, "the request timed out\n"),
        RejectReason::BadHost => (
            StatusCode::BAD_REQUEST,
            "send one Host header, with the name of the server\n",
        ),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if matches!(reason, RejectReason::Busy | RejectReason::TooManyUploads) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    headers.insert(
        crate::request_context::CORRELATION_HEADER,
        correlation.to_header(),
    );
    response
}
