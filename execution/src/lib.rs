//! The Execution Zone: HTTP endpoints, JSON-RPC dispatch, dialect handlers, the error mapping, workers and agents.
//!
//! Task rules live in the hub, SQL in the store, authentication in the edge crate.

pub mod agents;
pub mod attachments;
mod card;
pub mod console;
pub mod files;
mod http;
mod in_process;
mod memory;
mod notifications;
pub mod request_log;
mod rpc;
mod state;
pub mod webhooks;
pub mod workers;

pub use self::http::{AgentCore, AgentCoreOptions, OPERATE_SCOPE, listener_rejection, router};
pub use in_process::in_process;
pub use state::{ExecutionOptions, ExecutionState, OperatorInfo, ReadinessCheck};
