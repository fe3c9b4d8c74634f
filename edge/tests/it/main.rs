//! The edge through its public interface: real sockets, real TLS, real clients. Tests of internals are next to
//! the code.

mod connections;
#[cfg(test)]
mod fair_admission;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod frame_floods;
#[cfg(test)]
mod h2_frames;
#[cfg(test)]
mod partial_heads;
#[cfg(test)]
mod plain_http;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod stalled_streams;
#[cfg(test)]
mod tls_handshakes;
#[cfg(test)]
mod trust_roots;
