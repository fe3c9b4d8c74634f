//! The door: it accepts connections, speaks TLS and HTTP on them, holds them to their limits and lets
//! them finish when the node stops. What is asked and answered is for the [`Router`] alone.
//!
//! A connection costs one task and a few words in a list. One sweep over that list finds those that
//! are too slow, so that no connection needs a timer and no request sets one.

mod addresses;
mod admission;
mod arriving;
mod connection;
mod frames;
mod heads;
mod pulse;
mod records;
mod service;
mod transfer;
mod unread;
mod unread_answers;
mod wire;

pub use admission::Sender;
pub use arriving::RequestBody;

use crate::auth::Identity;
use crate::budget::{AddressPrefix, ShareKey};
use crate::limits::HttpLimits;
use crate::request::Correlation;
use crate::telemetry::Metrics;
use crate::tls::ServerTls;
use addresses::Addresses;
use admission::Admission;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use connection::Newcomer;
use http::{HeaderValue, Request, StatusCode, header};
use pulse::{Order, Pulses};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many connections wait in the system until they are accepted; the system may allow fewer. The usual 128 are
/// exceeded when many callers connect at once, and each that is dropped then tries again only after a second.
const BACKLOG: u32 = 4096;
/// How long a failing accept is left alone, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How long connections that were cut may take to fall.
const FALL: Duration = Duration::from_secs(1);

/// The longest time between two sweeps. Until the next one, unread answers are not noticed.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// Who is at the other end of a connection. Every request has it in its extensions, as `Arc<Peer>`.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// The SHA-256 of the client's certificate, if it showed one. It has been verified.
    pub certificate: Option<[u8; 32]>,
    /// Who calls, if whoever let the connection through has proved it. A listener never says so: only a
    /// door may that knows its platform.
    pub vouched: Option<Arc<Identity>>,
}

impl Peer {
    /// To whose share counts what a caller sends who has not been authenticated.
    pub fn share_key(&self) -> ShareKey {
        ShareKey::Address(AddressPrefix::from_address(self.address.ip()))
    }
}

/// Why a request gets no answer from its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// As many requests as are allowed are being worked on. 503, to be tried again soon.
    Busy,
    /// Its body was still on its way, and so many other bodies are that it was ended. 503, to be tried again.
    TooManyArriving,
    /// The handler took longer than is allowed and was dropped. 504.
    TooSlow,
    /// It does not say for which one host it is, as HTTP/1.1 wants. 400.
    BadHost,
    /// What came first on a connection of HTTP/1.1 is no head of a request. 400, and the connection ends.
    Unreadable,
    /// As before, but its path or its headers are longer, or more, than is allowed. 431.
    HeadTooLarge,
}

/// A request as it arrives: its body may still be on the way.
pub type Arriving = Request<RequestBody>;

/// An answer that is being made.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Takes a request that the router need not see, or hands it back.
type Shortcut = dyn Fn(Arriving, &Arc<Peer>) -> ControlFlow<Answering, Arriving> + Send + Sync;
type TurnAway = dyn Fn(TurnedAway, Correlation) -> Response + Send + Sync;

/// What all connections of a listener share.
struct Shared {
    limits: HttpLimits,
    metrics: Arc<Metrics>,
    admission: Arc<Admission>,
    addresses: Arc<Addresses>,
    turn_away: Box<TurnAway>,
    shortcut: Box<Shortcut>,
    pulses: Arc<Pulses>,
    protocols: connection::Protocols,
}

impl Shared {
    /// The answer to a request that no handler answers. It is counted.
    fn turned_away(&self, why: TurnedAway, correlation: Correlation) -> Response {
        self.metrics.turned_away(match why {
            TurnedAway::Busy => "busy",
            TurnedAway::TooManyArriving => "too_many_arriving",
            TurnedAway::TooSlow => "too_slow",
            TurnedAway::BadHost => "bad_host",
            TurnedAway::Unreadable => "unreadable",
            TurnedAway::HeadTooLarge => "head_too_large",
        });
        (self.turn_away)(why, correlation)
    }
}

/// A door that is bound to its address. Nothing is accepted until [`Listener::serve`].
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    /// None where HTTP is spoken plainly.
    tls: Option<ServerTls>,
    limits: HttpLimits,
    metrics: Arc<Metrics>,
    turn_away: Box<TurnAway>,
    shortcut: Box<Shortcut>,
}

impl Listener {
    /// Takes the address; port 0 takes any free one.
    pub async fn bind(
        address: SocketAddr,
        tls: ServerTls,
        limits: HttpLimits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::bind_as(address, Some(tls), limits, metrics).await
    }

    /// As [`bind`](Self::bind), for a place whose platform ends TLS before us and lets nobody else in:
    /// HTTP/1.1 without TLS, under the same limits. Anywhere else it gives away what is said.
    pub async fn bind_plain(
        address: SocketAddr,
        limits: HttpLimits,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        Self::bind_as(address, None, limits, metrics).await
    }

    async fn bind_as(
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
            turn_away: Box::new(plainly),
            shortcut: Box::new(|request, _| ControlFlow::Continue(request)),
        })
    }

    /// The address that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// How a request is answered that no handler answers. Without this it is a line of plain text.
    #[must_use]
    pub fn turn_away_with(
        self,
        answer: impl Fn(TurnedAway, Correlation) -> Response + Send + Sync + 'static,
    ) -> Self {
        Self {
            turn_away: Box::new(answer),
            ..self
        }
    }

    /// Who sees each request first, and either answers it or hands it back for the router. Finding a
    /// route costs more than some answers do.
    #[must_use]
    pub fn shortcut(
        self,
        take: impl Fn(Arriving, &Arc<Peer>) -> ControlFlow<Answering, Arriving> + Send + Sync + 'static,
    ) -> Self {
        Self {
            shortcut: Box::new(take),
            ..self
        }
    }

    /// Serves `app` until `stop`. Then it takes no more connections, lets requests that run finish
    /// within `grace`, and cuts off what is left.
    ///
    /// A socket that became a WebSocket is its handler's to close: the handler should watch the same
    /// `stop`, or the socket is cut at the end of `grace`.
    pub async fn serve(self, app: Router, stop: CancellationToken, grace: Duration) {
        let room = self.limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let connections = Arc::new(Semaphore::new(room as usize));
        let pulses = Pulses::new();
        let shared = Arc::new(Shared {
            admission: Admission::new(&self.limits),
            addresses: Addresses::new(&self.limits),
            protocols: connection::Protocols::new(&self.limits),
            limits: self.limits,
            metrics: self.metrics,
            turn_away: self.turn_away,
            shortcut: self.shortcut,
            pulses: Arc::clone(&pulses),
        });
        let over = CancellationToken::new();
        let sweeper = tokio::spawn(sweep(Arc::clone(&shared), over.clone()));

        let mut full = false;
        while let Some((stream, address, permit)) =
            next(&self.socket, &connections, &mut full, &stop).await
        {
            let newcomer = Newcomer {
                stream,
                address,
                permit,
                tls: self.tls.as_ref().map(ServerTls::config),
            };
            tokio::spawn(connection::welcome(
                newcomer,
                app.clone(),
                Arc::clone(&shared),
                stop.clone(),
            ));
        }

        // From here on a connection is refused by the system.
        drop(self.socket);
        pulses.all(Order::Close);
        let gone = || connections.acquire_many(room);
        if tokio::time::timeout(grace, gone()).await.is_err() {
            tracing::warn!("requests were still running at the end of the grace, they are cut off");
            pulses.all(Order::Cut);
            let _ = tokio::time::timeout(FALL, gone()).await;
        }
        over.cancel();
        // It ends by the token; that it did is all we want to know.
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

/// Listens on the address, with a longer queue than that of [`TcpListener::bind`].
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A node that starts again takes its address at once. On Windows the option would let others take it too.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The next connection, as soon as there is room for it; `None` at the stop.
async fn next(
    socket: &TcpListener,
    connections: &Arc<Semaphore>,
    full: &mut bool,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    if connections.available_permits() > 0 {
        *full = false;
    } else if !std::mem::replace(full, true) {
        tracing::warn!("as many connections are open as are allowed, new ones wait");
    }
    let permit = tokio::select! {
        () = stop.cancelled() => return None,
        permit = Arc::clone(connections).acquire_owned() => permit.ok()?,
    };
    let mut pause = BACKOFF.0;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return None,
            accepted = socket.accept() => accepted,
        };
        let error = match accepted {
            Ok((stream, address)) => return Some((stream, address, permit)),
            Err(error) => error,
        };
        // These are about one caller, who is gone.
        if matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionAborted
                | std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::Interrupted
        ) {
            continue;
        }
        // The others, such as too many open files, are about us, and stay until something is closed.
        if pause == BACKOFF.0 {
            tracing::error!(%error, "connections cannot be accepted, trying again until they can");
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(BACKOFF.1),
        }
    }
}

/// Finds connections that are too slow, until `over`.
async fn sweep(shared: Arc<Shared>, over: CancellationToken) {
    let limits = &shared.limits;
    let shortest = limits.header_time.min(limits.idle).min(limits.stall);
    let step = (shortest / 4).clamp(Duration::from_millis(10), LONGEST_STEP);
    let mut clock = tokio::time::interval(step);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            _ = clock.tick() => {
                let stalled = shared.pulses.sweep(limits, tokio::time::Instant::now());
                shared.metrics.cut_off("stream_stalled", stalled.streams);
                shared.metrics.cut_off("connection_stalled", stalled.connections);
                shared.metrics.cut_off("unfinished_head", shared.addresses.sweep_heads());
            }
        }
    }
}

fn plainly(why: TurnedAway, correlation: Correlation) -> Response {
    let (status, text) = match why {
        TurnedAway::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests at this moment, try again soon\n",
        ),
        TurnedAway::TooManyArriving => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests are arriving at this moment, send it again\n",
        ),
        TurnedAway::TooSlow => (
            StatusCode::GATEWAY_TIMEOUT,
            "the request took too long and was given up\n",
        ),
        TurnedAway::BadHost => (
            StatusCode::BAD_REQUEST,
            "send one Host header, with the name of the server\n",
        ),
        TurnedAway::Unreadable => (
            StatusCode::BAD_REQUEST,
            "this is not a request of HTTP/1.1\n",
        ),
        TurnedAway::HeadTooLarge => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the path and the headers are too long, or the headers are too many\n",
        ),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if matches!(why, TurnedAway::Busy | TurnedAway::TooManyArriving) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    headers.insert(crate::request::CORRELATION, correlation.header());
    response
}
