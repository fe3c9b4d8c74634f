//! The doors of a zone inside AgentCore: two ports of plain HTTP, which nothing else here has.

use super::{StartError, cannot_listen};
use crate::config::AgentCoreConfig;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_execution::{AgentCore, AgentCoreOptions, Zone, turned_away};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Both ports, taken and not yet served.
pub(super) struct Doors {
    http: Listener,
    agents: Listener,
}

impl Doors {
    pub(super) async fn open(
        config: &AgentCoreConfig,
        limits: &HttpLimits,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<Self>, StartError> {
        if !config.enabled {
            return Ok(None);
        }
        // The runtime passes on every request itself, so one address is all callers.
        let mut limits = limits.clone();
        limits.shares.address = 1;
        let bind = async |address| {
            let listener = Listener::bind_plain(address, limits.clone(), metrics.clone());
            let listener = listener.await;
            listener.map_err(|error| cannot_listen(address, "`listen` in [agentcore]", error))
        };
        Ok(Some(Self {
            http: bind(config.listen).await?,
            agents: bind(config.agents_listen).await?,
        }))
    }

    /// How the runtime reaches it.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.http.local_addr())
    }

    pub(super) fn serve(
        self,
        config: &AgentCoreConfig,
        zone: Arc<Zone>,
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
        for (listener, app) in [(self.http, core.http()), (self.agents, core.agents())] {
            let listener = listener.turn_away_with(turned_away);
            serving.spawn(listener.serve(app, stop.clone(), grace));
        }
    }
}
