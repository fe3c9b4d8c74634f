//! How much a caller may ask of a door: sizes, counts and times. Numbers only; who keeps to them and
//! what a refusal looks like is decided elsewhere.

use crate::budget::{MemoryBudget, Shares};
use std::time::Duration;

/// The limits of one listener. The defaults suit a server on the open internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Memory for the larger bodies of all requests together. Clones of these limits share it.
    pub bodies: MemoryBudget,
    /// The same for the larger answers, from when they are written until they are sent.
    pub answers: MemoryBudget,
    /// Bytes of small answers that wait because they are not read, and on HTTP/1.1 of the requests behind them. Larger
    /// answers count in `answers`.
    pub unread: u64,
    /// Memory for what has arrived and belongs to no request yet: handshakes, TLS records and heads that are
    /// unfinished.
    pub heads: u64,
    /// The part of connections and of requests that are still arriving that one caller may have.
    pub shares: Shares,
    /// Bytes of a request's head: the line, and all headers together.
    pub header_bytes: usize,
    /// Headers of one request.
    pub headers: usize,
    /// Time for the TLS handshake, from the moment the connection is accepted.
    pub handshake: Duration,
    /// Time for a request's head, from its first byte. A connection that says nothing after its
    /// handshake has the same time. This, `idle` and `stall` are checked in steps of a second at most.
    pub header_time: Duration,
    /// Time for a request's body. One that then still arrives at 128 KiB a second may take longer, but no longer than
    /// `request_time`.
    pub body_time: Duration,
    /// The slowest that a body may arrive, in bytes a second, once its first ten seconds are over.
    pub body_rate: usize,
    /// Time until a handler must have begun its answer. A watch, once begun, may last.
    pub request_time: Duration,
    /// How long a connection may be open with no request.
    pub idle: Duration,
    /// How long the other side may leave what we send unread.
    pub stall: Duration,
    /// Connections at the same time; further ones wait in the queue of the operating system.
    pub connections: usize,
    /// Requests that handlers work on at the same time, over all connections. A request counts once its body
    /// is there; an answer that is being sent, such as a watch, no longer counts.
    pub requests: usize,
    /// Requests whose body is still arriving, over all connections. There may be so many of callers that have
    /// not been authenticated, and as many of those that have.
    pub arriving: usize,
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
            bodies: MemoryBudget::default(),
            answers: MemoryBudget::default(),
            unread: 256 * 1024 * 1024,
            heads: 64 * 1024 * 1024,
            shares: Shares::default(),
            header_bytes: 32 * 1024,
            headers: 100,
            handshake: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            body_rate: 1024,
            request_time: Duration::from_secs(120),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(60),
            connections: 20_000,
            requests: 4096,
            arriving: 4096,
            streams: 256,
            watches: 15_000,
            ping: Duration::from_secs(30),
        }
    }
}
