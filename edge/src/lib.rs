//! How bytes get in and out safely.
//!
//! The doors and windows of a zone: the TLS listener with its limits, the proof of who calls (OAuth2),
//! the built-in issuer for those who have none, guarded ways out, and what a node tells of itself
//! (logs, metrics, traces, audit). No task, no stream, no dialect and no error code may enter: what
//! a refusal looks like on the wire is for the zone to say.

pub mod audit;
pub mod auth;
pub mod body;
pub mod budget;
mod capped;
pub mod clock;
pub mod egress;
pub mod health;
pub mod in_flight;
pub mod issuer;
pub mod limits;
pub mod listener;
mod patience;
pub mod rate;
pub mod readiness;
pub mod request;
mod secret;
pub mod socket;
pub mod telemetry;
pub mod tls;

pub use secret::Secret;
