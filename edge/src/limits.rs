//! Limits of an HTTP listener: sizes, counts and timeouts. Only the numbers; other modules enforce them.

use crate::budget::{MemoryBudget, Shares};
use serde::Deserialize;
use std::time::Duration;

/// Limits of one listener. The defaults suit a server on the open internet.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct HttpLimits {
    /// Maximum size of a request body in bytes.
    #[serde(rename = "body", deserialize_with = "interzone_options::size")]
    pub body_bytes: usize,
    /// Memory budget for the larger request bodies of all requests together. Clones of these limits share it.
    #[serde(skip)]
    pub body_memory: MemoryBudget,
    /// Memory budget for the larger responses, from when they are written until they are sent.
    #[serde(skip)]
    pub response_memory: MemoryBudget,
    /// Bytes of small responses that clients have not read yet, and on HTTP/1.1 of the requests behind them. Larger
    /// responses count in `response_memory`.
    #[serde(skip)]
    pub unread_response_bytes: u64,
    /// Bytes received that belong to no request yet: unfinished handshakes, TLS records and request heads. The HTTP/2
    /// streams of connections without an authenticated caller count too.
    #[serde(rename = "head_memory", deserialize_with = "interzone_options::size")]
    pub partial_head_bytes: u64,
    /// Maximum share of connections and of requests being received that one caller may have.
    #[serde(rename = "..shares")]
    pub shares: Shares,
    /// Maximum size of a request head in bytes: the request line and all headers together.
    #[serde(rename = "headers", deserialize_with = "interzone_options::size")]
    pub header_bytes: usize,
    /// Maximum number of headers of one request.
    #[serde(skip)]
    pub headers: usize,
    /// Timeout for the TLS handshake, from accepting the connection.
    pub handshake_timeout: Duration,
    /// Timeout for a request head, from its first byte. A connection that sends nothing after its handshake has the
    /// same timeout. This, `idle_timeout` and `stall_timeout` are checked every second at most.
    pub header_timeout: Duration,
    /// Timeout for a request body. A body that still arrives at 128 KiB a second may take longer, up to
    /// `request_timeout`.
    pub body_timeout: Duration,
    /// Minimum rate of a request body in bytes a second, after its first ten seconds.
    #[serde(deserialize_with = "interzone_options::size")]
    pub min_body_rate: usize,
    /// Time until a handler must have started its response. A watch, once started, has no timeout.
    pub request_timeout: Duration,
    /// Maximum time that a connection stays open without a request.
    pub idle_timeout: Duration,
    /// Maximum time that a client may leave sent data unread.
    pub stall_timeout: Duration,
    /// Maximum number of open connections; further ones wait in the accept queue of the operating system.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub connections: usize,
    /// Maximum number of requests that handlers process at the same time, over all connections. A request counts once
    /// its body is received; a response that is being sent, such as a watch, no longer counts.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub requests: usize,
    /// Maximum number of requests whose body is being received, over all connections. Applies separately to
    /// unauthenticated and to authenticated callers.
    #[serde(
        rename = "pending_bodies",
        deserialize_with = "interzone_options::positive"
    )]
    pub receiving_requests: usize,
    /// Maximum number of concurrent streams on one HTTP/2 connection, watches included.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub http2_streams: u32,
    /// Maximum number of open watches of one principal, over all connections.
    #[serde(rename = "watches", deserialize_with = "interzone_options::positive")]
    pub watches_per_principal: usize,
    /// Interval of HTTP/2 keep-alive pings. A connection that does not answer one within the same time is closed.
    #[serde(skip)]
    pub http2_ping_interval: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes: 40 * 1024 * 1024,
            body_memory: MemoryBudget::default(),
            response_memory: MemoryBudget::default(),
            unread_response_bytes: 256 * 1024 * 1024,
            partial_head_bytes: 64 * 1024 * 1024,
            shares: Shares::default(),
            header_bytes: 32 * 1024,
            headers: 100,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            min_body_rate: 1024,
            request_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(60),
            connections: 20_000,
            requests: 4096,
            receiving_requests: 4096,
            http2_streams: 256,
            watches_per_principal: 15_000,
            http2_ping_interval: Duration::from_secs(30),
        }
    }
}
