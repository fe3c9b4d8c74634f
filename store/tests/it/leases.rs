//! Leases, and clocks that are wrong: only the end of a process or, on a server, of the time by the
//! server's clock makes what is held free.

use crate::engine::{Engine, drop_schema, postgres_node_by_server, postgres_url, run_sql};
use crate::make::{
    at, carry_wish, commit, commit_at, delivery_id, enqueue, entry, fence, from_start, make, queue,
    queue_for, task_id, web, wish,
};
use interzone_hub::ports::{Store, WorkClaim};
use interzone_hub::{IdSource, RandomIds};
use interzone_protocol::vocab::{Priority, Timestamp};
use std::time::Duration;

contract!(
    work_that_is_abandoned_is_free_at_once,
    entries_that_are_abandoned_are_due_at_once,
    running_claims_are_not_claimed_again,
);

const SECOND: i64 = 1_000;

/// Moments that a clock shows after it was set: ahead a little, by an hour and by years, and back.
const STEPS: [i64; 5] = [
    30 * SECOND,
    3_600 * SECOND,
    10 * 365 * 86_400 * SECOND,
    -30 * SECOND,
    -3_600 * SECOND,
];

/// Ten tasks and ten entries, all held.
async fn hold_all(store: &dyn Store, now: Timestamp) {
    make(store, (0..10).map(|n| format!("t{n}"))).await;
    let mut ops: Vec<_> = (0..10).map(|n| queue(&format!("t{n}"))).collect();
    ops.extend((0..10).map(|n| enqueue(&entry(&format!("e{n}")))));
    store.commit(commit(ops)).await.unwrap();
    let held = store.claim_work(&wish("n", 10, now)).await.unwrap();
    assert_eq!(held.len(), 10);
    let until = now.after(Duration::from_secs(1));
    let held = store
        .claim_outbox(&carry_wish(&web(), now, until, 10))
        .await;
    assert_eq!(held.unwrap().len(), 10);
}

/// How many tasks and entries can be claimed by a node whose clock shows this.
async fn free(store: &dyn Store, node: &str, now: Timestamp) -> (usize, usize) {
    let work = store.claim_work(&wish(node, 99, now)).await.unwrap();
    let until = now.after(Duration::from_secs(1));
    let out = store
        .claim_outbox(&carry_wish(&web(), now, until, 99))
        .await;
    (work.len(), out.unwrap().len())
}

#[tokio::test]
async fn sqlite_holds_what_a_process_claimed_whatever_its_clock_shows() {
    let on = Engine::sqlite();
    let store = on.node().await;
    hold_all(&*store, at(0)).await;
    for step in STEPS {
        for node in ["n", "m"] {
            assert_eq!(free(&*store, node, at(step)).await, (0, 0), "{step} ms");
        }
        let next = store.next_due(&web(), at(step)).await.unwrap();
        assert!(next.unwrap() > Duration::from_secs(1), "nothing is due");
        assert_eq!(store.work_depth(at(step)).await.unwrap(), (0, 10));
    }
    // Another process has the file: all is free at once, at whichever moment its clock shows.
    let store = on.reopen(store).await;
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (10, 0));
    assert_eq!(free(&*store, "n", at(0)).await, (10, 10));
}

#[tokio::test]
async fn sqlite_frees_what_is_held_for_a_process_whose_clock_is_behind() {
    let on = Engine::sqlite();
    let store = on.node().await;
    hold_all(&*store, at(3_600 * SECOND)).await;
    let store = on.reopen(store).await;
    assert_eq!(free(&*store, "n", at(0)).await, (10, 10));
}

async fn work_that_waits_for_nothing_is_claimed_after_the_clock_was_set_back(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    let ops = vec![queue_for("t", "agent", Priority::Normal, at(5_000))];
    store.commit(commit_at(at(5_000), ops)).await.unwrap();
    let early = store.claim_work(&wish("n", 1, at(-3_600 * SECOND))).await;
    assert_eq!(early.unwrap().len(), 1);
}

#[tokio::test]
async fn sqlite_gives_queued_work_after_the_clock_was_set_back() {
    let on = Engine::sqlite();
    work_that_waits_for_nothing_is_claimed_after_the_clock_was_set_back(on).await;
}

#[tokio::test]
async fn postgres_judges_leases_by_the_servers_clock_alone() {
    let (url, schema) = (postgres_url(), format!("test_{:016x}", RandomIds.random()));
    let first = postgres_node_by_server(&url, &schema).await;
    let second = postgres_node_by_server(&url, &schema).await;
    hold_all(&*first, at(0)).await;
    // Leases of a minute from here on, so that a slow machine does not end them.
    run_sql(
        &url,
        &schema,
        "UPDATE work SET free_at = free_at + 60000; UPDATE outbox SET due_at = due_at + 60000",
    )
    .await;
    for step in STEPS {
        assert_eq!(free(&*second, "m", at(step)).await, (0, 0), "{step} ms");
    }
    // Renewed by a node whose clock is behind, they still reach as far.
    let id = task_id("t0");
    let minute = Duration::from_secs(60);
    let item = WorkClaim {
        lease: minute,
        ..wish("n", 0, at(0))
    };
    assert_eq!(first.claim_work(&item).await.unwrap(), []);
    let (e0, behind) = (delivery_id("e0"), at(-3_600 * SECOND));
    let held = second.hold_outbox(&e0, 1, minute, behind).await;
    assert!(held.unwrap());
    let lost = second.renew_work(&id, "m", 1, minute, at(0)).await.unwrap();
    assert!(!lost, "another node holds it");
    assert_eq!(free(&*second, "m", at(3_600 * SECOND)).await, (0, 0));
    // By the server's clock they are over.
    run_sql(
        &url,
        &schema,
        "UPDATE work SET free_at = free_at - 120000; UPDATE outbox SET due_at = due_at - 120000",
    )
    .await;
    let freed = free(&*second, "m", at(-3_600 * SECOND)).await;
    assert_eq!(freed, (10, 10), "whatever the node's clock shows");
    drop((first, second));
    drop_schema(&url, &schema).await;
}

#[tokio::test]
async fn postgres_gives_at_once_what_a_node_with_a_wrong_clock_has_queued() {
    let (url, schema) = (postgres_url(), format!("test_{:016x}", RandomIds.random()));
    let store = postgres_node_by_server(&url, &schema).await;
    for (id, step) in ["a", "b"]
        .into_iter()
        .zip([3_600 * SECOND, -3_600 * SECOND])
    {
        make(&*store, [id]).await;
        let now = at(step);
        let out = interzone_hub::OutboxEntry {
            due_at: now,
            created_at: now,
            ..entry(id)
        };
        let queued = queue_for(id, "agent", Priority::Normal, now);
        let ops = vec![queued, enqueue(&out)];
        store.commit(commit_at(now, ops)).await.unwrap();
        let next = store.next_due(&web(), at(0)).await.unwrap();
        assert_eq!(next, Some(Duration::ZERO));
        assert_eq!(free(&*store, "n", at(0)).await, (1, 1));
        let ends = vec![interzone_hub::ports::Op::EndWork(task_id(id))];
        store.commit(commit(ends)).await.unwrap();
        let arrived = interzone_hub::Settlement::Delivered;
        let id = delivery_id(id);
        let settled = store.settle_outbox(&id, 1, &arrived, at(0)).await;
        assert!(settled.unwrap());
    }
    drop(store);
    drop_schema(&url, &schema).await;
}

async fn work_that_is_abandoned_is_free_at_once(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t", "u"]).await;
    let ops = vec![queue("t"), queue("u")];
    store.commit(commit(ops)).await.unwrap();
    let items = store.claim_work(&wish("n", 2, at(0))).await.unwrap();
    let mut stale = fence(&items[1], "n");
    stale.claim += 100;
    let gone = [fence(&items[0], "n"), stale, fence(&items[1], "other")];
    store.abandon_work(&gone).await.unwrap();
    let again = store.claim_work(&wish("n", 9, at(0))).await.unwrap();
    assert_eq!(again.len(), 1, "what is not named as it is held stays held");
    assert_eq!(
        (&again[0].task_id, again[0].attempt),
        (&items[0].task_id, 2)
    );
    assert!(again[0].claim > items[1].claim);
}

async fn entries_that_are_abandoned_are_due_at_once(on: Engine) {
    let store = on.node().await;
    let ops = vec![enqueue(&entry("a")), enqueue(&entry("b"))];
    store.commit(commit(ops)).await.unwrap();
    let claim = carry_wish(&web(), at(0), at(60_000), 9);
    assert_eq!(store.claim_outbox(&claim).await.unwrap().len(), 2);
    let gone = [(delivery_id("a"), 1), (delivery_id("b"), 2)];
    store.abandon_outbox(&gone, at(0)).await.unwrap();
    let again = store.claim_outbox(&claim).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].id.as_str(), again[0].attempt), ("a", 2));
}

/// A node that was suspended for longer than its leases does not take its own work a second time.
async fn running_claims_are_not_claimed_again(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    let ops = vec![queue("t"), enqueue(&entry("e"))];
    store.commit(commit(ops)).await.unwrap();
    let items = store.claim_work(&wish("n", 1, at(0))).await.unwrap();
    let out = carry_wish(&web(), at(0), at(1_000), 9);
    assert_eq!(store.claim_outbox(&out).await.unwrap().len(), 1);
    let later = at(60_000);
    let running = WorkClaim {
        running: vec![items[0].claim],
        ..wish("n", 9, later)
    };
    assert_eq!(store.claim_work(&running).await.unwrap(), []);
    let mut carrying = carry_wish(&web(), later, later.after(from_start(at(1))), 9);
    carrying.carrying = vec![delivery_id("e")];
    assert_eq!(store.claim_outbox(&carrying).await.unwrap(), []);
    if on.is_shared() {
        assert_eq!(free(&*store, "m", later).await, (1, 1), "others may");
    }
}
