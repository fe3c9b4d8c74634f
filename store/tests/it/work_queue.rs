//! Work queue: claimed in order, by one node each, and again when a lease expires.

use crate::builders::{
    agent, commit, commit_at, create, create_tasks, enqueue_work, enqueue_work_for, long_after,
    since_start, task, task_id, time_at, work_claim,
};
use crate::engine::Engine;
use interzone_hub::ports::{Op, Store, WorkClaim, WorkItem};
use interzone_protocol::vocab::{Priority, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;

contract_tests!(
    work_is_claimed_once,
    work_is_claimed_by_priority_then_age,
    work_is_claimed_per_agent,
    work_is_not_claimed_before_due,
    work_is_claimed_again_after_lease_expiry,
    renewed_work_lease_lasts_longer,
    released_work_is_claimable,
    requeued_work_starts_with_new_attempts,
    dequeued_work_is_gone,
    work_depth_counts_waiting_and_leased,
    concurrent_work_claims_do_not_overlap,
    work_enqueued_during_claims_is_claimed_once,
    expired_work_is_claimed_by_one_node,
);

fn task_names(items: &[WorkItem]) -> Vec<&str> {
    items.iter().map(|item| item.task_id.as_str()).collect()
}

async fn claim_one(store: &dyn Store, node: &str, now: i64) -> WorkItem {
    let mut items = store
        .claim_work(&work_claim(node, 1, time_at(now)))
        .await
        .unwrap();
    assert_eq!(items.len(), 1, "there is something to claim at {now}");
    items.remove(0)
}

async fn assert_none_claimable(store: &dyn Store, now: Timestamp) {
    let items = store
        .claim_work(&work_claim("other", 9, now))
        .await
        .unwrap();
    assert_eq!(items, []);
}

async fn work_is_claimed_once(on: Engine) {
    let store = on.node().await;
    assert_none_claimable(&*store, time_at(0)).await;
    create_tasks(&*store, ["a", "b"]).await;
    let ops = vec![enqueue_work("a"), enqueue_work("b")];
    store.commit(commit(ops)).await.unwrap();
    let items = store
        .claim_work(&work_claim("n", 9, time_at(5)))
        .await
        .unwrap();
    assert_eq!(task_names(&items), ["a", "b"]);
    for item in &items {
        assert_eq!(item.attempt, 1);
        assert_eq!(item.agent, agent("agent"));
    }
    assert_none_claimable(&*store, time_at(5)).await;
    assert_none_claimable(&*store, time_at(1_004)).await;
    // Not even by the node that has it.
    let again = store
        .claim_work(&work_claim("n", 9, time_at(6)))
        .await
        .unwrap();
    assert_eq!(again, []);
}

async fn work_is_claimed_by_priority_then_age(on: Engine) {
    let store = on.node().await;
    // Queued in this order, with clocks that disagree and ids that sort otherwise.
    let queued = [
        ("z low", Priority::Low),
        ("y normal", Priority::Normal),
        ("x urgent", Priority::Urgent),
        ("w normal", Priority::Normal),
        ("v high", Priority::High),
        ("u urgent", Priority::Urgent),
        ("t low", Priority::Low),
        ("s high", Priority::High),
    ];
    create_tasks(&*store, queued.map(|(id, _)| id)).await;
    for (step, (id, priority)) in (0..).zip(queued) {
        let ops = vec![enqueue_work_for(id, "agent", priority, time_at(0))];
        store.commit(commit_at(time_at(step), ops)).await.unwrap();
    }
    let first = store
        .claim_work(&work_claim("n", 3, time_at(100)))
        .await
        .unwrap();
    assert_eq!(task_names(&first), ["x urgent", "u urgent", "v high"]);
    let mut remaining = Vec::new();
    while remaining.len() < 5 {
        remaining.push(claim_one(&*store, "n", 100).await);
    }
    assert_eq!(
        task_names(&remaining),
        ["s high", "y normal", "w normal", "z low", "t low"]
    );
}

async fn work_is_claimed_per_agent(on: Engine) {
    let store = on.node().await;
    let mut ops = Vec::new();
    for number in 0..4 {
        for agent_id in ["a", "b", "c"] {
            let id = format!("{agent_id}{number}");
            create_tasks(&*store, [&id]).await;
            ops.push(enqueue_work_for(
                &id,
                agent_id,
                Priority::Normal,
                time_at(0),
            ));
        }
    }
    store.commit(commit(ops)).await.unwrap();
    let wanted = |counts: &[(&str, usize)]| WorkClaim {
        wanted: counts
            .iter()
            .map(|(agent_id, n)| (agent(agent_id), *n))
            .collect(),
        ..work_claim("n", 0, time_at(0))
    };
    for (counts, expected) in [
        (&[][..], &[][..]),
        (&[("a", 0)], &[]),
        (&[("unknown", 5)], &[]),
        (&[("a", 2), ("b", 1)], &["a0", "a1", "b0"]),
        (&[("b", 9), ("a", 1)], &["a2", "b1", "b2", "b3"]),
        (&[("a", 9), ("b", 9)], &["a3"]),
    ] {
        let items = store.claim_work(&wanted(counts)).await.unwrap();
        for item in &items {
            assert!(item.task_id.as_str().starts_with(item.agent.as_str()));
        }
        let mut names = task_names(&items);
        names.sort_unstable();
        assert_eq!(names, expected, "{counts:?}");
    }
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (4, 8));
}

async fn work_is_not_claimed_before_due(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["later", "now"]).await;
    let ops = vec![enqueue_work_for(
        "later",
        "agent",
        Priority::Urgent,
        time_at(100),
    )];
    store.commit(commit(ops)).await.unwrap();
    assert_none_claimable(&*store, time_at(99)).await;
    let ops = vec![enqueue_work_for("now", "agent", Priority::Low, time_at(0))];
    store.commit(commit_at(time_at(1), ops)).await.unwrap();
    let items = store
        .claim_work(&work_claim("n", 9, time_at(99)))
        .await
        .unwrap();
    assert_eq!(task_names(&items), ["now"]);
    assert_eq!(claim_one(&*store, "n", 100).await.task_id, task_id("later"));
}

async fn work_is_claimed_again_after_lease_expiry(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let mut last = claim_one(&*store, "n", 0).await;
    for round in 1..=5_u32 {
        let now = i64::from(round) * 2_000;
        on.expire_leases(&*store, time_at(now)).await;
        let again = claim_one(&*store, if round % 2 == 0 { "n" } else { "m" }, now).await;
        assert_eq!(again.attempt, round + 1);
        assert!(again.claim > last.claim, "{again:?} after {last:?}");
        // The previous holder can neither renew nor release it.
        assert!(
            !store
                .renew_work(
                    &last.task_id,
                    "n",
                    last.claim,
                    since_start(long_after()),
                    time_at(0)
                )
                .await
                .unwrap()
        );
        assert!(
            !store
                .release_work(
                    &last.task_id,
                    "n",
                    last.claim,
                    since_start(time_at(0)),
                    time_at(0)
                )
                .await
                .unwrap()
        );
        assert_none_claimable(&*store, time_at(now + 999)).await;
        last = again;
    }
}

async fn renewed_work_lease_lasts_longer(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let item = claim_one(&*store, "n", 0).await;
    let id = &item.task_id;
    let renew = |node: &'static str, claim, until| {
        store.renew_work(id, node, claim, since_start(time_at(until)), time_at(0))
    };
    assert!(renew("n", item.claim, 5_000).await.unwrap());
    assert_none_claimable(&*store, time_at(4_999)).await;
    assert!(
        !renew("m", item.claim, 9_000).await.unwrap(),
        "not its node"
    );
    assert!(!renew("n", item.claim + 1, 9_000).await.unwrap());
    if let Some(before) = item.claim.checked_sub(1) {
        assert!(!renew("n", before, 9_000).await.unwrap());
    }
    let other = task_id("other");
    assert!(
        !store
            .renew_work(&other, "n", item.claim, since_start(time_at(9)), time_at(0))
            .await
            .unwrap()
    );
    assert!(
        renew("n", item.claim, 6_000).await.unwrap(),
        "still the same"
    );
    assert_none_claimable(&*store, time_at(5_999)).await;
    on.expire_leases(&*store, time_at(6_001)).await;
    assert_eq!(claim_one(&*store, "m", 6_001).await.attempt, 2);
}

async fn released_work_is_claimable(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let item = claim_one(&*store, "n", 0).await;
    let id = &item.task_id;
    assert!(
        !store
            .release_work(id, "m", item.claim, since_start(time_at(0)), time_at(0))
            .await
            .unwrap()
    );
    assert!(
        !store
            .release_work(id, "n", item.claim + 7, since_start(time_at(0)), time_at(0))
            .await
            .unwrap()
    );
    assert_none_claimable(&*store, time_at(10)).await;
    assert!(
        store
            .release_work(id, "n", item.claim, since_start(time_at(500)), time_at(0))
            .await
            .unwrap()
    );
    let again = store
        .release_work(id, "n", item.claim, since_start(time_at(0)), time_at(0))
        .await
        .unwrap();
    assert!(!again, "no longer leased");
    let late = store
        .renew_work(id, "n", item.claim, since_start(time_at(9_000)), time_at(0))
        .await
        .unwrap();
    assert!(!late, "no longer leased");
    assert_none_claimable(&*store, time_at(499)).await;
    let next = claim_one(&*store, "m", 500).await;
    assert_eq!(next.attempt, 1, "a released attempt does not count");
    assert!(next.claim > item.claim);
}

async fn requeued_work_starts_with_new_attempts(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let first = claim_one(&*store, "n", 0).await;
    on.expire_leases(&*store, time_at(2_000)).await;
    let second = claim_one(&*store, "n", 2_000).await;
    assert_eq!(second.attempt, 2);
    // While it is leased: the lease and the attempts are reset.
    let ops = vec![enqueue_work_for(
        "t",
        "agent",
        Priority::High,
        time_at(2_500),
    )];
    store.commit(commit_at(time_at(2_001), ops)).await.unwrap();
    assert!(
        !store
            .renew_work(
                &second.task_id,
                "n",
                second.claim,
                since_start(time_at(9_000)),
                time_at(0)
            )
            .await
            .unwrap(),
        "earlier claims are void"
    );
    assert_none_claimable(&*store, time_at(2_499)).await;
    let third = claim_one(&*store, "n", 2_500).await;
    assert_eq!(third.attempt, 1);
    assert!(third.claim > second.claim && second.claim > first.claim);
    // For another agent: the old one no longer gets it.
    let ops = vec![enqueue_work_for("t", "other", Priority::High, time_at(0))];
    store.commit(commit_at(time_at(2_600), ops)).await.unwrap();
    assert_none_claimable(&*store, time_at(2_600)).await;
    let claim = WorkClaim {
        wanted: vec![(agent("other"), 1)],
        ..work_claim("n", 1, time_at(2_600))
    };
    assert_eq!(store.claim_work(&claim).await.unwrap().len(), 1);
}

async fn dequeued_work_is_gone(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t", "u"]).await;
    store
        .commit(commit(vec![enqueue_work("t"), enqueue_work("u")]))
        .await
        .unwrap();
    let item = claim_one(&*store, "n", 0).await;
    let ops = vec![
        Op::DequeueWork(task_id("t")),
        Op::DequeueWork(task_id("u")),
        Op::DequeueWork(task_id("never queued")),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert!(
        !store
            .renew_work(
                &item.task_id,
                "n",
                item.claim,
                since_start(time_at(9_000)),
                time_at(0)
            )
            .await
            .unwrap()
    );
    assert!(
        !store
            .release_work(
                &item.task_id,
                "n",
                item.claim,
                since_start(time_at(0)),
                time_at(0)
            )
            .await
            .unwrap()
    );
    assert_none_claimable(&*store, long_after()).await;
    // It is queued again, but its old claim number is not reused.
    let mut last = item.claim;
    for _ in 0..3 {
        store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
        let back = claim_one(&*store, "n", 0).await;
        assert!(back.claim > last, "{} after {last}", back.claim);
        assert_eq!(back.attempt, 1);
        last = back.claim;
        let ops = vec![Op::DequeueWork(task_id("t"))];
        store.commit(commit(ops)).await.unwrap();
    }
}

async fn work_depth_counts_waiting_and_leased(on: Engine) {
    let store = on.node().await;
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (0, 0));
    create_tasks(&*store, (0..5).map(|n| format!("t{n}"))).await;
    let ops = (0..5).map(|n| enqueue_work(&format!("t{n}"))).collect();
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (5, 0));
    let items = store
        .claim_work(&work_claim("n", 2, time_at(0)))
        .await
        .unwrap();
    assert_eq!(store.work_depth(time_at(999)).await.unwrap(), (3, 2));
    let over = store.work_depth(time_at(1_001)).await.unwrap();
    assert_eq!(over, if on.is_shared() { (5, 0) } else { (3, 2) });
    let ops = vec![Op::DequeueWork(items[0].task_id.clone())];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.work_depth(time_at(999)).await.unwrap(), (3, 1));
}

/// Claims, a few at a time, until all claimers together have enough.
async fn drain(
    store: Arc<dyn Store>,
    node: String,
    few: usize,
    enough: Arc<ClaimTally>,
) -> Vec<WorkItem> {
    let mut mine = Vec::new();
    while !enough.reached() {
        let items = store
            .claim_work(&work_claim(&node, few, time_at(0)))
            .await
            .unwrap();
        assert!(items.len() <= few);
        enough.add(items.len());
        if items.is_empty() {
            tokio::task::yield_now().await;
        }
        mine.extend(items);
    }
    mine
}

/// Number of items claimed by all together.
struct ClaimTally {
    claimed: std::sync::atomic::AtomicUsize,
    enough: usize,
}

impl ClaimTally {
    fn with_target(enough: usize) -> Arc<Self> {
        let claimed = std::sync::atomic::AtomicUsize::new(0);
        Arc::new(Self { claimed, enough })
    }

    fn add(&self, count: usize) {
        let order = std::sync::atomic::Ordering::SeqCst;
        self.claimed.fetch_add(count, order);
    }

    fn reached(&self) -> bool {
        self.claimed.load(std::sync::atomic::Ordering::SeqCst) >= self.enough
    }
}

fn assert_all_different(items: &[WorkItem], count: usize) {
    let tasks: HashSet<_> = items.iter().map(|item| &item.task_id).collect();
    assert_eq!(
        (items.len(), tasks.len()),
        (count, count),
        "each exactly once"
    );
    assert!(items.iter().all(|item| item.attempt == 1));
}

async fn concurrent_work_claims_do_not_overlap(on: Engine) {
    let nodes = on.two_nodes().await;
    create_tasks(&*nodes[0], (0..200).map(|n| format!("t{n}"))).await;
    let ops = (0..200).map(|n| enqueue_work(&format!("t{n}"))).collect();
    nodes[0].commit(commit(ops)).await.unwrap();
    let enough = ClaimTally::with_target(200);
    let mut claimers = tokio::task::JoinSet::new();
    for index in 0..8 {
        let (node, name) = (nodes[index % 2].clone(), format!("node {index}"));
        claimers.spawn(drain(node, name, 1 + index, enough.clone()));
    }
    let items: Vec<WorkItem> = claimers.join_all().await.into_iter().flatten().collect();
    assert_all_different(&items, 200);
    assert_none_claimable(&*nodes[0], time_at(999)).await;
}

async fn work_enqueued_during_claims_is_claimed_once(on: Engine) {
    let nodes = on.two_nodes().await;
    let enough = ClaimTally::with_target(120);
    let mut claimers = tokio::task::JoinSet::new();
    for index in 0..6 {
        let (node, name) = (nodes[index % 2].clone(), format!("node {index}"));
        claimers.spawn(drain(node, name, 3, enough.clone()));
    }
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let node = nodes[writer % 2].clone();
        writers.spawn(async move {
            for number in 0..30 {
                let id = format!("{writer}-{number}");
                let ops = vec![create(&task(&id)), enqueue_work(&id)];
                node.commit(commit(ops)).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let items: Vec<WorkItem> = claimers.join_all().await.into_iter().flatten().collect();
    assert_all_different(&items, 120);
}

async fn expired_work_is_claimed_by_one_node(on: Engine) {
    let nodes = on.two_nodes().await;
    create_tasks(&*nodes[0], (0..10).map(|n| format!("t{n}"))).await;
    let ops = (0..10).map(|n| enqueue_work(&format!("t{n}"))).collect();
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut highest = 0;
    for round in 0..6_u32 {
        on.expire_leases(&*nodes[0], time_at(i64::from(round) * 2_000))
            .await;
        let mut claimers = tokio::task::JoinSet::new();
        for index in 0..6 {
            let node = nodes[index % 2].clone();
            let claim = work_claim(
                &format!("node {index}"),
                4,
                time_at(i64::from(round) * 2_000),
            );
            claimers.spawn(async move { node.claim_work(&claim).await.unwrap() });
        }
        let items: Vec<WorkItem> = claimers.join_all().await.into_iter().flatten().collect();
        let tasks: HashSet<_> = items.iter().map(|item| &item.task_id).collect();
        assert_eq!(tasks.len(), items.len(), "no task has two claimers");
        // A claimer may find nothing while others claim; a claim made now finds the remaining items.
        let claim = work_claim("last", 10, time_at(i64::from(round) * 2_000));
        let remaining = nodes[0].claim_work(&claim).await.unwrap();
        assert_eq!(items.len() + remaining.len(), 10);
        for item in items.iter().chain(&remaining) {
            assert_eq!(item.attempt, round + 1);
        }
        let of_first = items
            .iter()
            .chain(&remaining)
            .find(|i| i.task_id == task_id("t0"));
        let claim = of_first.unwrap().claim;
        assert!(claim > highest);
        highest = claim;
    }
}
