//! Tests of the hub on a real store, through its public interface.

/// Defines each of these functions as one test per store engine.
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(crate::hub::HubFixture::new().await).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(crate::hub::HubFixture::on_postgres().await).await;
                }
            )+
        }
    };
}

mod fetch_urls;
mod inbox_outbox;
mod progress;
mod push_subscriptions;
mod runs;
mod sending;
mod stream_answers;
mod streams;
mod tasks;
mod topics;
mod watch;

use interzone_hub::ports::Store;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Caller, Clock, Hub, IdSource, Limits, RandomIds,
    Registry, Run, Turn, TurnOutcome, TurnOutput, TurnStart,
};
use interzone_protocol::vocab::{AgentId, PrincipalId, Timestamp};
use interzone_store::postgres::{PostgresClock, PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

/// Clock that is advanced by the test.
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Agent that is only a routing target: the tests perform its work themselves.
struct RoutingOnlyAgent(AgentInfo);

#[async_trait::async_trait]
impl Agent for RoutingOnlyAgent {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    async fn run(&self, _: Turn, _: Arc<dyn TurnOutput>) -> Result<TurnOutcome, AgentError> {
        Ok(TurnOutcome::Completed {
            message: None,
            direct: false,
        })
    }
}

/// Hub on a store of its own.
struct HubFixture {
    hub: Hub,
    clock: Arc<ManualClock>,
    _folder: Option<tempfile::TempDir>,
}

impl HubFixture {
    async fn new() -> Self {
        Self::with_limits(Limits::default()).await
    }

    async fn with_limits(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, SqliteOptions::default())
            .await
            .unwrap();
        Self::with_store(Arc::new(store), limits, Some(folder))
    }

    /// Uses a new schema, which is dropped with the server.
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
        Self::with_store(Arc::new(store), Limits::default(), None)
    }

    fn with_store(
        store: Arc<dyn Store>,
        limits: Limits,
        folder: Option<tempfile::TempDir>,
    ) -> Self {
        let clock = Arc::new(ManualClock(AtomicI64::new(1_700_000_000_000)));
        let mut agents = Registry::default();
        for id in ["demo", "other"] {
            agents.add(Arc::new(RoutingOnlyAgent(AgentInfo {
                id: agent(id),
                name: id.to_owned(),
                description: id.to_owned(),
                skills: Vec::new(),
                concurrency: 4,
                profile: AgentProfile::default(),
            })));
        }
        let hub = Hub::new(store, clock.clone(), Arc::new(RandomIds), agents, limits);
        Self {
            hub,
            clock,
            _folder: folder,
        }
    }

    fn advance_clock(&self, time: Duration) {
        self.clock
            .0
            .fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Lets the leases of all nodes expire and releases their claims.
    async fn expire_leases(&self) {
        self.advance_clock(LEASE + Duration::from_secs(1));
        self.hub
            .store()
            .release_stale_claims(self.hub.now())
            .await
            .unwrap();
    }

    /// Claims the only claimable run.
    async fn claim(&self, node: &str) -> Arc<Run> {
        let mut runs = self
            .hub
            .claim(node, vec![(agent("demo"), 1)], LEASE)
            .await
            .unwrap();
        assert_eq!(runs.len(), 1, "one task should be claimable");
        runs.remove(0)
    }

    async fn has_no_claimable_work(&self, node: &str) -> bool {
        self.hub
            .claim(node, vec![(agent("demo"), 1)], LEASE)
            .await
            .unwrap()
            .is_empty()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "test.sh exports the address of its server"
)]
pub(crate) fn postgres_url() -> String {
    std::env::var("INTERZONE_TEST_POSTGRES").expect(
        "INTERZONE_TEST_POSTGRES is not set: run ./test.sh --only test, or \
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

async fn start_turn(run: &Run) -> Turn {
    match run.start_turn().await.unwrap() {
        TurnStart::Turn(turn) => *turn,
        TurnStart::NothingToDo => panic!("there should be a turn"),
    }
}

fn completed_outcome(text: &str) -> TurnOutcome {
    let message = Some(interzone_protocol::vocab::Message::agent_text(text));
    TurnOutcome::Completed {
        message,
        direct: false,
    }
}
