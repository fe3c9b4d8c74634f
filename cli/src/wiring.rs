//! Putting a zone together from its configuration, and taking it apart again.
//!
//! This is the only place that names a concrete store, and where background work is started. What a
//! part does is decided in its own crate.

mod agents;
mod identity;
mod keep;
mod signals;
mod store;

pub(crate) use identity::scopes;
pub(crate) use signals::Signals;
pub(crate) use store::records;

use crate::config::{Config, LimitsConfig, LogConfig, LogFormat};
use agents::Agents;
use identity::Identity;
use interzone_edge::audit::Audit;
use interzone_edge::auth::AuthError;
use interzone_edge::egress::{Egress, EgressOptions, EgressSetupError};
use interzone_edge::issuer::{AccountError, Issuer, IssuerError, Keep};
use interzone_edge::limits::{BodyRoom, HttpLimits};
use interzone_edge::listener::Listener;
use interzone_edge::rate::RateLimiter;
use interzone_edge::telemetry::{self, LogOptions, Metrics, OtlpOptions, TelemetryGuard};
use interzone_edge::tls::{ServerTls, TlsError, TlsFiles, Trust};
use interzone_edge::{Secret, telemetry::TelemetryError};
use interzone_execution::agents::{CommandAgent, CommandError};
use interzone_execution::webhooks::WebhookCarrier;
use interzone_execution::workers::{CarrierOptions, WorkerOptions, Workers};
use interzone_execution::{Operator, Zone, ZoneOptions, router, turned_away};
use interzone_hub::ports::StoreError;
use interzone_hub::{Hub, HubError, Limits, RandomIds, RetryPolicy, SystemClock};
use interzone_protocol::acp::Provider;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Opened;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// The scope that opens the metrics.
pub(crate) const OPERATE: &str = "interzone:operate";

/// Why a zone did not start. Each is one line that names the way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}", with_cause(.0))]
    Issuer(#[from] IssuerError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("{}", with_cause(.0))]
    Account(#[source] AccountError),
    #[error(transparent)]
    Egress(#[from] EgressSetupError),
    #[error("outgoing connections cannot be set up: {0}")]
    Http(#[source] reqwest::Error),
    #[error("agent {id:?} cannot be started: {source}")]
    Agent {
        id: String,
        #[source]
        source: CommandError,
    },
    #[error("the agents cannot be registered: {0}")]
    Hub(#[source] HubError),
    #[error("{address} is in use; stop whoever uses it, or choose another address ({way})")]
    AddressInUse {
        address: SocketAddr,
        /// Where the address is chosen.
        way: &'static str,
    },
    #[error("{address} cannot be listened on: {source}")]
    Address {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the system gives no thread for the audit: {0}")]
    Thread(#[source] io::Error),
    #[error("the audit log {} cannot be opened: {source}", path.display())]
    Audit {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("signals cannot be listened for: {0}")]
    Signals(#[source] io::Error),
    #[error("stopped at once, with work unfinished; it is taken up again at the next start")]
    Cut,
}

/// An error with what lies under it, which names the file or the server.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        told = format!("{told}: {next}");
        cause = next.source();
    }
    told
}

/// Sets up the log. Keep what it gives until the end.
pub(crate) fn start_log(config: &LogConfig) -> Result<TelemetryGuard, StartError> {
    let headers = config.otlp_headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), Secret::new(value.as_str())));
    let otlp = config.otlp.as_ref().map(|endpoint| OtlpOptions {
        endpoint: endpoint.clone(),
        headers: headers.collect(),
        service_name: config.service_name.clone(),
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
    programs: Vec<Arc<CommandAgent>>,
    workers: Arc<Mutex<Option<Workers>>>,
    serving: JoinHandle<()>,
    background: JoinSet<()>,
    /// Ends listening and watching.
    stop: CancellationToken,
    /// Ends what the rest needs until the last moment.
    end: CancellationToken,
    grace: Duration,
}

impl Running {
    /// Starts a zone. `way` says where its address is chosen, in case it is taken.
    ///
    /// # Errors
    /// Something that it needs is not there.
    pub(crate) async fn start(mut config: Config, way: &'static str) -> Result<Self, StartError> {
        let (stop, end) = (CancellationToken::new(), CancellationToken::new());
        let metrics = Arc::new(Metrics::new());
        let limits = http_limits(&config.limits);
        let tls = ServerTls::load(&TlsFiles {
            cert: config.tls.cert.clone(),
            key: config.tls.key.clone(),
            client_ca: config.tls.client_ca.clone(),
        })?;
        let trust = Trust::system_and(&config.tls.trust)?;
        let address = config.execution.listen;
        let listener = Listener::bind(address, tls.clone(), limits.clone(), metrics.clone());
        let listener = listener.await.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressInUse { address, way },
            _ => StartError::Address { address, source },
        })?;
        config.settle_port(listener.local_addr().port());
        let config = &config;
        let store = Opened::open(&config.store).await?;
        let mut background = JoinSet::new();
        background.spawn(tls.reload_when_changed(config.tls.reload, end.clone()));
        let identity = Identity::start(config, &store, &trust, &mut background, &end).await?;
        let agents = Agents::start(config, &end)?;
        let programs = agents.programs();
        let hub = Hub::new(
            store.store(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents.registry,
            hub_limits(config),
        );
        let egress = EgressOptions {
            allow: config.egress_allow.clone(),
            trust: trust.clone(),
            ..EgressOptions::default()
        };
        let egress = Egress::new(&egress)?;
        let workers = Workers::start(
            hub.clone(),
            Arc::new(webhooks(config, egress.clone())),
            worker_options(config),
            metrics.clone(),
            end.clone(),
        );
        let workers = Arc::new(Mutex::new(Some(workers)));
        let watched = workers.clone();
        let zone = Zone::new(ZoneOptions {
            hub: hub.clone(),
            auth: identity.auth,
            issuer: identity.issuer.as_ref().map(Issuer::router),
            issuer_url: identity.issuer_url,
            token_url: identity.token_url,
            egress,
            limits,
            rate: RateLimiter::new(config.limits.requests_per_minute, config.limits.burst),
            audit: audit(config, &metrics)?,
            metrics,
            metrics_public: config.metrics_public,
            public_url: config.execution.public_url.clone(),
            always_200: config.execution.always_200,
            batch: config.limits.batch,
            sync_budget: ZoneOptions::SYNC_BUDGET,
            files: Arc::default(),
            operator: operator(config),
            checks: vec![Arc::new(move || workers_unwell(&watched))],
            stop: stop.clone(),
        });
        let grace = config.execution.grace;
        let url = config
            .execution
            .public_url
            .as_str()
            .trim_end_matches('/')
            .to_owned();
        let listener = listener
            .turn_away_with(turned_away)
            .shortcut(interzone_execution::shortcut(zone.clone()));
        let serving = tokio::spawn(listener.serve(router(zone), stop.clone(), grace));
        Ok(Self {
            url,
            issuer: identity.issuer,
            store,
            hub,
            programs,
            workers,
            serving,
            background,
            stop,
            end,
            grace,
        })
    }

    /// How callers reach it.
    pub(crate) fn public_url(&self) -> &str {
        &self.url
    }

    /// The records of the built-in issuer.
    pub(crate) fn keep(&self) -> Arc<dyn Keep> {
        self.store.keep()
    }

    /// Serves until a signal comes, then stops in order; a second signal stops at once.
    ///
    /// # Errors
    /// It was stopped at once.
    pub(crate) async fn until_told(self, signals: &mut Signals) -> Result<(), StartError> {
        signals.next().await;
        tracing::info!("stopping; a second signal stops at once");
        tokio::select! {
            () = self.wind_up() => Ok(()),
            () = signals.next() => Err(StartError::Cut),
        }
    }

    /// Takes no more requests, lets those that run finish, hands runs back, lets go of the store.
    async fn wind_up(mut self) {
        self.stop.cancel();
        let workers = self
            .workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let work = async {
            if let Some(workers) = workers {
                workers.join(self.grace).await;
            }
        };
        let (served, ()) = tokio::join!(self.serving, work);
        if let Err(error) = served {
            tracing::error!(%error, "the listener broke");
        }
        self.end.cancel();
        for program in &self.programs {
            program.shut_down().await;
        }
        while self.background.join_next().await.is_some() {}
        drop((self.hub, self.issuer, self.programs));
        self.store.close().await;
        tracing::info!("stopped");
    }
}

/// The word for what is wrong with the workers, if anything is.
fn workers_unwell(workers: &Mutex<Option<Workers>>) -> Option<&'static str> {
    let workers = workers.lock().unwrap_or_else(PoisonError::into_inner);
    match workers.as_ref().map(Workers::healthy) {
        Some(Ok(())) => None,
        Some(Err(_)) => Some("workers"),
        None => Some("stopping"),
    }
}

fn http_limits(config: &LimitsConfig) -> HttpLimits {
    // Whatever one body may have, there is room for several.
    let usual = HttpLimits::default();
    let room = || BodyRoom::new(config.body.saturating_mul(4).max(512 << 20));
    HttpLimits {
        body: config.body,
        bodies: room(),
        answers: room(),
        header_bytes: config.headers,
        handshake: config.handshake_time,
        header_time: config.header_time,
        body_time: config.body_time,
        request_time: config.request_time,
        idle: config.idle_time,
        connections: config.connections,
        requests: config.requests,
        ..usual
    }
}

fn hub_limits(config: &Config) -> Limits {
    Limits {
        attempts: config.work.attempts,
        stream_idle: config.limits.stream_idle,
        ..Limits::default()
    }
}

fn worker_options(config: &Config) -> WorkerOptions {
    // Two nodes of one name would take each other's work for their own.
    let made_up = || uuid::Uuid::new_v4().simple().to_string();
    let node = config.execution.node.clone().unwrap_or_else(made_up);
    let usual = WorkerOptions::new(node);
    WorkerOptions {
        lease: config.work.lease,
        turn_timeout: config.work.turn,
        retention: config.retention,
        webhooks: CarrierOptions {
            retry: RetryPolicy {
                attempts: config.webhooks.attempts,
                ..usual.webhooks.retry
            },
            ..usual.webhooks
        },
        ..usual
    }
}

fn webhooks(config: &Config, egress: Egress) -> WebhookCarrier {
    WebhookCarrier {
        egress,
        secret: config.webhooks.secret.clone(),
        bare: config.webhooks.bare,
    }
}

fn audit(config: &Config, metrics: &Arc<Metrics>) -> Result<Audit, StartError> {
    let log = Audit::to_log(io::stderr(), metrics.clone()).map_err(StartError::Thread)?;
    match &config.audit.file {
        None => Ok(log),
        Some(path) => log.and_to_file(path).map_err(|source| StartError::Audit {
            path: path.clone(),
            source,
        }),
    }
}

fn operator(config: &Config) -> Operator {
    Operator {
        name: config.card.name.clone(),
        description: config.card.description.clone(),
        provider: Provider {
            organization: config.card.organization.clone(),
            contact: config.card.contact.clone(),
            website: config.card.website.clone(),
        },
    }
}
