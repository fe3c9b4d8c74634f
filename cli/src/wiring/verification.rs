//! Assembles a Verification Zone from its configuration, and shuts it down.

mod components;
mod dependencies;
mod execution;

pub(crate) use execution::{required_scopes, zone_client};

use super::StartError;
use super::error::listen_error;
use super::options::{audit, http_limits};
use super::server_tasks::ServerTasks;
use super::store::{OpenStore, record_store};
use crate::config::VerificationZoneConfig;
use crate::version;
use dependencies::{DependencyHealth, HealthProbes};
use interzone_client::RetryPolicy;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{ServerTls, TlsError, TrustRoots};
use interzone_hub::{Hub, Limits, RandomIds, Registry, SystemClock};
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::api::auth::AuthTest;
use interzone_verification::slack::install::InstallRoutes;
use interzone_verification::slack::socket::SocketState;
use interzone_verification::slack::tokens::{BotToken, Installation};
use interzone_verification::workers::start_workers;
use interzone_verification::{VerificationOptions, VerificationState, router};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A running Verification Zone.
pub(crate) struct VerificationServer {
    url: String,
    store: OpenStore,
    hub: Hub,
    tasks: ServerTasks,
    shutdown_grace: Duration,
}

impl VerificationServer {
    /// Starts a zone. `setting` names the setting of its address, for the error if that is in use. Slack and
    /// the Execution Zone need not be reachable yet.
    ///
    /// # Errors
    /// A dependency cannot be set up.
    pub(crate) async fn start(
        mut config: VerificationZoneConfig,
        setting: &'static str,
    ) -> Result<Self, StartError> {
        let mut tasks = ServerTasks::new();
        let (stop, shutdown) = (tasks.stop.clone(), tasks.shutdown.clone());
        let metrics =
            Arc::new(Metrics::new().with_build_info(version::VERSION_NUMBER, version::COMMIT));
        let limits = http_limits(&config.limits);
        let trust = TrustRoots::system_and_files(&config.tls.trust)?;
        let background = &mut tasks.background;
        let listener = listen(&config, setting, &limits, &metrics, background, &shutdown).await?;
        config.resolve_port(listener.local_addr().port());
        let config = &config;
        let store = OpenStore::open(&config.store).await?;
        let hub = Hub::new(
            store.store(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            Registry::default(),
            Limits::default(),
        );
        // Before the workers claim anything: claims of the previous process are released.
        hub.store().release_stale_claims(hub.now()).await?;
        let slack = Slack::new(config.slack.api_url.as_str(), &trust)?;
        let tokens = components::tokens(config, &slack, store.store())?;
        // Checked at start: with an undecryptable token, all requests of that workspace would fail later.
        let workspaces = tokens.check_stored_tokens().await?;
        tracing::info!(workspaces, "loaded workspace installations");
        let dependencies = Arc::new(DependencyHealth::default());
        let probes = HealthProbes::new(config, &trust).map_err(StartError::Http)?;
        tasks
            .background
            .spawn(dependencies.clone().run(probes, shutdown.clone()));
        let workers = tasks.workers.clone();
        let zone = VerificationState::new(VerificationOptions {
            hub: hub.clone(),
            slack: slack.clone(),
            tokens: tokens.clone(),
            client: zone_client(config, RetryPolicy::default())?,
            signing_secret: config.slack.signing_secret.clone(),
            install: components::install_routes(config, &slack, &tokens)?
                .map(InstallRoutes::routes),
            rules: components::intake_rules(&config.slack),
            gates: components::gate_options(config),
            ask: config.verification.ask,
            reply: config.slack.reply,
            limits,
            audit: audit(&config.audit, &metrics)?,
            metrics: metrics.clone(),
            metrics_public: config.metrics.public,
            checks: vec![Arc::new(move || workers.not_ready_reason())],
            stop: stop.clone(),
        });
        let options = components::worker_options(config);
        tasks.workers.set(start_workers(&zone, &options, &shutdown));
        let mut dependency_checks = dependencies.checks();
        dependency_checks.push(Arc::new(move || {
            (!tokens.warnings().is_empty()).then_some("slack_token")
        }));
        if let Some(socket) = components::socket_mode(config, &slack, &trust, &zone)? {
            let state = socket.state();
            let is_disconnected = move || *state.borrow() != SocketState::Connected;
            dependency_checks.push(Arc::new(move || {
                is_disconnected().then_some("slack_socket")
            }));
            let stop = stop.clone();
            tasks.listeners.spawn(async move {
                socket.run(stop).await;
            });
        }
        zone.set_dependency_checks(dependency_checks);
        let grace = config.verification.shutdown_grace;
        tasks
            .listeners
            .spawn(listener.serve(router(zone), stop, grace));
        let url = config.verification.public_url.as_str();
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            store,
            hub,
            tasks,
            shutdown_grace: grace,
        })
    }

    /// Returns the URL that Slack and browsers use.
    pub(crate) fn public_url(&self) -> &str {
        &self.url
    }

    /// Waits until the store fails permanently, and returns the reason.
    pub(crate) fn store_failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.store.wait_for_failure()
    }

    /// Stops accepting events, waits for running answers, releases the remaining work and closes the store.
    pub(crate) async fn shut_down(self) {
        self.tasks.shut_down(self.shutdown_grace, async {}).await;
        drop(self.hub);
        self.store.close().await;
        tracing::info!("stopped");
    }
}

async fn listen(
    config: &VerificationZoneConfig,
    setting: &'static str,
    limits: &interzone_edge::limits::HttpLimits,
    metrics: &Arc<Metrics>,
    background: &mut JoinSet<()>,
    shutdown: &CancellationToken,
) -> Result<Listener, StartError> {
    let Some(files) = config.tls.server() else {
        // The configuration of this zone always contains a certificate.
        return Err(TlsError::Missing {
            path: "cert.pem".into(),
        }
        .into());
    };
    let tls = ServerTls::load(&files)?;
    background.spawn(
        tls.clone()
            .reload_when_changed(config.tls.reload_interval, shutdown.clone()),
    );
    let address = config.verification.listen;
    let listener = Listener::bind(address, tls, limits.clone(), metrics.clone()).await;
    listener.map_err(|error| listen_error(address, setting, error))
}

/// Returns the number of workspaces that have installed the app, after decrypting every stored token. A zone
/// may be running on the same store.
///
/// # Errors
/// A token cannot be decrypted, or the store fails.
pub(crate) async fn installed_workspaces(
    config: &VerificationZoneConfig,
) -> Result<usize, StartError> {
    let trust = TrustRoots::system_and_files(&config.tls.trust)?;
    let slack = Slack::new(config.slack.api_url.as_str(), &trust)?;
    let records = record_store(&config.store).await?;
    Ok(components::tokens(config, &slack, records)?
        .check_stored_tokens()
        .await?)
}

/// Returns the owner of the bot token, according to Slack.
///
/// # Errors
/// Slack cannot be reached, or rejects the token.
pub(crate) async fn token_owner(config: &VerificationZoneConfig) -> Result<AuthTest, StartError> {
    let trust = TrustRoots::system_and_files(&config.tls.trust)?;
    let slack = Slack::new(config.slack.api_url.as_str(), &trust)?.fail_fast();
    let token = config.slack.bot_token.as_ref();
    let token = token.map_or("", |token| token.expose());
    let token = BotToken::new(token).map_err(StartError::SlackEnvToken)?;
    let found = slack.auth_test(&Installation::from_token(token)).await;
    found.map_err(StartError::SlackEnvAuth)
}
