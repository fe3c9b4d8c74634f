//! The hub on a real store: what happens, seen from outside.

/// Runs each of these functions on every engine, as a test of its own.
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(crate::hub::World::new().await).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(crate::hub::World::on_postgres().await).await;
                }
            )+
        }
    };
}

mod addresses;
mod answers;
mod mail;
mod pushes;
mod runs;
mod streams;
mod tasks;
mod topics;
mod watch;

use interzone_hub::ports::Store;
use interzone_hub::{
    Agent, AgentError, AgentInfo, Caller, Clock, Hub, IdSource, Limits, Outcome, Output, RandomIds,
    Registry, Run, Turn, TurnStart,
};
use interzone_protocol::vocab::{AgentId, PrincipalId, Timestamp};
use interzone_store::postgres::{PostgresClock, PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

/// A clock that moves when told to.
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// An agent that is only ever routed to: the tests do its work by hand.
struct Named(AgentInfo);

#[async_trait::async_trait]
impl Agent for Named {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    async fn run(&self, _: Turn, _: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        Ok(Outcome::Completed {
            message: None,
            direct: false,
        })
    }
}

/// A hub on a store of its own.
struct World {
    hub: Hub,
    clock: Arc<TestClock>,
    _folder: Option<tempfile::TempDir>,
}

impl World {
    async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, SqliteOptions::default())
            .await
            .unwrap();
        Self::on(Arc::new(store), limits, Some(folder))
    }

    /// In a schema of its own, which goes with the server.
    async fn on_postgres() -> Self {
        let options = PostgresOptions {
            schema: format!("hub_{:016x}", RandomIds.random()),
            pool_size: 4,
            clock: PostgresClock::Caller,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::connect(&postgres_url(), options)
            .await
            .unwrap();
        Self::on(Arc::new(store), Limits::default(), None)
    }

    fn on(store: Arc<dyn Store>, limits: Limits, folder: Option<tempfile::TempDir>) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_700_000_000_000)));
        let mut agents = Registry::default();
        for id in ["demo", "other"] {
            agents.add(Arc::new(Named(AgentInfo {
                id: agent(id),
                name: id.to_owned(),
                description: id.to_owned(),
                skills: Vec::new(),
                concurrency: 4,
            })));
        }
        let hub = Hub::new(store, clock.clone(), Arc::new(RandomIds), agents, limits);
        Self {
            hub,
            clock,
            _folder: folder,
        }
    }

    fn pass(&self, time: Duration) {
        self.clock
            .0
            .fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// What other nodes held is free: their process has gone, or their time is over.
    async fn end_leases(&self) {
        self.pass(LEASE + Duration::from_secs(1));
        self.hub.store().take_over(self.hub.now()).await.unwrap();
    }

    /// The one run that can be claimed.
    async fn claim(&self, node: &str) -> Arc<Run> {
        let mut runs = self
            .hub
            .claim(node, vec![(agent("demo"), 1)], LEASE)
            .await
            .unwrap();
        assert_eq!(runs.len(), 1, "one task should be claimable");
        runs.remove(0)
    }

    async fn claims_nothing(&self, node: &str) -> bool {
        self.hub
            .claim(node, vec![(agent("demo"), 1)], LEASE)
            .await
            .unwrap()
            .is_empty()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "test.sh tells where its server is"
)]
pub(crate) fn postgres_url() -> String {
    std::env::var("INTERZONE_TEST_POSTGRES").expect(
        "INTERZONE_TEST_POSTGRES names no PostgreSQL server: run ./test.sh --only test, or \
         eval \"$(scripts/postgres.sh start)\" first",
    )
}

fn agent(id: &str) -> AgentId {
    AgentId::new(id).unwrap()
}

fn caller(name: &str) -> Caller {
    Caller::new(PrincipalId::new(name).unwrap())
}

fn operator() -> Caller {
    Caller::operator(PrincipalId::new("operator").unwrap())
}

async fn turn(run: &Run) -> Turn {
    match run.begin().await.unwrap() {
        TurnStart::Turn(turn) => *turn,
        TurnStart::Nothing => panic!("there should be a turn"),
    }
}

fn completed(text: &str) -> Outcome {
    let message = Some(interzone_protocol::vocab::Message::agent_text(text));
    Outcome::Completed {
        message,
        direct: false,
    }
}
