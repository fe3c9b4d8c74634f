//! Network edge of a zone: TLS listener with its limits, OAuth2 authentication, outgoing HTTP with SSRF checks, and
//! telemetry (logs, metrics, traces, audit).
//!
//! This crate has no tasks, streams, dialects or JSON-RPC error codes; the zone decides the body of a rejection.

pub mod audit;
pub mod auth;
pub mod body;
pub mod budget;
pub mod clock;
pub mod egress;
pub mod html;
pub mod in_flight;
mod lazy_timeout;
pub mod limited_body;
pub mod limits;
pub mod listener;
pub mod rate_limiter;
pub mod readiness;
pub mod request_context;
pub mod telemetry;
pub mod tls;
pub mod vault;
pub mod websocket;

pub use interzone_protocol::vocab::Secret;
