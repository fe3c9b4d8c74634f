//! Listeners of a zone inside AgentCore: two plain HTTP ports.

use super::{StartError, listen_error};
use crate::config::AgentCoreConfig;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_execution::{AgentCore, AgentCoreOptions, ExecutionState, listener_rejection};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Both ports, bound and not yet served.
pub(super) struct AgentCoreListeners {
    invocations: Listener,
    agents: Listener,
}

impl AgentCoreListeners {
    pub(super) async fn bind(
        config: &AgentCoreConfig,
        limits: &HttpLimits,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<Self>, StartError> {
        if !config.enabled {
            return Ok(None);
        }
        // All requests come from the runtime's address, so there is no share per address.
        let mut limits = limits.clone();
        limits.shares.address = 1;
        let bind = async |address| {
            let listener = Listener::bind_plain(address, limits.clone(), metrics.clone());
            let listener = listener.await;
            listener.map_err(|error| listen_error(address, "`listen` in [agentcore]", error))
        };
        Ok(Some(Self {
            invocations: bind(config.listen).await?,
            agents: bind(config.agents_listen).await?,
        }))
    }

    /// Returns the URL that the runtime uses.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.invocations.local_addr())
    }

    pub(super) fn serve(
        self,
        config: &AgentCoreConfig,
        zone: Arc<ExecutionState>,
        running: Arc<dyn Fn() -> usize + Send + Sync>,
        serving: &mut JoinSet<()>,
        stop: &CancellationToken,
        grace: Duration,
    ) {
        let core = AgentCore::new(
            zone,
            AgentCoreOptions {
                principal: config.principal.clone(),
                scopes: config.scopes.clone(),
                per_user: config.per_user,
                require_token: config.require_token,
                running,
            },
        );
        for (listener, app) in [(self.invocations, core.http()), (self.agents, core.a2a())] {
            let listener = listener.on_reject(listener_rejection);
            serving.spawn(listener.serve(app, stop.clone(), grace));
        }
    }
}
