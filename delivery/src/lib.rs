//! Background workers of a node: the outbox worker, and the health and shutdown of all workers.
//!
//! Both zones deliver through the same outbox worker; each channel has a [`DeliveryHandler`]. The hub decides when an
//! entry is due and which node holds it. The handler of a zone decides what is sent, and where.

mod outbox;
mod worker_group;
mod worker_health;

pub use outbox::{
    AttemptResult, DeliveryHandler, DeliveryOptions, DeliveryOutcome, OnAttempt, OutboxWorker,
};
pub use worker_group::{HEARTBEAT_TIMEOUT, WorkerGroup};
pub use worker_health::{HealthProbe, Heartbeat, Unhealthy};
