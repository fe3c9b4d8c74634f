//! End-to-end tests through the real binary, with real TLS, tokens and third-party peers. Each test starts its own zone
//! in its own folder and observes it from outside, as callers, issuers, webhook receivers and operators do. Only the
//! binary and its SDK may be used here, no internals.

mod balancer;
mod certificates;
mod mock_server;
pub(crate) mod peers;
mod rpc;
mod sse;
mod tokens;
pub(crate) mod zone_process;

mod a2a;
mod agentcore;
mod agents;
mod bad_input;
mod browser;
mod cli;
mod consent;
mod console;
mod crash;
mod examples;
mod external_issuer;
mod forged_tokens;
mod http2_floods;
mod http_edge_cases;
mod llm;
mod nodes;
mod operators;
mod request_log;
mod sdk;
mod shutdown;
mod slack;
mod slow_clients;
mod watches;
mod webhooks;

use std::time::Duration;

/// Timeout of every wait. Far above what is needed, because the machine may be busy; below the limit of the test runner,
/// so that the failure names what was waited for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// Returns the future's output, or panics with what was waited for.
async fn within_timeout<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("timed out after {WAIT_TIMEOUT:?}: {what}"),
    }
}
