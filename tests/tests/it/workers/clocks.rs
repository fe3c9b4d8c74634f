//! Nodes on one PostgreSQL server whose clocks differ, and a lost claim.

use super::{
    AgentAction, AgentScript, ManualClock, create_task, quick_options, start_workers,
    wait_until_ended,
};
use crate::hub::postgres_url;
use interzone_execution::workers::WorkerOptions;
use interzone_hub::ports::{WorkClaim, WorkStore};
use interzone_hub::{
    Agent, Clock, Hub, IdSource, Limits, RandomIds, Registry, RunShares, SystemClock,
};
use interzone_protocol::vocab::{AgentId, TaskState};
use interzone_store::postgres::{PostgresClock, PostgresOptions, PostgresStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(3);

fn new_schema() -> String {
    format!("clocks_{:016x}", RandomIds.random())
}

async fn store(schema: &str, clock: PostgresClock) -> PostgresStore {
    let options = PostgresOptions {
        schema: schema.to_owned(),
        pool_size: 4,
        clock,
        ..PostgresOptions::default()
    };
    PostgresStore::connect(&postgres_url(), options)
        .await
        .unwrap()
}

async fn node(schema: &str, agent: Arc<dyn Agent>, clock: Arc<dyn Clock>) -> Hub {
    let store = Arc::new(store(schema, PostgresClock::Server).await);
    let mut registry = Registry::default();
    registry.add(agent);
    Hub::new(
        store,
        clock,
        Arc::new(RandomIds),
        registry,
        Limits::default(),
    )
}

fn options(name: &str) -> WorkerOptions {
    WorkerOptions {
        lease: LEASE,
        ..quick_options(name)
    }
}

fn wanted() -> Vec<(AgentId, usize)> {
    vec![(AgentId::new("actor").unwrap(), 10)]
}

#[tokio::test]
async fn node_clock_skew_does_not_repeat_runs() {
    let schema = new_schema();
    // One slot more than tasks: the last slot is left to other owners.
    let mut stage = AgentScript::new("actor", 11);
    let hub = node(&schema, stage.agent.clone(), Arc::new(SystemClock)).await;
    let now = SystemClock.now().as_millis();
    let ahead = Arc::new(ManualClock(AtomicI64::new(now + 30_000)));
    let other = node(&schema, stage.agent.clone(), ahead.clone()).await;
    let _workers = start_workers(&hub, options("n1"));
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(create_task(&hub, &format!("work {number}")).await);
    }
    for _ in 0..10 {
        assert!(matches!(
            stage.next_action().await,
            AgentAction::Started(_, 1)
        ));
    }
    let _others = start_workers(&other, options("n2"));
    for step in [0, 3_600_000, -7_200_000] {
        ahead.0.fetch_add(step, Ordering::SeqCst);
        let claimed = other.claim("n2", wanted(), LEASE).await.unwrap();
        assert_eq!(claimed.len(), 0, "{step} ms");
    }
    stage.gate.add_permits(10);
    for id in &ids {
        let (task, _) = wait_until_ended(&hub, id).await;
        assert_eq!(task.state, TaskState::Completed);
    }
    let mut finished = 0;
    while let Ok(did) = stage.actions.try_recv() {
        assert!(matches!(did, AgentAction::Finished(_)), "{did:?}");
        finished += 1;
    }
    assert_eq!(finished, 10, "as many runs as tasks");
}

#[tokio::test]
async fn run_stops_when_its_claim_is_lost() {
    let schema = new_schema();
    let mut stage = AgentScript::new("actor", 4);
    let hub = node(&schema, stage.agent.clone(), Arc::new(SystemClock)).await;
    let _workers = start_workers(&hub, options("n1"));
    create_task(&hub, "wait").await;
    stage.expect_started("wait", 1).await;
    // By this store's clock the lease is over, so another node gets the task.
    let other_store = store(&schema, PostgresClock::Caller).await;
    let claim = WorkClaim {
        node: "n2".to_owned(),
        wanted: wanted(),
        now: SystemClock.now().plus(Duration::from_secs(3_600)),
        lease: Duration::from_secs(3_600),
        running_claims: Vec::new(),
        shares: RunShares::default(),
    };
    // A claim that is being renewed concurrently is skipped.
    while other_store.claim_work(&claim).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        stage.next_action().await,
        AgentAction::Stopped("wait".to_owned())
    );
}

#[tokio::test]
async fn claim_is_renewed_while_agent_works() {
    let lease = Duration::from_secs(1);
    let schema = new_schema();
    let mut stage = AgentScript::new("actor", 4);
    let hub = node(&schema, stage.agent.clone(), Arc::new(SystemClock)).await;
    let other = node(&schema, stage.agent.clone(), Arc::new(SystemClock)).await;
    let _workers = start_workers(
        &hub,
        WorkerOptions {
            lease,
            ..quick_options("n1")
        },
    );
    let id = create_task(&hub, "work").await;
    stage.expect_started("work", 1).await;
    // Reads the claim's expiry by a clock of the test's own.
    let observer = store(&schema, PostgresClock::Caller).await;
    let third = SystemClock.now().plus(lease * 3);
    let renewed = async {
        while observer.work_depth(third).await.unwrap() != (0, 1) {
            let claimed = other.claim("n2", wanted(), lease).await.unwrap();
            assert!(claimed.is_empty(), "the claim was renewed in time");
        }
    };
    tokio::time::timeout(Duration::from_secs(60), renewed)
        .await
        .expect("the claim is renewed");
    stage.gate.add_permits(1);
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert_eq!(
        stage.next_action().await,
        AgentAction::Finished("work".to_owned())
    );
}
