//! The Verification Zone between a Slack workspace and an agent: a real store, real requests, a strict Slack
//! emulation with injected faults, and an agent that counts its calls.

mod crashes;
mod deferral;
mod fake_agent;
mod http;
mod overload;
mod questions;
mod stopping;
mod two_nodes;

use fake_agent::FakeAgent;
use interzone_client::Client;
use interzone_delivery::WorkerGroup;
use interzone_edge::audit::Audit;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{TrustRoots, install_provider};
use interzone_hub::ports::Store;
use interzone_hub::{Hub, IdSource, Limits, RandomIds, Registry, SystemClock};
use interzone_playground::{Playground, PlaygroundMessage, PlaygroundOptions, seed};
use interzone_store::postgres::{PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::intake::QuestionRules;
use interzone_verification::policy::Policy;
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::tokens::{BotToken, SlackTokenOptions, SlackTokens};
use interzone_verification::workers::{WorkerOptions, start_workers};
use interzone_verification::{
    AskOptions, GateOptions, ReplyOptions, VerificationOptions, VerificationState, router,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Timeout of any single wait in these tests.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Parameters of the zone under test.
#[derive(Clone)]
struct VerificationSetup {
    teams: Vec<String>,
    channels: Vec<String>,
    users: Vec<String>,
    per_minute: u32,
    rules: QuestionRules,
    ask: AskOptions,
    workers: WorkerOptions,
    limits: HttpLimits,
}

impl Default for VerificationSetup {
    fn default() -> Self {
        let any = || vec!["*".to_owned()];
        let mut workers = WorkerOptions::default();
        // Short retry delays, so that tests need not wait for the second attempt.
        for channel in [&mut workers.asks, &mut workers.posts, &mut workers.jobs] {
            channel.retry.initial_delay = Duration::from_millis(5);
            channel.retry.max_delay = Duration::from_millis(50);
        }
        Self {
            teams: any(),
            channels: any(),
            users: any(),
            per_minute: 0,
            rules: QuestionRules::default(),
            ask: AskOptions::default(),
            workers,
            limits: HttpLimits::default(),
        }
    }
}

/// Running node.
struct VerificationNode {
    zone: VerificationState,
    hub: Hub,
    workers: WorkerGroup,
    url: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// A workspace, an agent, a store, and the zone between them.
struct VerificationFixture {
    playground: Playground,
    agent: Arc<FakeAgent>,
    store: Arc<dyn Store>,
    setup: VerificationSetup,
    node: Option<VerificationNode>,
    audit: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

/// Opens a connection pool of a node's own to PostgreSQL.
async fn postgres(schema: &str) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        schema: schema.to_owned(),
        pool_size: 4,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&crate::hub::postgres_url(), options).await;
    Arc::new(store.unwrap())
}

impl VerificationFixture {
    async fn new() -> Self {
        Self::with_setup(VerificationSetup::default()).await
    }

    async fn with_setup(setup: VerificationSetup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verification.db");
        let store = SqliteStore::open(&path, SqliteOptions::default());
        let store = Arc::new(store.await.unwrap());
        Self::with_store(store, setup, folder).await
    }

    /// Uses PostgreSQL with a schema of its own; returns the schema's name too, for further nodes.
    async fn with_postgres(setup: VerificationSetup) -> (Self, Arc<PostgresStore>, String) {
        let schema = format!("verification_{:016x}", RandomIds.random());
        let store = postgres(&schema).await;
        let folder = tempfile::tempdir().unwrap();
        let world = Self::with_store(store.clone(), setup, folder).await;
        (world, store, schema)
    }

    async fn with_store(
        store: Arc<dyn Store>,
        setup: VerificationSetup,
        folder: tempfile::TempDir,
    ) -> Self {
        install_provider();
        let playground = Playground::start(PlaygroundOptions::default()).await;
        let mut world = Self {
            playground: playground.unwrap(),
            agent: Arc::default(),
            store,
            setup,
            node: None,
            audit: folder.path().join("audit.log"),
            _folder: folder,
        };
        world.start_node().await;
        world
    }

    /// Starts a node, as after a crash of the last one.
    async fn start_node(&mut self) {
        let node = self.new_node().await;
        let events = format!("{}/slack/events", node.url);
        let actions = format!("{}/slack/interactions", node.url);
        self.playground.send_to(&events, &actions).unwrap();
        self.node = Some(node);
    }

    async fn new_node(&self) -> VerificationNode {
        self.new_node_with_store(self.store.clone()).await
    }

    async fn new_node_with_store(&self, store: Arc<dyn Store>) -> VerificationNode {
        let setup = &self.setup;
        let hub = Hub::new(
            store,
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            Registry::default(),
            Limits::default(),
        );
        hub.store().release_stale_claims(hub.now()).await.unwrap();
        let secrets = PlaygroundOptions::default();
        let slack = Slack::new(&self.playground.api_url(), &TrustRoots::system()).unwrap();
        let token = BotToken::new(secrets.bot_token.expose()).unwrap();
        let tokens = SlackTokens::new(
            slack.clone(),
            SlackTokenOptions {
                file: Some(token),
                installs: None,
                clock: Arc::new(SystemClock),
            },
        );
        let client = Client::builder("https://execution.test").transport(self.agent.transport());
        let metrics = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        let zone = VerificationState::new(VerificationOptions {
            hub: hub.clone(),
            slack,
            tokens,
            client: client.build().unwrap(),
            signing_secret: Some(secrets.signing_secret),
            install: None,
            rules: setup.rules.clone(),
            gates: GateOptions {
                policy: Policy::new(&setup.teams, &setup.channels, &setup.users),
                requests_per_minute: setup.per_minute,
                input_chars: 4_000,
                language: None,
            },
            ask: setup.ask,
            reply: ReplyOptions::default(),
            limits: setup.limits.clone(),
            audit: Audit::to_file(&self.audit, metrics.clone()).unwrap(),
            metrics: metrics.clone(),
            metrics_public: true,
            checks: Vec::new(),
            stop: stop.clone(),
        });
        let address = ([127, 0, 0, 1], 0).into();
        let listener = Listener::bind_plain(address, setup.limits.clone(), metrics).await;
        let listener = listener.unwrap();
        let url = format!("http://{}", listener.local_addr());
        let workers = start_workers(&zone, &setup.workers, &CancellationToken::new());
        let serving = listener.serve(router(zone.clone()), stop.clone(), Duration::ZERO);
        let serving = tokio::spawn(serving);
        VerificationNode {
            zone,
            hub,
            workers,
            url,
            stop,
            serving,
        }
    }

    fn running_node(&self) -> &VerificationNode {
        self.node.as_ref().unwrap()
    }

    /// Aborts the node without a shutdown.
    async fn crash(&mut self) {
        let node = self.node.take().unwrap();
        drop(node.workers);
        node.stop.cancel();
        node.serving.await.unwrap();
        drop(node.zone);
        // The loops end at their next poll.
        tokio::task::yield_now().await;
    }

    /// Shuts the node down in order.
    async fn shut_down(&mut self, grace: Duration) {
        let node = self.node.take().unwrap();
        node.stop.cancel();
        node.workers.join(grace).await;
        node.serving.await.unwrap();
    }

    /// Messages of the bot in a thread.
    fn answers(&self, channel: &str, thread: &str) -> Vec<PlaygroundMessage> {
        let thread = self.playground.thread(channel, thread);
        let ours = thread.into_iter();
        ours.filter(|message| message.user == seed::BOT_USER)
            .collect()
    }

    /// Waits until a question is finished; returns the reaction that says how.
    async fn wait_for_reaction(&self, channel: &str, ts: &str) -> String {
        let found = self.playground.wait_for(WAIT_TIMEOUT, |workspace| {
            let message = workspace.message(channel, ts)?;
            let final_reactions = ["white_check_mark", "x", "octagonal_sign"];
            let mut names = message.reactions.iter().map(|reaction| &reaction.name);
            names
                .find(|name| final_reactions.contains(&name.as_str()))
                .cloned()
        });
        match found.await {
            Some(sign) => sign,
            None => panic!(
                "no final reaction: {:#?}\n{:#?}",
                self.playground.thread(channel, ts),
                self.playground
                    .inspect(|workspace| workspace.calls().cloned().collect::<Vec<_>>())
            ),
        }
    }

    /// Waits for an ephemeral message to this user and returns its text.
    async fn wait_for_ephemeral(&self, user: &str) -> String {
        let found = self.playground.wait_for(WAIT_TIMEOUT, |workspace| {
            let mut messages = workspace.ephemerals();
            messages
                .find(|message| message.visible_to.as_deref() == Some(user))
                .map(PlaygroundMessage::displayed_text)
        });
        found
            .await
            .expect("an ephemeral message before the timeout")
    }

    /// Waits until the outbox is empty.
    async fn wait_until_idle(&self) {
        let mut changes = self.store.subscribe_changes();
        let settled = async {
            while self.store.outbox_depth().await.unwrap().0 > 0 {
                // A change hint may be lost, so the depth is polled as well.
                let _ = tokio::time::timeout(Duration::from_millis(20), changes.recv()).await;
            }
        };
        let settled = tokio::time::timeout(WAIT_TIMEOUT, settled).await;
        settled.expect("an empty outbox before the timeout");
    }

    /// Returns the audit lines as soon as there are `count` of them: they are written asynchronously.
    async fn wait_for_audit_lines(&self, count: usize) -> Vec<serde_json::Value> {
        let read = || -> Vec<serde_json::Value> {
            let text = std::fs::read_to_string(&self.audit).unwrap();
            let pieces = text.split_inclusive('\n');
            let lines = pieces.filter(|line| line.ends_with('\n'));
            lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let waiting = async {
            while read().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        let lines = read();
        assert!(waited.is_ok(), "{lines:?}");
        lines
    }
}
