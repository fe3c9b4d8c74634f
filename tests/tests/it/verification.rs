//! The Verification Zone between a workspace and an agent: a real store, real requests, a Slack that is
//! strict and breaks when told to, and an agent that counts how often it is asked.

mod agent;
mod asking;
mod crashes;
mod doors;
mod pressed;
mod stopping;
mod waiting;
mod workers;

use agent::Agent;
use interzone_client::Client;
use interzone_edge::audit::Audit;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{Trust, install_provider};
use interzone_hub::ports::Store;
use interzone_hub::{Hub, IdSource, Limits, RandomIds, Registry, SystemClock};
use interzone_playground::{Message, Playground, PlaygroundOptions, seed};
use interzone_store::postgres::{PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::intake::Rules;
use interzone_verification::policy::Policy;
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::tokens::{BotToken, Tokens, TokensOptions};
use interzone_verification::workers::{WorkerOptions, Workers};
use interzone_verification::{AskOptions, GateOptions, ReplyOptions, Zone, ZoneOptions, router};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What differs from one test to the next.
#[derive(Clone)]
struct Setup {
    teams: Vec<String>,
    channels: Vec<String>,
    users: Vec<String>,
    per_minute: u32,
    rules: Rules,
    ask: AskOptions,
    workers: WorkerOptions,
    limits: HttpLimits,
}

impl Default for Setup {
    fn default() -> Self {
        let everybody = || vec!["*".to_owned()];
        let mut workers = WorkerOptions::default();
        // A crash is made up for at once, and nobody waits for the second try.
        for channel in [&mut workers.asks, &mut workers.posts, &mut workers.errands] {
            channel.retry.first = Duration::from_millis(5);
            channel.retry.longest = Duration::from_millis(50);
        }
        Self {
            teams: everybody(),
            channels: everybody(),
            users: everybody(),
            per_minute: 0,
            rules: Rules::default(),
            ask: AskOptions::default(),
            workers,
            limits: HttpLimits::default(),
        }
    }
}

/// A node that runs.
struct Node {
    zone: Zone,
    hub: Hub,
    workers: Workers,
    url: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// A workspace, an agent, a store, and the zone between them.
struct World {
    playground: Playground,
    agent: Arc<Agent>,
    store: Arc<dyn Store>,
    setup: Setup,
    node: Option<Node>,
    audit: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

/// A node's own way to PostgreSQL.
async fn postgres(schema: &str) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        schema: schema.to_owned(),
        pool_size: 4,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&crate::hub::postgres_url(), options).await;
    Arc::new(store.unwrap())
}

impl World {
    async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    async fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verification.db");
        let store = SqliteStore::open(&path, SqliteOptions::default());
        let store = Arc::new(store.await.unwrap());
        Self::on(store, setup, folder).await
    }

    /// On PostgreSQL, in a schema of its own; and the schema's name, for further nodes.
    async fn on_postgres(setup: Setup) -> (Self, Arc<PostgresStore>, String) {
        let schema = format!("verification_{:016x}", RandomIds.random());
        let store = postgres(&schema).await;
        let folder = tempfile::tempdir().unwrap();
        let world = Self::on(store.clone(), setup, folder).await;
        (world, store, schema)
    }

    async fn on(store: Arc<dyn Store>, setup: Setup, folder: tempfile::TempDir) -> Self {
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
        world.start().await;
        world
    }

    /// Starts a node, as after the last one has died.
    async fn start(&mut self) {
        let node = self.node().await;
        let events = format!("{}/slack/events", node.url);
        let actions = format!("{}/slack/interactions", node.url);
        self.playground.send_to(&events, &actions).unwrap();
        self.node = Some(node);
    }

    async fn node(&self) -> Node {
        self.node_on(self.store.clone()).await
    }

    async fn node_on(&self, store: Arc<dyn Store>) -> Node {
        let setup = &self.setup;
        let hub = Hub::new(
            store,
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            Registry::default(),
            Limits::default(),
        );
        hub.store().take_over(hub.now()).await.unwrap();
        let secrets = PlaygroundOptions::default();
        let slack = Slack::new(&self.playground.api_url(), &Trust::system()).unwrap();
        let token = BotToken::new(secrets.bot_token.expose()).unwrap();
        let tokens = Tokens::new(
            slack.clone(),
            TokensOptions {
                file: Some(token),
                installs: None,
                clock: Arc::new(SystemClock),
            },
        );
        let client = Client::builder("https://execution.test").transport(self.agent.transport());
        let metrics = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        let zone = Zone::new(ZoneOptions {
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
        let workers = Workers::start(&zone, &setup.workers, &CancellationToken::new());
        let serving = listener.serve(router(zone.clone()), stop.clone(), Duration::ZERO);
        let serving = tokio::spawn(serving);
        Node {
            zone,
            hub,
            workers,
            url,
            stop,
            serving,
        }
    }

    fn running(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    /// Cuts everything off as it is.
    async fn crash(&mut self) {
        let node = self.node.take().unwrap();
        drop(node.workers);
        node.stop.cancel();
        node.serving.await.unwrap();
        drop(node.zone);
        // The loops end at their next chance, which is this one.
        tokio::task::yield_now().await;
    }

    /// Ends it in good order.
    async fn close(&mut self, grace: Duration) {
        let node = self.node.take().unwrap();
        node.stop.cancel();
        node.workers.join(grace).await;
        node.serving.await.unwrap();
    }

    /// What the bot said in a thread.
    fn answers(&self, channel: &str, thread: &str) -> Vec<Message> {
        let thread = self.playground.thread(channel, thread);
        let ours = thread.into_iter();
        ours.filter(|message| message.user == seed::BOT_USER)
            .collect()
    }

    /// Waits until a question has been seen to: its sign stands.
    async fn sign(&self, channel: &str, ts: &str) -> String {
        let found = self.playground.wait(PATIENCE, |workspace| {
            let message = workspace.message(channel, ts)?;
            let ends = ["white_check_mark", "x", "octagonal_sign"];
            let mut names = message.reactions.iter().map(|reaction| &reaction.name);
            names.find(|name| ends.contains(&name.as_str())).cloned()
        });
        match found.await {
            Some(sign) => sign,
            None => panic!(
                "nothing stands there: {:#?}\n{:#?}",
                self.playground.thread(channel, ts),
                self.playground
                    .look(|workspace| workspace.calls().cloned().collect::<Vec<_>>())
            ),
        }
    }

    /// Waits until somebody alone was told something.
    async fn told(&self, user: &str) -> String {
        let found = self.playground.wait(PATIENCE, |workspace| {
            let mut told = workspace.ephemerals();
            told.find(|message| message.only_for.as_deref() == Some(user))
                .map(Message::shown)
        });
        found.await.expect("nothing was told")
    }

    /// Waits until nothing waits in the outbox any more.
    async fn quiet(&self) {
        let mut wakes = self.store.wakes();
        let settled = async {
            while self.store.outbox_depth().await.unwrap().0 > 0 {
                // A hint may be lost, so it is looked at now and then as well.
                let _ = tokio::time::timeout(Duration::from_millis(20), wakes.recv()).await;
            }
        };
        let settled = tokio::time::timeout(PATIENCE, settled).await;
        settled.expect("something still waits");
    }

    /// What was audited, as soon as there is so much of it: lines are written beside everything else.
    async fn audited(&self, count: usize) -> Vec<serde_json::Value> {
        let read = || -> Vec<serde_json::Value> {
            let text = std::fs::read_to_string(&self.audit).unwrap();
            let whole = text.split_inclusive('\n');
            let lines = whole.filter(|line| line.ends_with('\n'));
            lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let waiting = async {
            while read().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let lines = read();
        assert!(waited.is_ok(), "{lines:?}");
        lines
    }
}
