//! The server, or its single connections, are killed under writers that must go on by themselves.

use super::facts::Fact;
use super::load::{Load, Sink};
use super::verify::{Told, Untold};
use super::{Dice, rounds};
use crate::engine::{Postgres, drop_schema, kill_connections, postgres_node, postgres_url};
use interzone_hub::ports::Store;
use interzone_hub::{IdSource, RandomIds};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Facts as they come, and how many writes are among them.
struct Ears {
    facts: Arc<Mutex<Vec<Fact>>>,
    writes: watch::Receiver<usize>,
}

impl Ears {
    fn new() -> (Self, Sink) {
        let facts = Arc::new(Mutex::new(Vec::new()));
        let (count, writes) = watch::channel(0);
        let heard = facts.clone();
        let sink: Sink = Arc::new(move |fact| {
            let wrote = matches!(fact, Fact::Wrote { .. });
            heard.lock().unwrap().push(fact);
            if wrote {
                count.send_modify(|count| *count += 1);
            }
        });
        (Self { facts, writes }, sink)
    }

    /// Waits until so many more writes were acknowledged.
    async fn hear(&mut self, more: usize) {
        let target = *self.writes.borrow() + more;
        let reached = self.writes.wait_for(|count| *count >= target);
        let reached = tokio::time::timeout(Duration::from_secs(90), reached).await;
        let broken = |fact: &&Fact| matches!(fact, Fact::Broken { .. });
        let broken = self.facts.lock().unwrap().iter().find(broken).cloned();
        assert_eq!(broken, None);
        assert!(reached.is_ok(), "the writers did not go on by themselves");
    }

    fn tell(&self, told: &mut Told) {
        let facts = std::mem::take(&mut *self.facts.lock().unwrap());
        facts.into_iter().for_each(|fact| told.note(fact));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_loses_nothing() {
    let mut dice = Dice::new();
    let server = Postgres::start();
    let node: Arc<dyn Store> = Arc::new(postgres_node(&server.url, "crashed").await);
    let (mut ears, sink) = Ears::new();
    let load = Load::start(node.clone(), "load", 8, sink).await.unwrap();
    for round in 0..rounds().div_ceil(2) {
        ears.hear(usize::try_from(20 + dice.below(150)).unwrap())
            .await;
        server.crash();
        server.revive();
        println!("round {round}: the server crashed and came back");
    }
    ears.hear(50).await;
    load.stop();
    load.end().await.unwrap();
    let mut told = Told::default();
    ears.tell(&mut told);
    println!("refused: {:?}", told.refused);
    told.check(&node, Untold::NOTHING).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_lose_nothing() {
    let mut dice = Dice::new();
    let url = postgres_url();
    let schema = format!("test_{:016x}", RandomIds.random());
    let node: Arc<dyn Store> = Arc::new(postgres_node(&url, &schema).await);
    let (mut ears, sink) = Ears::new();
    let load = Load::start(node.clone(), "load", 8, sink).await.unwrap();
    let mut cut = 0;
    for _ in 0..rounds() * 2 {
        ears.hear(usize::try_from(1 + dice.below(15)).unwrap())
            .await;
        cut += kill_connections(&url, &schema).await;
    }
    println!("{cut} connections cut");
    assert!(cut > 0);
    ears.hear(50).await;
    load.stop();
    load.end().await.unwrap();
    let mut told = Told::default();
    ears.tell(&mut told);
    println!("refused {} times", told.refused.len());
    told.check(&node, Untold::NOTHING).await;
    drop(node);
    drop_schema(&url, &schema).await;
}
