//! Putting a Verification Zone together from its configuration, and taking it apart again.

mod execution;
mod neighbours;
mod parts;

pub(crate) use execution::{zone_client, zone_scopes};

use super::error::cannot_listen;
use super::options::{audit, http_limits};
use super::store::{Opened, record_store};
use super::works::Works;
use super::{StartError, TlsFiles};
use crate::config::VerifyConfig;
use crate::version;
use interzone_client::RetryPolicy;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{ServerTls, TlsError, Trust};
use interzone_hub::{Hub, Limits, RandomIds, Registry, SystemClock};
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::api::auth::AuthTest;
use interzone_verification::slack::install::Install;
use interzone_verification::slack::socket::SocketState;
use interzone_verification::slack::tokens::{BotToken, Installation};
use interzone_verification::workers::Workers;
use interzone_verification::{Zone, ZoneOptions, router};
use neighbours::{Looks, Neighbours};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A Verification Zone that serves.
pub(crate) struct Verifying {
    url: String,
    store: Opened,
    hub: Hub,
    works: Works<Workers>,
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
        let mut works = Works::new();
        let (stop, end) = (works.stop.clone(), works.end.clone());
        let metrics = Arc::new(Metrics::new().of_build(version::NUMBER, version::COMMIT));
        let limits = http_limits(&config.limits);
        let trust = Trust::system_and(&config.tls.trust)?;
        let background = &mut works.background;
        let listener = listen(&config, way, &limits, &metrics, background, &end).await?;
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
        works
            .background
            .spawn(neighbours.clone().watch(looks, end.clone()));
        let crew = works.crew.clone();
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
            checks: vec![Arc::new(move || crew.unwell())],
            stop: stop.clone(),
        });
        let options = parts::worker_options(config);
        works.crew.begin(Workers::start(&zone, &options, &end));
        let mut away = neighbours.checks();
        away.push(Arc::new(move || {
            (!tokens.trouble().is_empty()).then_some("slack_token")
        }));
        if let Some(socket) = parts::socket(config, &slack, &trust, &zone)? {
            let state = socket.state();
            let deaf = move || *state.borrow() != SocketState::Connected;
            away.push(Arc::new(move || deaf().then_some("slack_socket")));
            let stop = stop.clone();
            works.serving.spawn(async move {
                socket.run(stop).await;
            });
        }
        zone.look_after(away);
        let grace = config.verification.grace;
        works
            .serving
            .spawn(listener.serve(router(zone), stop, grace));
        let url = config.verification.public_url.as_str();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            store,
            hub,
            works,
            grace,
        })
    }

    /// How Slack and browsers reach it.
    pub(crate) fn public_url(&self) -> &str {
        &self.url
    }

    /// Waits until its store cannot go on in this process, and says why.
    pub(crate) fn store_failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.store.failed()
    }

    /// Takes no more events, lets answers that grow finish, hands the rest back, lets go of the store.
    pub(crate) async fn wind_up(self) {
        self.works.wind_up(self.grace, async {}).await;
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

/// Whose the bot's token is, as Slack says.
///
/// # Errors
/// Slack cannot be reached, or does not take the token.
pub(crate) async fn whose_token(config: &VerifyConfig) -> Result<AuthTest, StartError> {
    let trust = Trust::system_and(&config.tls.trust)?;
    let slack = Slack::new(config.slack.api_url.as_str(), &trust)?.hasty();
    let token = config.slack.bot_token.as_ref();
    let token = token.map_or("", |token| token.expose());
    let token = BotToken::new(token).map_err(StartError::SlackVariable)?;
    let found = slack.auth_test(&Installation::unknown(token)).await;
    found.map_err(StartError::SlackAround)
}
