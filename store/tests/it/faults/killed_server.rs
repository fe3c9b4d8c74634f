//! The server or its connections are killed under writers that must recover by themselves.

use super::facts::Fact;
use super::load::{Load, Sink};
use super::verify::{FactLog, UnreportedLimit};
use super::{SeededRandom, rounds};
use crate::engine::{PostgresServer, drop_schema, kill_connections, postgres_node, postgres_url};
use interzone_hub::ports::Store;
use interzone_hub::{IdSource, RandomIds};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Collected facts, and the number of writes among them.
struct FactCollector {
    facts: Arc<Mutex<Vec<Fact>>>,
    writes: watch::Receiver<usize>,
}

impl FactCollector {
    fn new() -> (Self, Sink) {
        let facts = Arc::new(Mutex::new(Vec::new()));
        let (count, writes) = watch::channel(0);
        let collected = facts.clone();
        let sink: Sink = Arc::new(move |fact| {
            let wrote = matches!(fact, Fact::Wrote { .. });
            collected.lock().unwrap().push(fact);
            if wrote {
                count.send_modify(|count| *count += 1);
            }
        });
        (Self { facts, writes }, sink)
    }

    /// Waits until this many more writes were acknowledged.
    async fn wait_for_writes(&mut self, more: usize) {
        let target = *self.writes.borrow() + more;
        let reached = self.writes.wait_for(|count| *count >= target);
        let reached = tokio::time::timeout(Duration::from_secs(90), reached).await;
        let broken = |fact: &&Fact| matches!(fact, Fact::Broken { .. });
        let broken = self.facts.lock().unwrap().iter().find(broken).cloned();
        assert_eq!(broken, None);
        assert!(reached.is_ok(), "the writers did not recover");
    }

    fn drain_into(&self, log: &mut FactLog) {
        let facts = std::mem::take(&mut *self.facts.lock().unwrap());
        facts.into_iter().for_each(|fact| log.record(fact));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_server_loses_nothing() {
    let mut dice = SeededRandom::new();
    let server = PostgresServer::start();
    let node: Arc<dyn Store> = Arc::new(postgres_node(&server.url, "crashed").await);
    let (mut collector, sink) = FactCollector::new();
    let load = Load::start(node.clone(), "load", 8, sink).await.unwrap();
    for round in 0..rounds().div_ceil(2) {
        collector
            .wait_for_writes(usize::try_from(20 + dice.below(150)).unwrap())
            .await;
        server.crash();
        server.restart();
        println!("round {round}: the server crashed and came back");
    }
    collector.wait_for_writes(50).await;
    load.stop();
    load.end().await.unwrap();
    let mut log = FactLog::default();
    collector.drain_into(&mut log);
    println!("refused: {:?}", log.refused);
    log.check(&node, UnreportedLimit::NONE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_lose_nothing() {
    let mut dice = SeededRandom::new();
    let url = postgres_url();
    let schema = format!("test_{:016x}", RandomIds.random());
    let node: Arc<dyn Store> = Arc::new(postgres_node(&url, &schema).await);
    let (mut collector, sink) = FactCollector::new();
    let load = Load::start(node.clone(), "load", 8, sink).await.unwrap();
    let mut cut = 0;
    for _ in 0..rounds() * 2 {
        collector
            .wait_for_writes(usize::try_from(1 + dice.below(15)).unwrap())
            .await;
        cut += kill_connections(&url, &schema).await;
    }
    println!("{cut} connections cut");
    assert!(cut > 0);
    collector.wait_for_writes(50).await;
    load.stop();
    load.end().await.unwrap();
    let mut log = FactLog::default();
    collector.drain_into(&mut log);
    println!("refused {} times", log.refused.len());
    log.check(&node, UnreportedLimit::NONE).await;
    drop(node);
    drop_schema(&url, &schema).await;
}
