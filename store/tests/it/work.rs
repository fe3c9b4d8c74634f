//! The queue of tasks: in order, to one claimer each, and again when a lease is over.

use crate::engine::Engine;
use crate::make::{
    agent, at, commit, commit_at, create, from_start, long_after, make, queue, queue_for, task,
    task_id, wish,
};
use interzone_hub::ports::{Op, Store, WorkClaim, WorkItem};
use interzone_protocol::vocab::{Priority, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;

contract!(
    is_claimed_once,
    is_claimed_by_priority_then_age,
    is_claimed_for_each_agent,
    is_not_claimed_before_it_is_due,
    is_claimed_again_when_its_lease_is_over,
    is_held_longer_when_renewed,
    is_given_back,
    begins_anew_when_queued_again,
    is_over_when_ended,
    is_counted,
    is_shared_out_without_overlap,
    is_shared_out_while_it_comes_in,
    is_taken_over_by_one_when_leases_end,
);

fn names(items: &[WorkItem]) -> Vec<&str> {
    items.iter().map(|item| item.task_id.as_str()).collect()
}

async fn one(store: &dyn Store, node: &str, now: i64) -> WorkItem {
    let mut items = store.claim_work(&wish(node, 1, at(now))).await.unwrap();
    assert_eq!(items.len(), 1, "there is something to claim at {now}");
    items.remove(0)
}

async fn none(store: &dyn Store, now: Timestamp) {
    let items = store.claim_work(&wish("nobody", 9, now)).await.unwrap();
    assert_eq!(items, []);
}

async fn is_claimed_once(on: Engine) {
    let store = on.node().await;
    none(&*store, at(0)).await;
    make(&*store, ["a", "b"]).await;
    let ops = vec![queue("a"), queue("b")];
    store.commit(commit(ops)).await.unwrap();
    let items = store.claim_work(&wish("n", 9, at(5))).await.unwrap();
    assert_eq!(names(&items), ["a", "b"]);
    for item in &items {
        assert_eq!(item.attempt, 1);
        assert_eq!(item.agent, agent("agent"));
    }
    none(&*store, at(5)).await;
    none(&*store, at(1_004)).await;
    // Not even to the node that has it.
    let again = store.claim_work(&wish("n", 9, at(6))).await.unwrap();
    assert_eq!(again, []);
}

async fn is_claimed_by_priority_then_age(on: Engine) {
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
    make(&*store, queued.map(|(id, _)| id)).await;
    for (step, (id, priority)) in (0..).zip(queued) {
        let ops = vec![queue_for(id, "agent", priority, at(0))];
        store.commit(commit_at(at(step), ops)).await.unwrap();
    }
    let first = store.claim_work(&wish("n", 3, at(100))).await.unwrap();
    assert_eq!(names(&first), ["x urgent", "u urgent", "v high"]);
    let mut rest = Vec::new();
    while rest.len() < 5 {
        rest.push(one(&*store, "n", 100).await);
    }
    assert_eq!(
        names(&rest),
        ["s high", "y normal", "w normal", "z low", "t low"]
    );
}

async fn is_claimed_for_each_agent(on: Engine) {
    let store = on.node().await;
    let mut ops = Vec::new();
    for number in 0..4 {
        for of in ["a", "b", "c"] {
            let id = format!("{of}{number}");
            make(&*store, [&id]).await;
            ops.push(queue_for(&id, of, Priority::Normal, at(0)));
        }
    }
    store.commit(commit(ops)).await.unwrap();
    let wanted = |counts: &[(&str, usize)]| WorkClaim {
        wanted: counts.iter().map(|(of, n)| (agent(of), *n)).collect(),
        ..wish("n", 0, at(0))
    };
    for (asked, expected) in [
        (&[][..], &[][..]),
        (&[("a", 0)], &[]),
        (&[("nobody", 5)], &[]),
        (&[("a", 2), ("b", 1)], &["a0", "a1", "b0"]),
        (&[("b", 9), ("a", 1)], &["a2", "b1", "b2", "b3"]),
        (&[("a", 9), ("b", 9)], &["a3"]),
    ] {
        let items = store.claim_work(&wanted(asked)).await.unwrap();
        for item in &items {
            assert!(item.task_id.as_str().starts_with(item.agent.as_str()));
        }
        let mut names = names(&items);
        names.sort_unstable();
        assert_eq!(names, expected, "{asked:?}");
    }
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (4, 8));
}

async fn is_not_claimed_before_it_is_due(on: Engine) {
    let store = on.node().await;
    make(&*store, ["later", "now"]).await;
    let ops = vec![queue_for("later", "agent", Priority::Urgent, at(100))];
    store.commit(commit(ops)).await.unwrap();
    none(&*store, at(99)).await;
    let ops = vec![queue_for("now", "agent", Priority::Low, at(0))];
    store.commit(commit_at(at(1), ops)).await.unwrap();
    let items = store.claim_work(&wish("n", 9, at(99))).await.unwrap();
    assert_eq!(names(&items), ["now"]);
    assert_eq!(one(&*store, "n", 100).await.task_id, task_id("later"));
}

async fn is_claimed_again_when_its_lease_is_over(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let mut last = one(&*store, "n", 0).await;
    for round in 1..=5_u32 {
        let now = i64::from(round) * 2_000;
        on.end_leases(&*store, at(now)).await;
        let again = one(&*store, if round % 2 == 0 { "n" } else { "m" }, now).await;
        assert_eq!(again.attempt, round + 1);
        assert!(again.claim > last.claim, "{again:?} after {last:?}");
        // The one before can neither hold it nor give it back.
        assert!(
            !store
                .renew_work(
                    &last.task_id,
                    "n",
                    last.claim,
                    from_start(long_after()),
                    at(0)
                )
                .await
                .unwrap()
        );
        assert!(
            !store
                .release_work(&last.task_id, "n", last.claim, from_start(at(0)), at(0))
                .await
                .unwrap()
        );
        none(&*store, at(now + 999)).await;
        last = again;
    }
}

async fn is_held_longer_when_renewed(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let item = one(&*store, "n", 0).await;
    let id = &item.task_id;
    let renew = |node: &'static str, claim, until| {
        store.renew_work(id, node, claim, from_start(at(until)), at(0))
    };
    assert!(renew("n", item.claim, 5_000).await.unwrap());
    none(&*store, at(4_999)).await;
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
            .renew_work(&other, "n", item.claim, from_start(at(9)), at(0))
            .await
            .unwrap()
    );
    assert!(
        renew("n", item.claim, 6_000).await.unwrap(),
        "still the same"
    );
    none(&*store, at(5_999)).await;
    on.end_leases(&*store, at(6_001)).await;
    assert_eq!(one(&*store, "m", 6_001).await.attempt, 2);
}

async fn is_given_back(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let item = one(&*store, "n", 0).await;
    let id = &item.task_id;
    assert!(
        !store
            .release_work(id, "m", item.claim, from_start(at(0)), at(0))
            .await
            .unwrap()
    );
    assert!(
        !store
            .release_work(id, "n", item.claim + 7, from_start(at(0)), at(0))
            .await
            .unwrap()
    );
    none(&*store, at(10)).await;
    assert!(
        store
            .release_work(id, "n", item.claim, from_start(at(500)), at(0))
            .await
            .unwrap()
    );
    let again = store
        .release_work(id, "n", item.claim, from_start(at(0)), at(0))
        .await
        .unwrap();
    assert!(!again, "it is no longer held");
    let late = store
        .renew_work(id, "n", item.claim, from_start(at(9_000)), at(0))
        .await
        .unwrap();
    assert!(!late, "it is no longer held");
    none(&*store, at(499)).await;
    let next = one(&*store, "m", 500).await;
    assert_eq!(next.attempt, 1, "what was given back does not count");
    assert!(next.claim > item.claim);
}

async fn begins_anew_when_queued_again(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let first = one(&*store, "n", 0).await;
    on.end_leases(&*store, at(2_000)).await;
    let second = one(&*store, "n", 2_000).await;
    assert_eq!(second.attempt, 2);
    // While it is held: the lease goes, and the attempts with it.
    let ops = vec![queue_for("t", "agent", Priority::High, at(2_500))];
    store.commit(commit_at(at(2_001), ops)).await.unwrap();
    assert!(
        !store
            .renew_work(
                &second.task_id,
                "n",
                second.claim,
                from_start(at(9_000)),
                at(0)
            )
            .await
            .unwrap(),
        "claims made before no longer count"
    );
    none(&*store, at(2_499)).await;
    let third = one(&*store, "n", 2_500).await;
    assert_eq!(third.attempt, 1);
    assert!(third.claim > second.claim && second.claim > first.claim);
    // To another agent: the old one no longer gets it.
    let ops = vec![queue_for("t", "other", Priority::High, at(0))];
    store.commit(commit_at(at(2_600), ops)).await.unwrap();
    none(&*store, at(2_600)).await;
    let wish = WorkClaim {
        wanted: vec![(agent("other"), 1)],
        ..wish("n", 1, at(2_600))
    };
    assert_eq!(store.claim_work(&wish).await.unwrap().len(), 1);
}

async fn is_over_when_ended(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t", "u"]).await;
    store
        .commit(commit(vec![queue("t"), queue("u")]))
        .await
        .unwrap();
    let item = one(&*store, "n", 0).await;
    let ops = vec![
        Op::EndWork(task_id("t")),
        Op::EndWork(task_id("u")),
        Op::EndWork(task_id("never queued")),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert!(
        !store
            .renew_work(&item.task_id, "n", item.claim, from_start(at(9_000)), at(0))
            .await
            .unwrap()
    );
    assert!(
        !store
            .release_work(&item.task_id, "n", item.claim, from_start(at(0)), at(0))
            .await
            .unwrap()
    );
    none(&*store, long_after()).await;
    // It comes back, but its old number does not.
    let mut last = item.claim;
    for _ in 0..3 {
        store.commit(commit(vec![queue("t")])).await.unwrap();
        let back = one(&*store, "n", 0).await;
        assert!(back.claim > last, "{} after {last}", back.claim);
        assert_eq!(back.attempt, 1);
        last = back.claim;
        let ops = vec![Op::EndWork(task_id("t"))];
        store.commit(commit(ops)).await.unwrap();
    }
}

async fn is_counted(on: Engine) {
    let store = on.node().await;
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (0, 0));
    make(&*store, (0..5).map(|n| format!("t{n}"))).await;
    let ops = (0..5).map(|n| queue(&format!("t{n}"))).collect();
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (5, 0));
    let items = store.claim_work(&wish("n", 2, at(0))).await.unwrap();
    assert_eq!(store.work_depth(at(999)).await.unwrap(), (3, 2));
    let over = store.work_depth(at(1_001)).await.unwrap();
    assert_eq!(over, if on.is_shared() { (5, 0) } else { (3, 2) });
    let ops = vec![Op::EndWork(items[0].task_id.clone())];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.work_depth(at(999)).await.unwrap(), (3, 1));
}

/// Claims, a few at a time, until `enough` is reached by all claimers together.
async fn drain(
    store: Arc<dyn Store>,
    node: String,
    few: usize,
    enough: Arc<Tally>,
) -> Vec<WorkItem> {
    let mut mine = Vec::new();
    while !enough.reached() {
        let items = store.claim_work(&wish(&node, few, at(0))).await.unwrap();
        assert!(items.len() <= few);
        enough.add(items.len());
        if items.is_empty() {
            tokio::task::yield_now().await;
        }
        mine.extend(items);
    }
    mine
}

/// How many were claimed by all together.
struct Tally {
    claimed: std::sync::atomic::AtomicUsize,
    enough: usize,
}

impl Tally {
    fn until(enough: usize) -> Arc<Self> {
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

fn all_different(items: &[WorkItem], count: usize) {
    let tasks: HashSet<_> = items.iter().map(|item| &item.task_id).collect();
    assert_eq!(
        (items.len(), tasks.len()),
        (count, count),
        "each exactly once"
    );
    assert!(items.iter().all(|item| item.attempt == 1));
}

async fn is_shared_out_without_overlap(on: Engine) {
    let nodes = on.two_nodes().await;
    make(&*nodes[0], (0..200).map(|n| format!("t{n}"))).await;
    let ops = (0..200).map(|n| queue(&format!("t{n}"))).collect();
    nodes[0].commit(commit(ops)).await.unwrap();
    let enough = Tally::until(200);
    let mut claimers = tokio::task::JoinSet::new();
    for index in 0..8 {
        let (node, name) = (nodes[index % 2].clone(), format!("node {index}"));
        claimers.spawn(drain(node, name, 1 + index, enough.clone()));
    }
    let items: Vec<WorkItem> = claimers.join_all().await.into_iter().flatten().collect();
    all_different(&items, 200);
    none(&*nodes[0], at(999)).await;
}

async fn is_shared_out_while_it_comes_in(on: Engine) {
    let nodes = on.two_nodes().await;
    let enough = Tally::until(120);
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
                let ops = vec![create(&task(&id)), queue(&id)];
                node.commit(commit(ops)).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let items: Vec<WorkItem> = claimers.join_all().await.into_iter().flatten().collect();
    all_different(&items, 120);
}

async fn is_taken_over_by_one_when_leases_end(on: Engine) {
    let nodes = on.two_nodes().await;
    make(&*nodes[0], (0..10).map(|n| format!("t{n}"))).await;
    let ops = (0..10).map(|n| queue(&format!("t{n}"))).collect();
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut highest = 0;
    for round in 0..6_u32 {
        on.end_leases(&*nodes[0], at(i64::from(round) * 2_000))
            .await;
        let mut claimers = tokio::task::JoinSet::new();
        for index in 0..6 {
            let node = nodes[index % 2].clone();
            let wish = wish(&format!("node {index}"), 4, at(i64::from(round) * 2_000));
            claimers.spawn(async move { node.claim_work(&wish).await.unwrap() });
        }
        let items: Vec<WorkItem> = claimers.join_all().await.into_iter().flatten().collect();
        let tasks: HashSet<_> = items.iter().map(|item| &item.task_id).collect();
        assert_eq!(tasks.len(), items.len(), "no task has two claimers");
        // Whoever came while others were choosing may have found nothing; who comes now does not.
        let wish = wish("last", 10, at(i64::from(round) * 2_000));
        let rest = nodes[0].claim_work(&wish).await.unwrap();
        assert_eq!(items.len() + rest.len(), 10);
        for item in items.iter().chain(&rest) {
            assert_eq!(item.attempt, round + 1);
        }
        let of_first = items
            .iter()
            .chain(&rest)
            .find(|i| i.task_id == task_id("t0"));
        let claim = of_first.unwrap().claim;
        assert!(claim > highest);
        highest = claim;
    }
}
