//! Fairness of the queue: owners alternate, and none gets more than its share of the runs.

use crate::builders::{
    agent, commit, create_tasks, enqueue_work_of, task_id, time_at, work_claim, work_owner,
};
use crate::engine::Engine;
use interzone_hub::ports::{Op, Store, WorkClaim, WorkItem};
use interzone_hub::{RunShares, WorkOwner};
use interzone_protocol::vocab::Priority;
use std::time::Duration;

contract_tests!(
    one_task_is_not_behind_a_thousand_of_another_owner,
    urgent_tasks_delay_other_owners_by_a_bounded_number,
    users_of_one_principal_alternate,
    late_owners_alternate_with_a_backlog,
    few_tasks_are_claimed_by_priority,
    equal_turns_are_claimed_in_the_order_of_queueing,
    released_tasks_keep_their_turn,
    requeued_tasks_are_behind_their_owners_others,
    turns_continue_after_reopen,
    owner_at_its_share_is_passed_over,
    one_claim_takes_no_more_than_a_share,
    two_owners_leave_a_slot_to_a_third,
    share_of_the_node_is_counted_over_agents,
    commit_and_claim_respects_shares,
);

fn user_of(principal: &str, group: u8) -> WorkOwner {
    WorkOwner {
        group,
        ..work_owner(principal)
    }
}

/// Queues `count` tasks of an owner, named by a prefix and a number.
async fn enqueue_many(
    store: &dyn Store,
    owner: &WorkOwner,
    name: &str,
    count: usize,
    priority: Priority,
) {
    let ids: Vec<String> = (0..count).map(|number| format!("{name}{number}")).collect();
    create_tasks(store, &ids).await;
    let ops = ids
        .iter()
        .map(|id| enqueue_work_of(owner, id, "agent", priority, time_at(0)));
    store.commit(commit(ops.collect())).await.unwrap();
}

async fn claim(store: &dyn Store, count: usize) -> Vec<WorkItem> {
    store
        .claim_work(&work_claim("n", count, time_at(0)))
        .await
        .unwrap()
}

async fn claim_names(store: &dyn Store, count: usize) -> Vec<String> {
    let items = claim(store, count).await;
    items.iter().map(|item| item.task_id.to_string()).collect()
}

/// Claim that is limited by these shares.
fn claim_with_shares(count: usize, shares: &RunShares) -> WorkClaim {
    WorkClaim {
        shares: shares.clone(),
        ..work_claim("n", count, time_at(0))
    }
}

/// Shares of an agent with this many run slots.
fn shares(slots: usize) -> RunShares {
    RunShares::new(1_000, [(agent("agent"), slots)])
}

async fn one_task_is_not_behind_a_thousand_of_another_owner(on: Engine) {
    let store = on.node().await;
    let (many, one) = (work_owner("many"), work_owner("one"));
    enqueue_many(&*store, &many, "many", 1_000, Priority::Normal).await;
    enqueue_many(&*store, &one, "one", 1, Priority::Normal).await;
    assert_eq!(claim_names(&*store, 3).await, ["many0", "one0", "many1"]);
    // And later, while the backlog is being processed.
    claim(&*store, 100).await;
    enqueue_many(&*store, &one, "later", 1, Priority::Normal).await;
    let next = claim_names(&*store, 3).await;
    assert!(next.contains(&"later0".to_owned()), "{next:?}");
}

async fn urgent_tasks_delay_other_owners_by_a_bounded_number(on: Engine) {
    let store = on.node().await;
    let many = work_owner("many");
    enqueue_many(&*store, &many, "urgent", 100, Priority::Urgent).await;
    enqueue_many(&*store, &work_owner("one"), "one", 2, Priority::Normal).await;
    let order = claim_names(&*store, 100).await;
    let position = |name: &str| order.iter().position(|id| id == name);
    let places = (position("one0"), position("one1"));
    assert_eq!(places, (Some(16), Some(33)), "{order:?}");
}

async fn users_of_one_principal_alternate(on: Engine) {
    let store = on.node().await;
    enqueue_many(&*store, &user_of("slack", 1), "many", 100, Priority::Normal).await;
    enqueue_many(&*store, &user_of("slack", 2), "one", 2, Priority::Normal).await;
    let order = claim_names(&*store, 4).await;
    assert_eq!(order, ["many0", "one0", "many1", "one1"]);
    let items = claim(&*store, 1).await;
    assert_eq!(items[0].owner, user_of("slack", 1));
}

/// Owners who come one at a time are claimed soon, and do not delay the backlog.
async fn late_owners_alternate_with_a_backlog(on: Engine) {
    let store = on.node().await;
    enqueue_many(&*store, &work_owner("many"), "many", 50, Priority::Normal).await;
    claim(&*store, 5).await;
    let mut order = Vec::new();
    for round in 0..8 {
        let name = format!("late{round}-");
        enqueue_many(&*store, &work_owner(&name), &name, 1, Priority::Normal).await;
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
        enqueue_many(&*store, &owner, name, 3, how).await;
    }
    let order = claim_names(&*store, 12).await;
    let expected = ["urgent", "high", "normal", "low"].iter();
    let expected = expected.flat_map(|name| (0..3).map(move |n| format!("{name}{n}")));
    assert_eq!(order, expected.collect::<Vec<_>>());
}

async fn equal_turns_are_claimed_in_the_order_of_queueing(on: Engine) {
    let store = on.node().await;
    for name in ["d", "a", "c", "b"] {
        enqueue_many(&*store, &work_owner(name), name, 1, Priority::Normal).await;
    }
    assert_eq!(claim_names(&*store, 4).await, ["d0", "a0", "c0", "b0"]);
}

async fn released_tasks_keep_their_turn(on: Engine) {
    let store = on.node().await;
    enqueue_many(&*store, &work_owner("a"), "a", 3, Priority::Normal).await;
    let first = claim(&*store, 1).await.remove(0);
    enqueue_many(&*store, &work_owner("b"), "b", 1, Priority::Urgent).await;
    let back = store.release_work(&first.task_id, "n", first.claim, Duration::ZERO, time_at(0));
    assert!(back.await.unwrap());
    assert_eq!(claim_names(&*store, 2).await, ["a0", "b0"]);
}

async fn requeued_tasks_are_behind_their_owners_others(on: Engine) {
    let store = on.node().await;
    let (a, b) = (work_owner("a"), work_owner("b"));
    enqueue_many(&*store, &a, "a", 3, Priority::Normal).await;
    claim(&*store, 1).await;
    enqueue_many(&*store, &b, "b", 1, Priority::Normal).await;
    let ops = vec![enqueue_work_of(
        &a,
        "a0",
        "agent",
        Priority::Normal,
        time_at(0),
    )];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(claim_names(&*store, 9).await, ["a1", "b0", "a2", "a0"]);
}

async fn turns_continue_after_reopen(on: Engine) {
    let store = on.node().await;
    enqueue_many(&*store, &work_owner("many"), "many", 200, Priority::Normal).await;
    for item in claim(&*store, 100).await {
        let ops = vec![Op::DequeueWork(item.task_id)];
        store.commit(commit(ops)).await.unwrap();
    }
    let store = on.reopen(store).await;
    enqueue_many(&*store, &work_owner("one"), "one", 20, Priority::Normal).await;
    let order = claim_names(&*store, 10).await;
    let of_one = order.iter().filter(|id| id.starts_with("one")).count();
    assert!((4..=6).contains(&of_one), "they alternate: {order:?}");
}

async fn owner_at_its_share_is_passed_over(on: Engine) {
    let store = on.node().await;
    let (many, one) = (work_owner("many"), work_owner("one"));
    enqueue_many(&*store, &many, "many", 300, Priority::Normal).await;
    let mut shares = shares(1);
    shares.add(&agent("agent"), &many);
    let none = store
        .claim_work(&claim_with_shares(9, &shares))
        .await
        .unwrap();
    assert_eq!(none, []);
    enqueue_many(&*store, &one, "low", 1, Priority::Low).await;
    enqueue_many(&*store, &one, "one", 2, Priority::Normal).await;
    let items = store
        .claim_work(&claim_with_shares(9, &shares))
        .await
        .unwrap();
    assert_eq!(items.len(), 1, "the share is one: {items:?}");
    assert_eq!(items[0].task_id, task_id("one0"));
    assert_eq!((&items[0].owner, items[0].attempt), (&one, 1));
    shares.remove(&agent("agent"), &many);
    shares.add(&agent("agent"), &one);
    let items = store
        .claim_work(&claim_with_shares(9, &shares))
        .await
        .unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0].task_id, task_id("many0"));
    assert_eq!(items[0].attempt, 1, "being skipped is no attempt");
}

async fn one_claim_takes_no_more_than_a_share(on: Engine) {
    let store = on.node().await;
    let many = work_owner("many");
    enqueue_many(&*store, &many, "many", 100, Priority::Normal).await;
    let items = store
        .claim_work(&claim_with_shares(16, &shares(16)))
        .await
        .unwrap();
    assert_eq!(items.len(), 14);
    assert!(items.iter().all(|item| item.attempt == 1));
    for item in &items {
        let ops = vec![Op::DequeueWork(item.task_id.clone())];
        store.commit(commit(ops)).await.unwrap();
    }
    // The others fill the remaining slots, and skipped tasks are unchanged.
    for name in ["one", "two"] {
        enqueue_many(&*store, &work_owner(name), name, 50, Priority::Low).await;
    }
    let items = store
        .claim_work(&claim_with_shares(16, &shares(16)))
        .await
        .unwrap();
    let of_many = items.iter().filter(|item| item.owner == many).count();
    assert_eq!((items.len(), of_many), (16, 14));
    assert!(items.iter().all(|item| item.attempt == 1), "{items:?}");
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (170, 16));
}

/// What an owner may hold shrinks with the free slots, so that two cannot take all of them.
async fn two_owners_leave_a_slot_to_a_third(on: Engine) {
    let store = on.node().await;
    let owners = ["one", "two", "three"].map(work_owner);
    for owner in &owners[..2] {
        let name = owner.principal.as_str();
        enqueue_many(&*store, owner, name, 20, Priority::Urgent).await;
    }
    let mut shares = shares(16);
    let count_of = |items: &[WorkItem], owner: &WorkOwner| {
        items.iter().filter(|item| item.owner == *owner).count()
    };
    let items = store
        .claim_work(&claim_with_shares(16, &shares))
        .await
        .unwrap();
    let counts = [&owners[0], &owners[1]].map(|owner| count_of(&items, owner));
    assert_eq!((items.len(), counts), (15, [8, 7]), "{items:?}");
    for item in &items {
        assert_eq!(item.attempt, 1, "{item:?}");
        shares.add(&agent("agent"), &item.owner);
    }
    let none = store
        .claim_work(&claim_with_shares(1, &shares))
        .await
        .unwrap();
    assert_eq!(none, []);
    enqueue_many(&*store, &owners[2], "three", 2, Priority::Low).await;
    let items = store
        .claim_work(&claim_with_shares(1, &shares))
        .await
        .unwrap();
    assert_eq!(count_of(&items, &owners[2]), 1, "{items:?}");
}

async fn share_of_the_node_is_counted_over_agents(on: Engine) {
    let store = on.node().await;
    let many = work_owner("many");
    let ids: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    create_tasks(&*store, &ids).await;
    let ops = ids.iter().enumerate().map(|(number, id)| {
        let agent_id = if number % 2 == 0 { "agent" } else { "other" };
        enqueue_work_of(&many, id, agent_id, Priority::Normal, time_at(0))
    });
    store.commit(commit(ops.collect())).await.unwrap();
    let wanted = vec![(agent("agent"), 8), (agent("other"), 8)];
    let shares = RunShares::new(8, wanted.clone());
    let claim = WorkClaim {
        wanted,
        ..claim_with_shares(0, &shares)
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
    create_tasks(&*store, ["a", "b"]).await;
    let queue = |owner, id| {
        vec![enqueue_work_of(
            owner,
            id,
            "agent",
            Priority::Normal,
            time_at(0),
        )]
    };
    let claim = claim_with_shares(1, &shares);
    let none = store.commit_and_claim(commit(queue(&many, "a")), &claim);
    assert_eq!(none.await.unwrap(), []);
    let got = store.commit_and_claim(commit(queue(&one, "b")), &claim);
    assert_eq!(got.await.unwrap()[0].task_id, task_id("b"));
}
