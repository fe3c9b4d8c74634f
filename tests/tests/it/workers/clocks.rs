//! Nodes on one PostgreSQL server whose clocks differ, and a claim that is lost.

use super::{Did, Stage, TestClock, ask, ended, quick, start};
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
        ..quick(name)
    }
}

fn wanted() -> Vec<(AgentId, usize)> {
    vec![(AgentId::new("actor").unwrap(), 10)]
}

#[tokio::test]
async fn each_task_runs_once_while_one_node_is_thirty_seconds_ahead() {
    let schema = new_schema();
    // One more than there are tasks, which is left to other owners.
    let mut stage = Stage::new("actor", 11);
    let hub = node(&schema, stage.actor.clone(), Arc::new(SystemClock)).await;
    let now = SystemClock.now().as_millis();
    let ahead = Arc::new(TestClock(AtomicI64::new(now + 30_000)));
    let other = node(&schema, stage.actor.clone(), ahead.clone()).await;
    let _workers = start(&hub, options("n1"));
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(ask(&hub, &format!("work {number}")).await);
    }
    for _ in 0..10 {
        assert!(matches!(stage.next().await, Did::Begun(_, 1)));
    }
    let _others = start(&other, options("n2"));
    for step in [0, 3_600_000, -7_200_000] {
        ahead.0.fetch_add(step, Ordering::SeqCst);
        let claimed = other.claim("n2", wanted(), LEASE).await.unwrap();
        assert_eq!(claimed.len(), 0, "{step} ms");
    }
    stage.gate.add_permits(10);
    for id in &ids {
        let (task, _) = ended(&hub, id).await;
        assert_eq!(task.state, TaskState::Completed);
    }
    let mut finished = 0;
    while let Ok(did) = stage.did.try_recv() {
        assert!(matches!(did, Did::Finished(_)), "{did:?}");
        finished += 1;
    }
    assert_eq!(finished, 10, "as many runs as tasks");
}

#[tokio::test]
async fn run_stops_when_its_claim_is_lost() {
    let schema = new_schema();
    let mut stage = Stage::new("actor", 4);
    let hub = node(&schema, stage.actor.clone(), Arc::new(SystemClock)).await;
    let _workers = start(&hub, options("n1"));
    ask(&hub, "wait").await;
    stage.begun("wait", 1).await;
    // To this store the lease is over, so another node gets the task.
    let thief = store(&schema, PostgresClock::Caller).await;
    let claim = WorkClaim {
        node: "n2".to_owned(),
        wanted: wanted(),
        now: SystemClock.now().after(Duration::from_secs(3_600)),
        lease: Duration::from_secs(3_600),
        running: Vec::new(),
        shares: RunShares::default(),
    };
    // What is being renewed at this moment is skipped.
    while thief.claim_work(&claim).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.next().await, Did::Stopped("wait".to_owned()));
}

#[tokio::test]
async fn run_keeps_its_claim_for_several_leases_while_the_agent_works() {
    let lease = Duration::from_secs(1);
    let schema = new_schema();
    let mut stage = Stage::new("actor", 4);
    let hub = node(&schema, stage.actor.clone(), Arc::new(SystemClock)).await;
    let other = node(&schema, stage.actor.clone(), Arc::new(SystemClock)).await;
    let _workers = start(
        &hub,
        WorkerOptions {
            lease,
            ..quick("n1")
        },
    );
    let id = ask(&hub, "work").await;
    stage.begun("work", 1).await;
    // Asks by a time of the test's own how long the claim lasts.
    let witness = store(&schema, PostgresClock::Caller).await;
    let third = SystemClock.now().after(lease * 3);
    let lasts = async {
        while witness.work_depth(third).await.unwrap() != (0, 1) {
            let claimed = other.claim("n2", wanted(), lease).await.unwrap();
            assert!(claimed.is_empty(), "the claim was renewed in time");
        }
    };
    tokio::time::timeout(Duration::from_secs(60), lasts)
        .await
        .expect("the claim is renewed");
    stage.gate.add_permits(1);
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert_eq!(stage.next().await, Did::Finished("work".to_owned()));
}
