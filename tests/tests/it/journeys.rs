//! Journeys through the real binary: real TLS, real tokens, real peers. Each starts a zone of its own
//! in a folder of its own and looks at it from outside, as callers, issuers, receivers and operators
//! do. Of the product only the binary and its SDK may be named here, nothing of its inside.

mod balancer;
mod certificates;
pub(crate) mod peers;
mod tokens;
mod watching;
mod web;
mod wire;
mod zone;

mod agentcore;
mod agents;
mod bad_input;
mod browser;
mod consent;
mod console;
mod crash;
mod floods;
mod forged;
mod login;
mod models;
mod newcomer;
mod nodes;
mod odd_http;
mod operators;
mod pairs;
mod sdk;
mod slack;
mod slow;
mod stop;
mod streams;
mod webhooks;

use std::time::Duration;

/// How long anything may take before the test says that it never comes. Far above what it takes, for
/// the machine may be busy; below the limit of the test runner, so that the failure has words.
const PATIENCE: Duration = Duration::from_secs(40);

/// What `future` gives, or a failure that says what was waited for.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}
