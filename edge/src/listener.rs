//! Who is at the other end of a connection.

use std::net::SocketAddr;

/// The other end of a connection; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it calls from.
    pub address: SocketAddr,
    /// The SHA-256 of its certificate (DER), if it showed one.
    pub certificate: Option<[u8; 32]>,
}
