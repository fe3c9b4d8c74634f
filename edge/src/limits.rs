//! How much a caller may ask of a door: sizes, counts and times. Numbers only; who keeps to them and
//! what a refusal looks like is decided elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of one listener. The defaults suit a server on the open internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Memory for the larger bodies of all requests together. Clones of these limits share it.
    pub bodies: BodyRoom,
    /// The same for the larger answers, from when they are written until they are sent.
    pub answers: BodyRoom,
    /// Bytes of a request's head: the line, and all headers together.
    pub header_bytes: usize,
    /// Headers of one request.
    pub headers: usize,
    /// Time for the TLS handshake, from the moment the connection is accepted.
    pub handshake: Duration,
    /// Time for a request's head, from its first byte. A connection that says nothing after its
    /// handshake has the same time. This, `idle` and `stall` are checked in steps of a second at most.
    pub header_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
    /// Time until a handler must have begun its answer. A watch, once begun, may last.
    pub request_time: Duration,
    /// How long a connection may be open with no request.
    pub idle: Duration,
    /// How long the other side may leave what we send unread.
    pub stall: Duration,
    /// Connections at the same time; further ones wait in the queue of the operating system.
    pub connections: usize,
    /// Requests that handlers work on at the same time, over all connections. An answer that is being
    /// sent, such as a watch, no longer counts.
    pub requests: usize,
    /// Requests at the same time on one HTTP/2 connection, watches included.
    pub streams: u32,
    /// Watches that one principal may have open at the same time, over all connections.
    pub watches: usize,
    /// How often an HTTP/2 connection is asked for a sign of life. One that gives none in this time
    /// again is closed.
    pub ping: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body: 40 * 1024 * 1024,
            bodies: BodyRoom::default(),
            answers: BodyRoom::default(),
            header_bytes: 32 * 1024,
            headers: 100,
            handshake: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            request_time: Duration::from_secs(120),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(60),
            connections: 20_000,
            requests: 4096,
            streams: 256,
            watches: 15_000,
            ping: Duration::from_secs(30),
        }
    }
}

/// Memory that bodies share: without it, a few callers with a large body each could take all there is.
/// A body that comes in one piece is small and does not count.
#[derive(Clone)]
pub struct BodyRoom {
    bytes: usize,
    pages: Arc<Semaphore>,
}

impl BodyRoom {
    /// Memory is counted in pages of this many bytes.
    pub(crate) const PAGE: usize = 64 * 1024;

    /// So many bytes, rounded up.
    pub fn new(bytes: usize) -> Self {
        let pages = bytes.div_ceil(Self::PAGE).min(Semaphore::MAX_PERMITS);
        Self {
            bytes,
            pages: Arc::new(Semaphore::new(pages)),
        }
    }

    /// Room for so many bytes, for as long as the permit lives; `None` if there is not that much.
    pub(crate) fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let pages = u32::try_from(bytes.div_ceil(Self::PAGE)).ok()?;
        Arc::clone(&self.pages).try_acquire_many_owned(pages).ok()
    }
}

impl Default for BodyRoom {
    /// Half a gibibyte.
    fn default() -> Self {
        Self::new(512 * 1024 * 1024)
    }
}

impl PartialEq for BodyRoom {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for BodyRoom {}

impl fmt::Debug for BodyRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyRoom")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
