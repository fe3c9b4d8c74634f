//! How much a caller may ask of a door: sizes, counts and times. Numbers only; who keeps to them and
//! what a refusal looks like is decided elsewhere.

use std::time::Duration;

/// The limits of one listener. The defaults suit a server on the open internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Bytes of a request's body.
    pub body: usize,
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
    /// How often an HTTP/2 connection is asked for a sign of life. One that gives none in this time
    /// again is closed.
    pub ping: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body: 40 * 1024 * 1024,
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
            ping: Duration::from_secs(30),
        }
    }
}
