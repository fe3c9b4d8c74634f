//! Fairness of the queue: owners take turns, and none takes more than its share of the runs.

use crate::engine::{Engine, drop_schema, postgres_node, postgres_url, run_sql};
use crate::make::{agent, at, commit, make, queue_of, task_id, wish, work_owner};
use interzone_hub::ports::{Op, Store, WorkClaim, WorkItem};
use interzone_hub::{IdSource, RandomIds, RunShares, WorkOwner};
use interzone_protocol::vocab::Priority;
use std::time::Duration;

contract!(
    one_task_is_not_behind_a_thousand_of_another_owner,
    urgent_tasks_delay_other_owners_by_a_bounded_number,
    people_of_one_principal_take_turns,
    late_owners_alternate_with_a_backlog,
    few_tasks_are_claimed_by_priority,
    equal_turns_are_claimed_in_the_order_of_queueing,
    given_back_tasks_keep_their_turn,
    tasks_that_are_queued_again_stand_behind_their_owner,
    turns_go_on_when_the_store_is_opened_again,
    owner_at_its_share_is_passed_over,
    one_claim_takes_no_more_than_a_share,
    share_of_the_node_is_counted_over_agents,
    commit_and_claim_respects_shares,
);

fn person(principal: &str, group: u8) -> WorkOwner {
    WorkOwner {
        group,
        ..work_owner(principal)
    }
}

/// Queues so many tasks of an owner, named by a prefix and a number.
async fn fill(store: &dyn Store, owner: &WorkOwner, name: &str, count: usize, how: Priority) {
    let ids: Vec<String> = (0..count).map(|number| format!("{name}{number}")).collect();
    make(store, &ids).await;
    let ops = ids
        .iter()
        .map(|id| queue_of(owner, id, "agent", how, at(0)));
    store.commit(commit(ops.collect())).await.unwrap();
}

async fn claim(store: &dyn Store, count: usize) -> Vec<WorkItem> {
    store.claim_work(&wish("n", count, at(0))).await.unwrap()
}

async fn claim_names(store: &dyn Store, count: usize) -> Vec<String> {
    let items = claim(store, count).await;
    items.iter().map(|item| item.task_id.to_string()).collect()
}

/// A claim that is limited by these shares.
fn within(count: usize, shares: &RunShares) -> WorkClaim {
    WorkClaim {
        shares: shares.clone(),
        ..wish("n", count, at(0))
    }
}

/// Shares of an agent with so many run slots.
fn shares(slots: usize) -> RunShares {
    RunShares::new(1_000, [(agent("agent"), slots)])
}

async fn one_task_is_not_behind_a_thousand_of_another_owner(on: Engine) {
    let store = on.node().await;
    let (many, one) = (work_owner("many"), work_owner("one"));
    fill(&*store, &many, "many", 1_000, Priority::Normal).await;
    fill(&*store, &one, "one", 1, Priority::Normal).await;
    assert_eq!(claim_names(&*store, 3).await, ["many0", "one0", "many1"]);
    // And later, when the backlog is being worked at.
    claim(&*store, 100).await;
    fill(&*store, &one, "later", 1, Priority::Normal).await;
    let next = claim_names(&*store, 3).await;
    assert!(next.contains(&"later0".to_owned()), "{next:?}");
}

async fn urgent_tasks_delay_other_owners_by_a_bounded_number(on: Engine) {
    let store = on.node().await;
    let many = work_owner("many");
    fill(&*store, &many, "urgent", 100, Priority::Urgent).await;
    fill(&*store, &work_owner("one"), "one", 2, Priority::Normal).await;
    let order = claim_names(&*store, 100).await;
    let place = |name: &str| order.iter().position(|id| id == name);
    let places = (place("one0"), place("one1"));
    assert_eq!(places, (Some(16), Some(33)), "{order:?}");
}

async fn people_of_one_principal_take_turns(on: Engine) {
    let store = on.node().await;
    fill(&*store, &person("slack", 1), "many", 100, Priority::Normal).await;
    fill(&*store, &person("slack", 2), "one", 2, Priority::Normal).await;
    let order = claim_names(&*store, 4).await;
    assert_eq!(order, ["many0", "one0", "many1", "one1"]);
    let items = claim(&*store, 1).await;
    assert_eq!(items[0].owner, person("slack", 1));
}

/// Others who come one at a time are claimed soon, and do not hold the backlog up.
async fn late_owners_alternate_with_a_backlog(on: Engine) {
    let store = on.node().await;
    fill(&*store, &work_owner("many"), "many", 50, Priority::Normal).await;
    claim(&*store, 5).await;
    let mut order = Vec::new();
    for round in 0..8 {
        let name = format!("late{round}-");
        fill(&*store, &work_owner(&name), &name, 1, Priority::Normal).await;
        order.extend(claim_names(&*store, 1).await);
    }
    let of_many = order.iter().filter(|id| id.starts_with("many")).count();
    assert!((3..=5).contains(&of_many), "{order:?}");
}

async fn few_tasks_are_claimed_by_priority(on: Engine) {
    let store = on.node().await;
    let owner = work_owner("owner");
    for (name, how) in [
        ("low", Priority::Low),
        ("normal", Priority::Normal),
        ("high", Priority::High),
        ("urgent", Priority::Urgent),
    ] {
        fill(&*store, &owner, name, 3, how).await;
    }
    let order = claim_names(&*store, 12).await;
    let expected = ["urgent", "high", "normal", "low"].iter();
    let expected = expected.flat_map(|name| (0..3).map(move |n| format!("{name}{n}")));
    assert_eq!(order, expected.collect::<Vec<_>>());
}

async fn equal_turns_are_claimed_in_the_order_of_queueing(on: Engine) {
    let store = on.node().await;
    for name in ["d", "a", "c", "b"] {
        fill(&*store, &work_owner(name), name, 1, Priority::Normal).await;
    }
    assert_eq!(claim_names(&*store, 4).await, ["d0", "a0", "c0", "b0"]);
}

async fn given_back_tasks_keep_their_turn(on: Engine) {
    let store = on.node().await;
    fill(&*store, &work_owner("a"), "a", 3, Priority::Normal).await;
    let first = claim(&*store, 1).await.remove(0);
    fill(&*store, &work_owner("b"), "b", 1, Priority::Urgent).await;
    let back = store.release_work(&first.task_id, "n", first.claim, Duration::ZERO, at(0));
    assert!(back.await.unwrap());
    assert_eq!(claim_names(&*store, 2).await, ["a0", "b0"]);
}

async fn tasks_that_are_queued_again_stand_behind_their_owner(on: Engine) {
    let store = on.node().await;
    let (a, b) = (work_owner("a"), work_owner("b"));
    fill(&*store, &a, "a", 3, Priority::Normal).await;
    claim(&*store, 1).await;
    fill(&*store, &b, "b", 1, Priority::Normal).await;
    let ops = vec![queue_of(&a, "a0", "agent", Priority::Normal, at(0))];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(claim_names(&*store, 9).await, ["a1", "b0", "a2", "a0"]);
}

async fn turns_go_on_when_the_store_is_opened_again(on: Engine) {
    let store = on.node().await;
    fill(&*store, &work_owner("many"), "many", 200, Priority::Normal).await;
    for item in claim(&*store, 100).await {
        let ops = vec![Op::EndWork(item.task_id)];
        store.commit(commit(ops)).await.unwrap();
    }
    let store = on.reopen(store).await;
    fill(&*store, &work_owner("one"), "one", 20, Priority::Normal).await;
    let order = claim_names(&*store, 10).await;
    let of_one = order.iter().filter(|id| id.starts_with("one")).count();
    assert!((4..=6).contains(&of_one), "they alternate: {order:?}");
}

async fn owner_at_its_share_is_passed_over(on: Engine) {
    let store = on.node().await;
    let (many, one) = (work_owner("many"), work_owner("one"));
    fill(&*store, &many, "many", 300, Priority::Normal).await;
    let mut shares = shares(1);
    shares.add(&agent("agent"), &many);
    let none = store.claim_work(&within(9, &shares)).await.unwrap();
    assert_eq!(none, []);
    fill(&*store, &one, "low", 1, Priority::Low).await;
    fill(&*store, &one, "one", 2, Priority::Normal).await;
    let items = store.claim_work(&within(9, &shares)).await.unwrap();
    assert_eq!(items.len(), 1, "the share is one: {items:?}");
    assert_eq!(items[0].task_id, task_id("one0"));
    assert_eq!((&items[0].owner, items[0].attempt), (&one, 1));
    shares.remove(&agent("agent"), &many);
    shares.add(&agent("agent"), &one);
    let items = store.claim_work(&within(9, &shares)).await.unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0].task_id, task_id("many0"));
    assert_eq!(items[0].attempt, 1, "being passed over is no attempt");
}

async fn one_claim_takes_no_more_than_a_share(on: Engine) {
    let store = on.node().await;
    let many = work_owner("many");
    fill(&*store, &many, "many", 100, Priority::Normal).await;
    let items = store.claim_work(&within(16, &shares(16))).await.unwrap();
    assert_eq!(items.len(), 14);
    assert!(items.iter().all(|item| item.attempt == 1));
    for item in &items {
        let ops = vec![Op::EndWork(item.task_id.clone())];
        store.commit(commit(ops)).await.unwrap();
    }
    // The others fill the rest, and what was passed over is as it was.
    fill(&*store, &work_owner("one"), "one", 100, Priority::Low).await;
    let items = store.claim_work(&within(16, &shares(16))).await.unwrap();
    let of_many = items.iter().filter(|item| item.owner == many).count();
    assert_eq!((items.len(), of_many), (16, 14));
    assert!(items.iter().all(|item| item.attempt == 1), "{items:?}");
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (170, 16));
}

async fn share_of_the_node_is_counted_over_agents(on: Engine) {
    let store = on.node().await;
    let many = work_owner("many");
    let ids: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    make(&*store, &ids).await;
    let ops = ids.iter().enumerate().map(|(number, id)| {
        let of = if number % 2 == 0 { "agent" } else { "other" };
        queue_of(&many, id, of, Priority::Normal, at(0))
    });
    store.commit(commit(ops.collect())).await.unwrap();
    let wanted = vec![(agent("agent"), 8), (agent("other"), 8)];
    let shares = RunShares::new(8, wanted.clone());
    let claim = WorkClaim {
        wanted,
        ..within(0, &shares)
    };
    let items = store.claim_work(&claim).await.unwrap();
    assert_eq!(items.len(), 7, "{items:?}");
}

async fn commit_and_claim_respects_shares(on: Engine) {
    let store = on.node().await;
    let (many, one) = (work_owner("many"), work_owner("one"));
    let mut shares = shares(4);
    for _ in 0..3 {
        shares.add(&agent("agent"), &many);
    }
    make(&*store, ["a", "b"]).await;
    let queue = |owner, id| vec![queue_of(owner, id, "agent", Priority::Normal, at(0))];
    let claim = within(1, &shares);
    let none = store.commit_and_claim(commit(queue(&many, "a")), &claim);
    assert_eq!(none.await.unwrap(), []);
    let got = store.commit_and_claim(commit(queue(&one, "b")), &claim);
    assert_eq!(got.await.unwrap()[0].task_id, task_id("b"));
}

/// What the tables of the queue were before there were turns.
const WITHOUT_TURNS: &str = "
    DROP INDEX work_in_turn;
    ALTER TABLE work DROP COLUMN flow, DROP COLUMN turn;
    CREATE INDEX work_in_turn ON work (agent, priority DESC, place);
    UPDATE meta SET value = '4' WHERE name = 'version'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_of_older_postgres_tables_keeps_its_order() {
    let (url, schema) = (postgres_url(), format!("test_{:016x}", RandomIds.random()));
    let store = postgres_node(&url, &schema).await;
    for (name, how) in [
        ("low", Priority::Low),
        ("normal", Priority::Normal),
        ("urgent", Priority::Urgent),
    ] {
        fill(&store, &work_owner("owner"), name, 30, how).await;
    }
    drop(store);
    run_sql(&url, &schema, WITHOUT_TURNS).await;
    let store = postgres_node(&url, &schema).await;
    let order = claim_names(&store, 90).await;
    let expected = ["urgent", "normal", "low"].iter();
    let expected = expected.flat_map(|name| (0..30).map(move |n| format!("{name}{n}")));
    assert_eq!(order, expected.collect::<Vec<_>>());
    store.close();
    drop_schema(&url, &schema).await;
}
