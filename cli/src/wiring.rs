//! Assembles a zone from its configuration, and shuts it down.
//!
//! This is the only module that names a concrete store and starts background tasks.

mod agentcore;
mod agents;
mod console;
mod error;
mod identity;
mod options;
mod server_tasks;
mod signals;
mod store;
mod verification;

pub(crate) use agents::{HAS_AWS_SUPPORT, check_aws_support};
pub(crate) use error::StartError;
pub(crate) use identity::grantable_scopes;
pub(crate) use signals::ShutdownSignals;
pub(crate) use store::{backup, record_store, store_is_current};
pub(crate) use verification::{
    VerificationServer, installed_workspaces, required_scopes, token_owner, zone_client,
};

use crate::config::{Config, LogConfig, TlsConfig};
use crate::version;
use agentcore::AgentCoreListeners;
use agents::{AgentDeps, AgentSet};
use error::listen_error;
use identity::TokenVerification;
use interzone_edge::Secret;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::listener::Listener;
use interzone_edge::rate_limiter::RateLimiter;
use interzone_edge::telemetry::{self, LogOptions, Metrics, OtlpOptions, TelemetryGuard};
use interzone_edge::tls::{ServerTls, TrustRoots};
use interzone_execution::agents::CommandAgent;
use interzone_execution::console::Console;
use interzone_execution::request_log::RequestLog;
use interzone_execution::workers::Workers;
use interzone_execution::{ExecutionOptions, ExecutionState, listener_rejection, router};
use interzone_hub::ports::RecordStore;
use interzone_hub::{Hub, RandomIds, SystemClock};
use interzone_issuer::Issuer;
use options::{audit, file_reader, http_limits, operator, webhooks, worker_options};
use server_tasks::ServerTasks;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;
use store::OpenStore;

/// Sets up the log. The returned guard must be kept until the end.
pub(crate) fn start_log(tls: &TlsConfig, config: &LogConfig) -> Result<TelemetryGuard, StartError> {
    let trust = TrustRoots::system_and_files(&tls.trust)?;
    let headers = config.otlp_headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), Secret::new(value.as_str())));
    let otlp = config.otlp_url.as_ref().map(|endpoint| OtlpOptions {
        endpoint: endpoint.clone(),
        headers: headers.collect(),
        service_name: config.service_name.clone(),
        trust,
    });
    let options = LogOptions {
        format: config.format,
        filter: config.filter.clone(),
        colors: io::stderr().is_terminal(),
        otlp,
    };
    Ok(telemetry::init(&options, io::stderr)?)
}

/// A running Execution Zone.
pub(crate) struct ExecutionServer {
    url: String,
    issuer: Option<Issuer>,
    store: OpenStore,
    hub: Hub,
    console: Option<Arc<Console>>,
    command_agents: Vec<Arc<CommandAgent>>,
    tasks: ServerTasks,
    shutdown_grace: Duration,
}

impl ExecutionServer {
    /// Starts a zone. `setting` names the setting of its address, for the error if that is in use.
    ///
    /// # Errors
    /// A dependency cannot be set up.
    pub(crate) async fn start(
        mut config: Config,
        setting: &'static str,
    ) -> Result<Self, StartError> {
        let mut tasks = ServerTasks::new();
        let (stop, shutdown) = (tasks.stop.clone(), tasks.shutdown.clone());
        let metrics =
            Arc::new(Metrics::new().with_build_info(version::VERSION_NUMBER, version::COMMIT));
        let limits = http_limits(&config.limits);
        let trust = TrustRoots::system_and_files(&config.tls.trust)?;
        let listener = match config.tls.server() {
            None => None,
            Some(files) => {
                let tls = ServerTls::load(&files)?;
                tasks.background.spawn(
                    tls.clone()
                        .reload_when_changed(config.tls.reload_interval, shutdown.clone()),
                );
                let address = config.execution.listen;
                let listener = Listener::bind(address, tls, limits.clone(), metrics.clone()).await;
                Some(listener.map_err(|error| listen_error(address, setting, error))?)
            }
        };
        let agentcore_listeners =
            AgentCoreListeners::bind(&config.agentcore, &limits, &metrics).await?;
        if let Some(listener) = &listener {
            config.resolve_port(listener.local_addr().port());
        }
        let config = &config;
        let store = OpenStore::open(&config.store).await?;
        let identity =
            TokenVerification::start(config, &store, &trust, &mut tasks.background, &shutdown)
                .await?;
        let files = Arc::new(config.files.clone());
        let reader = file_reader(config).map_err(StartError::FileReader)?;
        let deps = AgentDeps {
            stop: &shutdown,
            trust: &trust,
            files: files.clone(),
            reader: &reader,
            input_rules: &config.attachments,
        };
        let agents = AgentSet::start(config, &deps).await?;
        let command_agents = agents.command_agents();
        let hub = Hub::new(
            store.store(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents.registry,
            config.limits.hub,
        );
        // Before the workers claim anything: claims of the previous process are released.
        hub.store().release_stale_claims(hub.now()).await?;
        let egress = EgressOptions {
            allow: config.egress.allow.clone(),
            trust: trust.clone(),
            ..EgressOptions::default()
        };
        let egress = Egress::new(&egress)?;
        let workers = Workers::start(
            hub.clone(),
            Arc::new(webhooks(config, hub.clone(), egress.clone())),
            worker_options(config, &egress, &reader),
            metrics.clone(),
            shutdown.clone(),
        );
        let run_counter = workers.run_counter();
        tasks.workers.set(workers.into());
        let workers = tasks.workers.clone();
        let request_log = config.request_log.record.map(|scope| {
            let (log, backlog) = RequestLog::new(scope, metrics.clone());
            tasks
                .background
                .spawn(backlog.run(store.store(), shutdown.clone()));
            log
        });
        let zone = ExecutionState::new(ExecutionOptions {
            hub: hub.clone(),
            auth: identity.auth.clone(),
            issuer: identity.issuer.as_ref().map(Issuer::router),
            issuer_url: identity.issuer_url.clone(),
            token_url: identity.token_url.clone(),
            egress,
            limits,
            rate: RateLimiter::new(
                config.limits.rate.requests_per_minute,
                config.limits.rate.burst,
            ),
            audit: audit(&config.audit, &metrics)?,
            request_log,
            metrics,
            metrics_public: config.metrics.public,
            public_url: config.execution.public_url.clone(),
            always_200: config.execution.always_200,
            batch_limit: config.limits.batch,
            sync_budget: config.execution.sync_budget,
            files,
            operator: operator(config),
            checks: vec![Arc::new(move || workers.not_ready_reason())],
            stop: stop.clone(),
        });
        let console = console::create_console(config, &identity, &store, &trust, &zone).await?;
        if let Some(console) = &console {
            tasks
                .background
                .spawn(console.clone().run(shutdown.clone()));
        }
        let grace = config.execution.shutdown_grace;
        let url = config.execution.public_url.as_str().trim_end_matches('/');
        let mut url = url.to_owned();
        if let Some(listeners) = agentcore_listeners {
            if listener.is_none() {
                url = listeners.url();
            }
            let running = Arc::new(move || run_counter.count());
            let (core, serving) = (&config.agentcore, &mut tasks.listeners);
            listeners.serve(core, zone.clone(), running, serving, &stop, grace);
        }
        if let Some(listener) = listener {
            let listener = listener.on_reject(listener_rejection);
            let app = match &console {
                Some(console) => router(zone).merge(console.router()),
                None => router(zone),
            };
            tasks.listeners.spawn(listener.serve(app, stop, grace));
        }
        Ok(Self {
            url,
            issuer: identity.issuer,
            store,
            hub,
            console,
            command_agents,
            tasks,
            shutdown_grace: grace,
        })
    }

    /// Returns the URL that callers use.
    pub(crate) fn public_url(&self) -> &str {
        &self.url
    }

    /// Waits until the store fails permanently, and returns the reason.
    pub(crate) fn store_failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.store.wait_for_failure()
    }

    /// Returns a one-time sign-in link, if the console is enabled.
    pub(crate) fn console_link(&self) -> Option<String> {
        self.console.as_ref().map(|console| console.one_time_link())
    }

    /// Returns the records of the built-in issuer.
    pub(crate) fn records(&self) -> Arc<dyn RecordStore> {
        self.store.records()
    }

    /// Stops accepting requests, waits for running ones, releases agent runs and closes the store.
    pub(crate) async fn shut_down(self) {
        let programs = async {
            for program in &self.command_agents {
                program.shut_down().await;
            }
        };
        self.tasks.shut_down(self.shutdown_grace, programs).await;
        drop((self.hub, self.console, self.issuer, self.command_agents));
        self.store.close().await;
        tracing::info!("stopped");
    }
}
