//! Leases under wrong clocks: only the end of the process or, on a server, of the lease time by the server's clock
//! frees leased items.

use crate::builders::{
    commit, commit_at, create_tasks, delivery_id, enqueue, enqueue_work, enqueue_work_for, entry,
    fence, outbox_claim, since_start, task_id, time_at, web_channel, work_claim,
};
use crate::engine::{Engine, drop_schema, postgres_node_with_server_clock, postgres_url, run_sql};
use interzone_hub::ports::{Store, WorkClaim};
use interzone_hub::{IdSource, RandomIds};
use interzone_protocol::vocab::{Priority, Timestamp};
use std::time::Duration;

contract_tests!(
    abandoned_work_is_claimable_at_once,
    abandoned_entries_are_due_at_once,
    running_claims_are_not_claimed_again,
);

const SECOND: i64 = 1_000;

/// Times that a clock shows after it was set: ahead a little, by an hour and by years, and back.
const CLOCK_STEPS: [i64; 5] = [
    30 * SECOND,
    3_600 * SECOND,
    10 * 365 * 86_400 * SECOND,
    -30 * SECOND,
    -3_600 * SECOND,
];

/// Creates ten tasks and ten entries, all leased.
async fn lease_all(store: &dyn Store, now: Timestamp) {
    create_tasks(store, (0..10).map(|n| format!("t{n}"))).await;
    let mut ops: Vec<_> = (0..10).map(|n| enqueue_work(&format!("t{n}"))).collect();
    ops.extend((0..10).map(|n| enqueue(&entry(&format!("e{n}")))));
    store.commit(commit(ops)).await.unwrap();
    let leased = store.claim_work(&work_claim("n", 10, now)).await.unwrap();
    assert_eq!(leased.len(), 10);
    let until = now.plus(Duration::from_secs(1));
    let held = store
        .claim_outbox(&outbox_claim(&web_channel(), now, until, 10))
        .await;
    assert_eq!(held.unwrap().len(), 10);
}

/// Number of tasks and entries that a node with this clock can claim.
async fn claimable(store: &dyn Store, node: &str, now: Timestamp) -> (usize, usize) {
    let work = store.claim_work(&work_claim(node, 99, now)).await.unwrap();
    let until = now.plus(Duration::from_secs(1));
    let out = store
        .claim_outbox(&outbox_claim(&web_channel(), now, until, 99))
        .await;
    (work.len(), out.unwrap().len())
}

#[tokio::test]
async fn sqlite_leases_survive_clock_steps() {
    let on = Engine::sqlite();
    let store = on.node().await;
    lease_all(&*store, time_at(0)).await;
    for step in CLOCK_STEPS {
        for node in ["n", "m"] {
            assert_eq!(
                claimable(&*store, node, time_at(step)).await,
                (0, 0),
                "{step} ms"
            );
        }
        let next = store
            .next_outbox_due(&web_channel(), time_at(step))
            .await
            .unwrap();
        assert!(next.unwrap() > Duration::from_secs(1), "nothing is due");
        assert_eq!(store.work_depth(time_at(step)).await.unwrap(), (0, 10));
    }
    // Another process has the file: everything is free at once, whatever its clock shows.
    let store = on.reopen(store).await;
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (10, 0));
    assert_eq!(claimable(&*store, "n", time_at(0)).await, (10, 10));
}

#[tokio::test]
async fn sqlite_leases_are_freed_when_clock_is_behind() {
    let on = Engine::sqlite();
    let store = on.node().await;
    lease_all(&*store, time_at(3_600 * SECOND)).await;
    let store = on.reopen(store).await;
    assert_eq!(claimable(&*store, "n", time_at(0)).await, (10, 10));
}

async fn check_due_work_after_clock_set_back(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    let ops = vec![enqueue_work_for(
        "t",
        "agent",
        Priority::Normal,
        time_at(5_000),
    )];
    store.commit(commit_at(time_at(5_000), ops)).await.unwrap();
    let early = store
        .claim_work(&work_claim("n", 1, time_at(-3_600 * SECOND)))
        .await;
    assert_eq!(early.unwrap().len(), 1);
}

#[tokio::test]
async fn sqlite_work_is_claimable_after_clock_set_back() {
    let on = Engine::sqlite();
    check_due_work_after_clock_set_back(on).await;
}

#[tokio::test]
async fn postgres_leases_follow_server_clock() {
    let (url, schema) = (postgres_url(), format!("test_{:016x}", RandomIds.random()));
    let first = postgres_node_with_server_clock(&url, &schema).await;
    let second = postgres_node_with_server_clock(&url, &schema).await;
    lease_all(&*first, time_at(0)).await;
    // Leases of a minute from here on, so that a slow machine does not let them expire.
    run_sql(
        &url,
        &schema,
        "UPDATE work_queue SET claimable_at = claimable_at + 60000; UPDATE outbox SET due_at = due_at + 60000",
    )
    .await;
    for step in CLOCK_STEPS {
        assert_eq!(
            claimable(&*second, "m", time_at(step)).await,
            (0, 0),
            "{step} ms"
        );
    }
    // Renewed by a node whose clock is behind, they last as long.
    let id = task_id("t0");
    let minute = Duration::from_secs(60);
    let item = WorkClaim {
        lease: minute,
        ..work_claim("n", 0, time_at(0))
    };
    assert_eq!(first.claim_work(&item).await.unwrap(), []);
    let (e0, behind) = (delivery_id("e0"), time_at(-3_600 * SECOND));
    let held = second.renew_outbox_lease(&e0, 1, minute, behind).await;
    assert!(held.unwrap());
    let lost = second
        .renew_work(&id, "m", 1, minute, time_at(0))
        .await
        .unwrap();
    assert!(!lost, "another node has the lease");
    assert_eq!(
        claimable(&*second, "m", time_at(3_600 * SECOND)).await,
        (0, 0)
    );
    // By the server's clock they are over.
    run_sql(
        &url,
        &schema,
        "UPDATE work_queue SET claimable_at = claimable_at - 120000; UPDATE outbox SET due_at = due_at - 120000",
    )
    .await;
    let freed = claimable(&*second, "m", time_at(-3_600 * SECOND)).await;
    assert_eq!(freed, (10, 10), "whatever the node's clock shows");
    drop((first, second));
    drop_schema(&url, &schema).await;
}

#[tokio::test]
async fn postgres_work_of_node_with_wrong_clock_is_due() {
    let (url, schema) = (postgres_url(), format!("test_{:016x}", RandomIds.random()));
    let store = postgres_node_with_server_clock(&url, &schema).await;
    for (id, step) in ["a", "b"]
        .into_iter()
        .zip([3_600 * SECOND, -3_600 * SECOND])
    {
        create_tasks(&*store, [id]).await;
        let now = time_at(step);
        let out = interzone_hub::OutboxEntry {
            due_at: now,
            created_at: now,
            ..entry(id)
        };
        let queued = enqueue_work_for(id, "agent", Priority::Normal, now);
        let ops = vec![queued, enqueue(&out)];
        store.commit(commit_at(now, ops)).await.unwrap();
        let next = store
            .next_outbox_due(&web_channel(), time_at(0))
            .await
            .unwrap();
        assert_eq!(next, Some(Duration::ZERO));
        assert_eq!(claimable(&*store, "n", time_at(0)).await, (1, 1));
        let ends = vec![interzone_hub::ports::Op::DequeueWork(task_id(id))];
        store.commit(commit(ends)).await.unwrap();
        let arrived = interzone_hub::DeliveryResult::Delivered;
        let id = delivery_id(id);
        let settled = store.settle_outbox(&id, 1, &arrived, time_at(0)).await;
        assert!(settled.unwrap());
    }
    drop(store);
    drop_schema(&url, &schema).await;
}

async fn abandoned_work_is_claimable_at_once(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t", "u"]).await;
    let ops = vec![enqueue_work("t"), enqueue_work("u")];
    store.commit(commit(ops)).await.unwrap();
    let items = store
        .claim_work(&work_claim("n", 2, time_at(0)))
        .await
        .unwrap();
    let mut stale = fence(&items[1], "n");
    stale.claim += 100;
    let gone = [fence(&items[0], "n"), stale, fence(&items[1], "other")];
    store.abandon_work(&gone).await.unwrap();
    let again = store
        .claim_work(&work_claim("n", 9, time_at(0)))
        .await
        .unwrap();
    assert_eq!(again.len(), 1, "claims that do not match stay leased");
    assert_eq!(
        (&again[0].task_id, again[0].attempt),
        (&items[0].task_id, 2)
    );
    assert!(again[0].claim > items[1].claim);
}

async fn abandoned_entries_are_due_at_once(on: Engine) {
    let store = on.node().await;
    let ops = vec![enqueue(&entry("a")), enqueue(&entry("b"))];
    store.commit(commit(ops)).await.unwrap();
    let claim = outbox_claim(&web_channel(), time_at(0), time_at(60_000), 9);
    assert_eq!(store.claim_outbox(&claim).await.unwrap().len(), 2);
    let gone = [(delivery_id("a"), 1), (delivery_id("b"), 2)];
    store.abandon_outbox(&gone, time_at(0)).await.unwrap();
    let again = store.claim_outbox(&claim).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].id.as_str(), again[0].attempt), ("a", 2));
}

/// A node that was suspended for longer than its leases does not claim its own work a second time.
async fn running_claims_are_not_claimed_again(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    let ops = vec![enqueue_work("t"), enqueue(&entry("e"))];
    store.commit(commit(ops)).await.unwrap();
    let items = store
        .claim_work(&work_claim("n", 1, time_at(0)))
        .await
        .unwrap();
    let out = outbox_claim(&web_channel(), time_at(0), time_at(1_000), 9);
    assert_eq!(store.claim_outbox(&out).await.unwrap().len(), 1);
    let later = time_at(60_000);
    let running = WorkClaim {
        running_claims: vec![items[0].claim],
        ..work_claim("n", 9, later)
    };
    assert_eq!(store.claim_work(&running).await.unwrap(), []);
    let mut in_flight = outbox_claim(
        &web_channel(),
        later,
        later.plus(since_start(time_at(1))),
        9,
    );
    in_flight.in_flight = vec![delivery_id("e")];
    assert_eq!(store.claim_outbox(&in_flight).await.unwrap(), []);
    if on.is_shared() {
        assert_eq!(claimable(&*store, "m", later).await, (1, 1), "others may");
    }
}
