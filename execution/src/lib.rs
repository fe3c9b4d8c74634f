//! The Execution Zone.
//!
//! Transports, dispatch, dialect handlers, the one error map, workers and agents. Rules about tasks
//! live in the hub, SQL in the store, and who somebody is was proved at the edge: none of the three
//! may enter.

pub mod agents;
mod card;
pub mod console;
mod doors;
mod events;
pub mod files;
mod in_process;
pub mod intake;
mod memory;
pub mod pairs;
mod rpc;
pub mod webhooks;
pub mod workers;
mod zone;

pub use doors::{AgentCore, AgentCoreOptions, OPERATE_SCOPE, router, shortcut, turned_away};
pub use in_process::in_process;
pub use zone::{Check, Operator, Zone, ZoneOptions};
