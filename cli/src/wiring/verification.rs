//! Putting a Verification Zone together from its configuration, and taking it apart again.

mod execution;
mod neighbours;
mod parts;

pub(crate) use execution::{zone_client, zone_scopes};

use super::error::cannot_listen;
use super::options::{audit, http_limits};
use super::store::{Opened, record_store};
use super::{StartError, TlsFiles};
use crate::config::VerifyConfig;
use interzone_client::RetryPolicy;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{ServerTls, TlsError, Trust};
use interzone_hub::{Hub, Limits, RandomIds, Registry, SystemClock};
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::install::Install;
use interzone_verification::slack::socket::SocketState;
use interzone_verification::workers::Workers;
use interzone_verification::{Check, Zone, ZoneOptions, router};
use neighbours::{Looks, Neighbours};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A Verification Zone that serves.
pub(crate) struct Verifying {
    url: String,
    store: Opened,
    hub: Hub,
    workers: Arc<Mutex<Option<Workers>>>,
    serving: JoinSet<()>,
    background: JoinSet<()>,
    /// Ends listening.
    stop: CancellationToken,
    /// Ends what the rest needs until the last moment.
    end: CancellationToken,
    grace: Duration,
}

impl Verifying {
    /// Starts a zone. `way` says where its address is chosen, in case it is taken. Slack and the Execution
    /// Zone need not be there yet.
    ///
    /// # Errors
    /// Something that it needs is not there.
    pub(crate) async fn start(
        mut config: VerifyConfig,
        way: &'static str,
    ) -> Result<Self, StartError> {
        let (stop, end) = (CancellationToken::new(), CancellationToken::new());
        let metrics = Arc::new(Metrics::new());
        let limits = http_limits(&config.limits);
        let mut background = JoinSet::new();
        let trust = Trust::system_and(&config.tls.trust)?;
        let listener = listen(&config, way, &limits, &metrics, &mut background, &end).await?;
        config.settle_port(listener.local_addr().port());
        let config = &config;
        let store = Opened::open(&config.store).await?;
        let hub = Hub::new(
            store.store(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            Registry::default(),
            Limits::default(),
        );
        // Before the workers take anything: what the last process held when it died is nobody's.
        hub.store().take_over(hub.now()).await?;
        let slack = Slack::new(config.slack.api_url.as_str(), &trust)?;
        let tokens = parts::tokens(config, &slack, store.store())?;
        // A zone that cannot open what it stored would refuse whole workspaces, and nobody would know why.
        let workspaces = tokens.check().await?;
        tracing::info!(workspaces, "workspaces have installed the app");
        let neighbours = Arc::new(Neighbours::default());
        let looks = Looks::new(config, &trust).map_err(StartError::Http)?;
        background.spawn(neighbours.clone().watch(looks, end.clone()));
        let workers = Arc::new(Mutex::new(None));
        let zone = Zone::new(ZoneOptions {
            hub: hub.clone(),
            slack: slack.clone(),
            tokens: tokens.clone(),
            client: zone_client(config, RetryPolicy::default())?,
            signing_secret: config.slack.signing_secret.clone(),
            install: parts::install(config, &slack, &tokens)?.map(Install::routes),
            rules: parts::rules(&config.slack),
            gates: parts::gates(config),
            ask: parts::asks(&config.verification),
            reply: parts::replies(&config.slack),
            limits,
            audit: audit(&config.audit, &metrics)?,
            metrics: metrics.clone(),
            metrics_public: config.metrics_public,
            checks: vec![working(&workers)],
            stop: stop.clone(),
        });
        let options = parts::worker_options(config);
        *workers.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Workers::start(&zone, &options, &end));
        let mut serving = JoinSet::new();
        let mut away = neighbours.checks();
        away.push(Arc::new(move || {
            (!tokens.trouble().is_empty()).then_some("slack_token")
        }));
        if let Some(socket) = parts::socket(config, &slack, &trust, &zone)? {
            let state = socket.state();
            let deaf = move || *state.borrow() != SocketState::Connected;
            away.push(Arc::new(move || deaf().then_some("slack_socket")));
            let stop = stop.clone();
            serving.spawn(async move {
                socket.run(stop).await;
            });
        }
        zone.look_after(away);
        let grace = config.verification.grace;
        serving.spawn(listener.serve(router(zone), stop.clone(), grace));
        let url = config.verification.public_url.as_str();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            store,
            hub,
            workers,
            serving,
            background,
            stop,
            end,
            grace,
        })
    }

    /// How Slack and browsers reach it.
    pub(crate) fn public_url(&self) -> &str {
        &self.url
    }

    /// Takes no more events, lets answers that grow finish, hands the rest back, lets go of the store.
    pub(crate) async fn wind_up(mut self) {
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
        let serving = async {
            while let Some(served) = self.serving.join_next().await {
                if let Err(error) = served {
                    tracing::error!(%error, "a door broke");
                }
            }
        };
        tokio::join!(serving, work);
        self.end.cancel();
        while self.background.join_next().await.is_some() {}
        drop(self.hub);
        self.store.close().await;
        tracing::info!("stopped");
    }
}

async fn listen(
    config: &VerifyConfig,
    way: &'static str,
    limits: &interzone_edge::limits::HttpLimits,
    metrics: &Arc<Metrics>,
    background: &mut JoinSet<()>,
    end: &CancellationToken,
) -> Result<Listener, StartError> {
    let Some(files) = &config.tls.server else {
        // The configuration of this zone always names one.
        return Err(TlsError::Missing {
            path: "cert.pem".into(),
        }
        .into());
    };
    let tls = ServerTls::load(&TlsFiles {
        cert: files.cert.clone(),
        key: files.key.clone(),
        client_ca: files.client_ca.clone(),
    })?;
    background.spawn(
        tls.clone()
            .reload_when_changed(config.tls.reload, end.clone()),
    );
    let address = config.verification.listen;
    let listener = Listener::bind(address, tls, limits.clone(), metrics.clone()).await;
    listener.map_err(|error| cannot_listen(address, way, error))
}

/// How many workspaces have installed the app, if every token that is stored can be opened. A zone may run
/// on the same store.
///
/// # Errors
/// One cannot, or the store does not answer.
pub(crate) async fn workspaces(config: &VerifyConfig) -> Result<usize, StartError> {
    let trust = Trust::system_and(&config.tls.trust)?;
    let slack = Slack::new(config.slack.api_url.as_str(), &trust)?;
    let records = record_store(&config.store).await?;
    Ok(parts::tokens(config, &slack, records)?.check().await?)
}

/// Whether the workers are at work.
fn working(workers: &Arc<Mutex<Option<Workers>>>) -> Check {
    let workers = workers.clone();
    Arc::new(move || {
        let workers = workers.lock().unwrap_or_else(PoisonError::into_inner);
        match workers.as_ref().map(Workers::healthy) {
            Some(Ok(())) => None,
            Some(Err(_)) => Some("workers"),
            None => Some("stopping"),
        }
    })
}
