//! Putting a zone together from its configuration, and taking it apart again.
//!
//! This is the only place that names a concrete store, and where background work is started. What a
//! part does is decided in its own crate.

mod agentcore;
mod agents;
mod console;
mod error;
mod identity;
mod keep;
mod options;
mod signals;
mod store;
mod verification;
mod works;

pub(crate) use error::StartError;
pub(crate) use identity::scopes;
pub(crate) use signals::Signals;
pub(crate) use store::{backup, records, store_is_current};
pub(crate) use verification::{Verifying, whose_token, workspaces, zone_client, zone_scopes};

use crate::config::{Config, LogConfig, LogFormat, TlsConfig};
use crate::version;
use agentcore::Doors;
use agents::{Agents, Surroundings};
use error::cannot_listen;
use identity::Identity;
use interzone_edge::Secret;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::issuer::{Issuer, Keep};
use interzone_edge::listener::Listener;
use interzone_edge::rate::RateLimiter;
use interzone_edge::telemetry::{self, LogOptions, Metrics, OtlpOptions, TelemetryGuard};
use interzone_edge::tls::{ServerTls, TlsFiles, Trust};
use interzone_execution::agents::CommandAgent;
use interzone_execution::console::Console;
use interzone_execution::pairs::PairLog;
use interzone_execution::workers::Workers;
use interzone_execution::{Zone, ZoneOptions, router, turned_away};
use interzone_hub::{Hub, RandomIds, SystemClock};
use options::{audit, http_limits, hub_limits, operator, webhooks, worker_options};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;
use store::Opened;
use works::Works;

/// Sets up the log. Keep what it gives until the end.
pub(crate) fn start_log(tls: &TlsConfig, config: &LogConfig) -> Result<TelemetryGuard, StartError> {
    let trust = Trust::system_and(&tls.trust)?;
    let headers = config.otlp_headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), Secret::new(value.as_str())));
    let otlp = config.otlp.as_ref().map(|endpoint| OtlpOptions {
        endpoint: endpoint.clone(),
        headers: headers.collect(),
        service_name: config.service_name.clone(),
        trust,
    });
    let options = LogOptions {
        format: match config.format {
            LogFormat::Text => telemetry::LogFormat::Text,
            LogFormat::Json => telemetry::LogFormat::Json,
        },
        filter: config.filter.clone(),
        colours: io::stderr().is_terminal(),
        otlp,
    };
    Ok(telemetry::init(&options, io::stderr)?)
}

/// A zone that serves.
pub(crate) struct Running {
    url: String,
    issuer: Option<Issuer>,
    store: Opened,
    hub: Hub,
    console: Option<Arc<Console>>,
    programs: Vec<Arc<CommandAgent>>,
    works: Works<Workers>,
    grace: Duration,
}

impl Running {
    /// Starts a zone. `way` says where its address is chosen, in case it is taken.
    ///
    /// # Errors
    /// Something that it needs is not there.
    pub(crate) async fn start(mut config: Config, way: &'static str) -> Result<Self, StartError> {
        let mut works = Works::new();
        let (stop, end) = (works.stop.clone(), works.end.clone());
        let metrics = Arc::new(Metrics::new().of_build(version::NUMBER, version::COMMIT));
        let limits = http_limits(&config.limits);
        let trust = Trust::system_and(&config.tls.trust)?;
        let listener = match &config.tls.server {
            None => None,
            Some(files) => {
                let tls = ServerTls::load(&TlsFiles {
                    cert: files.cert.clone(),
                    key: files.key.clone(),
                    client_ca: files.client_ca.clone(),
                })?;
                works.background.spawn(
                    tls.clone()
                        .reload_when_changed(config.tls.reload, end.clone()),
                );
                let address = config.execution.listen;
                let listener = Listener::bind(address, tls, limits.clone(), metrics.clone()).await;
                Some(listener.map_err(|error| cannot_listen(address, way, error))?)
            }
        };
        let doors = Doors::open(&config.agentcore, &limits, &metrics).await?;
        if let Some(listener) = &listener {
            config.settle_port(listener.local_addr().port());
        }
        let config = &config;
        let store = Opened::open(&config.store).await?;
        let identity = Identity::start(config, &store, &trust, &mut works.background, &end).await?;
        let files = Arc::new(config.files.clone());
        let around = Surroundings {
            stop: &end,
            trust: &trust,
            files: files.clone(),
            input: &config.attachments,
        };
        let agents = Agents::start(config, &around).await?;
        let programs = agents.programs();
        let hub = Hub::new(
            store.store(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents.registry,
            hub_limits(config),
        );
        // Before the workers claim anything: what the last process held when it died is nobody's.
        hub.store().take_over(hub.now()).await?;
        let egress = EgressOptions {
            allow: config.egress_allow.clone(),
            trust: trust.clone(),
            ..EgressOptions::default()
        };
        let egress = Egress::new(&egress)?;
        works.crew.begin(Workers::start(
            hub.clone(),
            Arc::new(webhooks(config, egress.clone())),
            worker_options(config, &egress),
            metrics.clone(),
            end.clone(),
        ));
        let crew = works.crew.clone();
        let pairs = config.pairs.map(|recorded| {
            let (log, backlog) = PairLog::new(recorded, metrics.clone());
            works
                .background
                .spawn(backlog.keep(store.store(), end.clone()));
            log
        });
        let zone = Zone::new(ZoneOptions {
            hub: hub.clone(),
            auth: identity.auth.clone(),
            issuer: identity.issuer.as_ref().map(Issuer::router),
            issuer_url: identity.issuer_url.clone(),
            token_url: identity.token_url.clone(),
            egress,
            limits,
            rate: RateLimiter::new(config.limits.requests_per_minute, config.limits.burst),
            audit: audit(&config.audit, &metrics)?,
            pairs,
            metrics,
            metrics_public: config.metrics_public,
            public_url: config.execution.public_url.clone(),
            always_200: config.execution.always_200,
            batch: config.limits.batch,
            sync_budget: config.execution.sync_budget,
            files,
            operator: operator(config),
            checks: vec![Arc::new(move || crew.unwell())],
            stop: stop.clone(),
        });
        let console = console::console(config, &identity, &store, &trust, &zone).await?;
        if let Some(console) = &console {
            works.background.spawn(console.clone().run(end.clone()));
        }
        let grace = config.execution.grace;
        let url = config.execution.public_url.as_str().trim_end_matches('/');
        let mut url = url.to_owned();
        if let Some(doors) = doors {
            if listener.is_none() {
                url = doors.url();
            }
            let crew = works.crew.clone();
            let running = Arc::new(move || crew.ask(Workers::running).unwrap_or(0));
            let (core, serving) = (&config.agentcore, &mut works.serving);
            doors.serve(core, zone.clone(), running, serving, &stop, grace);
        }
        if let Some(listener) = listener {
            let listener = listener
                .turn_away_with(turned_away)
                .shortcut(interzone_execution::shortcut(zone.clone()));
            let doors = match &console {
                Some(console) => router(zone).merge(console.router()),
                None => router(zone),
            };
            works.serving.spawn(listener.serve(doors, stop, grace));
        }
        Ok(Self {
            url,
            issuer: identity.issuer,
            store,
            hub,
            console,
            programs,
            works,
            grace,
        })
    }

    /// How callers reach it.
    pub(crate) fn public_url(&self) -> &str {
        &self.url
    }

    /// Waits until its store cannot go on in this process, and says why.
    pub(crate) fn store_failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.store.failed()
    }

    /// An address that signs in whoever opens it first, if there is a console.
    pub(crate) fn console_link(&self) -> Option<String> {
        self.console.as_ref().map(|console| console.one_time_link())
    }

    /// The records of the built-in issuer.
    pub(crate) fn keep(&self) -> Arc<dyn Keep> {
        self.store.keep()
    }

    /// Takes no more requests, lets those that run finish, hands runs back, lets go of the store.
    pub(crate) async fn wind_up(self) {
        let programs = async {
            for program in &self.programs {
                program.shut_down().await;
            }
        };
        self.works.wind_up(self.grace, programs).await;
        drop((self.hub, self.console, self.issuer, self.programs));
        self.store.close().await;
        tracing::info!("stopped");
    }
}
