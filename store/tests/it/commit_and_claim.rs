//! `commit_and_claim`: the next queued work is claimed with the commit, by one node, or not at all.

use crate::builders::{
    agent, claim_key, commit, commit_at, create, create_tasks, enqueue_work, enqueue_work_for,
    event, fence, long_after, next_revision, since_start, subscribe, subscription, task, task_id,
    task_subject, time_at, update, update_subscription, with_state, work_claim, work_owner,
};
use crate::engine::Engine;
use crate::snapshot::event_log;
use interzone_hub::SubscriptionState;
use interzone_hub::ports::{ChangeHint, Commit, Op, Store, StoreError, WorkClaim, WorkItem};
use interzone_protocol::vocab::{Priority, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

contract_tests!(
    commit_claims_task_it_creates,
    commit_claims_next_in_queue_first,
    commit_claims_wanted_count_per_agent,
    commit_without_wanted_work_claims_none,
    commit_claims_only_due_work,
    rejected_commit_claims_nothing,
    claim_numbers_rise_across_reopen,
    commit_claims_work_requeued_under_its_fence,
    concurrent_commits_claim_each_task_once,
    commits_and_polls_claim_each_task_once,
    expired_commit_claim_passes_to_another_node,
    opening_the_file_releases_commit_claims,
    work_hint_is_sent_only_for_unclaimed_work,
);

fn task_names(items: &[WorkItem]) -> Vec<&str> {
    items.iter().map(|item| item.task_id.as_str()).collect()
}

/// Operations that create and queue a task, with everything that shows whether they were applied.
fn new_task_ops(id: &str) -> Vec<Op> {
    vec![
        create(&task(id)),
        enqueue_work(id),
        event(task_subject(id), 1),
    ]
}

async fn create_and_claim(store: &dyn Store, id: &str, claim: &WorkClaim) -> Vec<WorkItem> {
    let items = store
        .commit_and_claim(commit(new_task_ops(id)), claim)
        .await;
    let items = items.unwrap();
    assert!(store.task(&task_id(id)).await.unwrap().is_some());
    assert_eq!(event_log(store, &task_subject(id)).await.len(), 1);
    items
}

async fn claimable(store: &dyn Store, now: Timestamp) -> Vec<String> {
    let items = store
        .claim_work(&work_claim("last", 99, now))
        .await
        .unwrap();
    items.iter().map(|item| item.task_id.to_string()).collect()
}

async fn commit_claims_task_it_creates(on: Engine) {
    let store = on.node().await;
    let items = create_and_claim(&*store, "t", &work_claim("n", 1, time_at(5))).await;
    let [item] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(item.task_id, task_id("t"));
    assert_eq!(item.agent, agent("agent"));
    assert_eq!(item.attempt, 1);
    assert_eq!(store.work_depth(time_at(5)).await.unwrap(), (0, 1));
    assert_eq!(claimable(&*store, time_at(1_004)).await, [""; 0]);
    // The claim is fenced, renewed and released by its number like any other.
    let held = Commit {
        fence: Some(fence(item, "n")),
        ..commit_at(time_at(6), vec![update(&next_revision(&task("t")))])
    };
    store.commit(held.clone()).await.unwrap();
    let renewed = store.renew_work(
        &item.task_id,
        "n",
        item.claim,
        since_start(time_at(3_000)),
        time_at(0),
    );
    assert!(renewed.await.unwrap());
    assert_eq!(claimable(&*store, time_at(2_999)).await, [""; 0]);
    let back = store.release_work(
        &item.task_id,
        "n",
        item.claim,
        since_start(time_at(7)),
        time_at(0),
    );
    assert!(back.await.unwrap());
    let late = store.commit(held).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    let again = store
        .claim_work(&work_claim("m", 1, time_at(7)))
        .await
        .unwrap();
    assert_eq!(again[0].attempt, 1, "a released attempt does not count");
    assert!(again[0].claim > item.claim);
}

async fn commit_claims_next_in_queue_first(on: Engine) {
    let store = on.node().await;
    for (id, priority) in [
        ("z low", Priority::Low),
        ("y urgent", Priority::Urgent),
        ("x normal", Priority::Normal),
        ("w urgent", Priority::Urgent),
    ] {
        create_tasks(&*store, [id]).await;
        let ops = vec![enqueue_work_for(id, "agent", priority, time_at(0))];
        store.commit(commit(ops)).await.unwrap();
    }
    let first = create_and_claim(&*store, "a", &work_claim("n", 1, time_at(0))).await;
    assert_eq!(task_names(&first), ["y urgent"]);
    let next = create_and_claim(&*store, "b", &work_claim("n", 3, time_at(0))).await;
    assert_eq!(task_names(&next), ["w urgent", "x normal", "a"]);
    let last = create_and_claim(&*store, "c", &work_claim("n", 9, time_at(0))).await;
    assert_eq!(task_names(&last), ["b", "c", "z low"]);
    let all = first.iter().chain(&next).chain(&last);
    assert!(all.clone().all(|item| item.attempt == 1));
    let claims: HashSet<_> = all.map(|item| item.claim).collect();
    assert_eq!(claims.len(), 7);
}

async fn commit_claims_wanted_count_per_agent(on: Engine) {
    let store = on.node().await;
    let enqueue_for = |id: &str, of: &str| enqueue_work_for(id, of, Priority::Normal, time_at(0));
    create_tasks(&*store, ["a1", "b1", "a2", "c1"]).await;
    let ops = vec![
        enqueue_for("a1", "a"),
        enqueue_for("b1", "b"),
        enqueue_for("a2", "a"),
        enqueue_for("c1", "c"),
    ];
    let wanted = WorkClaim {
        wanted: vec![(agent("b"), 2), (agent("a"), 1)],
        ..work_claim("n", 0, time_at(0))
    };
    let items = store.commit_and_claim(commit(ops), &wanted).await.unwrap();
    let mut names = task_names(&items);
    names.sort_unstable();
    assert_eq!(names, ["a1", "b1"]);
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (2, 2));
}

async fn commit_without_wanted_work_claims_none(on: Engine) {
    let store = on.node().await;
    let none_wanted = WorkClaim {
        wanted: Vec::new(),
        ..work_claim("n", 0, time_at(0))
    };
    let other = WorkClaim {
        wanted: vec![(agent("other"), 5)],
        ..work_claim("n", 0, time_at(0))
    };
    for (id, claim) in [
        ("a", &none_wanted),
        ("b", &work_claim("n", 0, time_at(0))),
        ("c", &other),
    ] {
        assert_eq!(create_and_claim(&*store, id, claim).await, [], "{id}");
    }
    // The created task is claimable by another node.
    assert_eq!(claimable(&*store, time_at(0)).await, ["a", "b", "c"]);
}

async fn commit_claims_only_due_work(on: Engine) {
    let store = on.node().await;
    let held = create_and_claim(&*store, "held", &work_claim("m", 1, time_at(0))).await;
    create_tasks(&*store, ["later"]).await;
    let ops = vec![enqueue_work_for(
        "later",
        "agent",
        Priority::Urgent,
        time_at(100),
    )];
    let none = store
        .commit_and_claim(commit(ops), &work_claim("n", 9, time_at(99)))
        .await;
    assert_eq!(none.unwrap(), []);
    let items = create_and_claim(&*store, "now", &work_claim("n", 9, time_at(100))).await;
    assert_eq!(task_names(&items), ["later", "now"]);
    // Work with an expired lease is claimable, in its order.
    store.abandon_work(&[fence(&held[0], "m")]).await.unwrap();
    let items = create_and_claim(&*store, "new", &work_claim("n", 1, time_at(1_000))).await;
    assert_eq!((task_names(&items)[0], items[0].attempt), ("held", 2));
    assert!(items[0].claim > held[0].claim);
}

/// Each way of rejecting a commit, with claimable work in the queue.
async fn rejected_commit_claims_nothing(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["waits"]).await;
    let taken = vec![
        create(&task("there")),
        claim_key("key", "taken", time_at(100)),
        enqueue_work("waits"),
        subscribe(&subscription("s")),
    ];
    store.commit(commit(taken)).await.unwrap();
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    let revoked = with_state(&subscription("s"), SubscriptionState::Revoked);
    store
        .commit(commit(vec![update_subscription(&revoked)]))
        .await
        .unwrap();
    let nobodys = WorkItem {
        task_id: task_id("waits"),
        agent: agent("agent"),
        owner: work_owner("owner"),
        attempt: 1,
        claim: 1,
    };
    let failing_commit = |op: Op| {
        let mut ops = new_task_ops("new");
        // Last, so that everything before it has to be rolled back.
        ops.push(op);
        commit(ops)
    };
    let refused = [
        (failing_commit(create(&task("there"))), "Conflict"),
        (
            failing_commit(update(&next_revision(&next_revision(&task("there"))))),
            "Conflict",
        ),
        (
            failing_commit(claim_key("key", "mine", time_at(100))),
            "KeyTaken",
        ),
        (
            Commit {
                fence: Some(fence(&nobodys, "n")),
                ..commit(new_task_ops("new"))
            },
            "Fenced",
        ),
        (
            Commit {
                epoch: Some(epoch),
                ..commit(new_task_ops("new"))
            },
            "StaleSubscriptions",
        ),
    ];
    for (commit, how) in refused {
        let answer = store
            .commit_and_claim(commit, &work_claim("n", 9, time_at(0)))
            .await;
        let error = format!("{:?}", answer.unwrap_err());
        assert!(error.starts_with(how), "{error}, not {how}");
        assert_eq!(store.task(&task_id("new")).await.unwrap(), None, "{how}");
        assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (1, 0), "{how}");
    }
    let items = create_and_claim(&*store, "new", &work_claim("n", 9, time_at(0))).await;
    assert_eq!(task_names(&items), ["waits", "new"]);
    assert!(items.iter().all(|item| item.attempt == 1), "{items:?}");
}

async fn claim_numbers_rise_across_reopen(on: Engine) {
    let mut store = on.node().await;
    create_tasks(&*store, ["plain"]).await;
    let mut last = 0;
    for round in 0..6 {
        let id = format!("t{round}");
        let born = create_and_claim(&*store, &id, &work_claim("n", 1, time_at(0))).await;
        store
            .commit(commit(vec![enqueue_work("plain")]))
            .await
            .unwrap();
        let plain = store
            .claim_work(&work_claim("n", 1, time_at(0)))
            .await
            .unwrap();
        for item in born.iter().chain(&plain) {
            assert!(item.claim > last, "{} after {last}", item.claim);
            last = item.claim;
            let ops = vec![Op::DequeueWork(item.task_id.clone())];
            store.commit(commit(ops)).await.unwrap();
        }
        // Not even when the store was closed in between, with an empty queue.
        store = on.reopen(store).await;
    }
}

/// A commit that ends one work item and claims the next.
async fn commit_claims_work_requeued_under_its_fence(on: Engine) {
    let store = on.node().await;
    let first = create_and_claim(&*store, "first", &work_claim("n", 1, time_at(0))).await;
    store.commit(commit(new_task_ops("second"))).await.unwrap();
    let done = Commit {
        fence: Some(fence(&first[0], "n")),
        ..commit_at(time_at(1), vec![Op::DequeueWork(task_id("first"))])
    };
    let items = store
        .commit_and_claim(done, &work_claim("n", 9, time_at(1)))
        .await;
    assert_eq!(task_names(&items.unwrap()), ["second"]);
    // Work queued again under its own claim starts with a new attempt count.
    let again = create_and_claim(&*store, "third", &work_claim("n", 1, time_at(2))).await;
    let back = Commit {
        fence: Some(fence(&again[0], "n")),
        ..commit_at(time_at(3), vec![enqueue_work("third")])
    };
    let items = store
        .commit_and_claim(back, &work_claim("n", 9, time_at(3)))
        .await;
    let items = items.unwrap();
    assert_eq!((task_names(&items)[0], items[0].attempt), ("third", 1));
    assert!(items[0].claim > again[0].claim);
}

fn count_unique(items: &[WorkItem]) -> usize {
    let tasks: HashSet<_> = items.iter().map(|item| &item.task_id).collect();
    let claims: HashSet<_> = items.iter().map(|item| item.claim).collect();
    assert_eq!((tasks.len(), claims.len()), (items.len(), items.len()));
    assert!(items.iter().all(|item| item.attempt == 1));
    items.len()
}

/// Creates tasks one after another, each with a claim for one.
async fn create_and_claim_many(store: Arc<dyn Store>, name: String, count: usize) -> Vec<WorkItem> {
    let mut mine = Vec::new();
    for number in 0..count {
        let ops = new_task_ops(&format!("{name}-{number}"));
        let claim = work_claim(&name, 1, time_at(0));
        let items = store.commit_and_claim(commit(ops), &claim).await.unwrap();
        assert!(items.len() <= 1, "{items:?}");
        mine.extend(items);
    }
    mine
}

async fn concurrent_commits_claim_each_task_once(on: Engine) {
    let nodes = on.two_nodes().await;
    create_tasks(&*nodes[0], (0..20).map(|n| format!("waits{n}"))).await;
    let ops = (0..20)
        .map(|n| enqueue_work(&format!("waits{n}")))
        .collect();
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut parents = JoinSet::new();
    for index in 0..6 {
        parents.spawn(create_and_claim_many(
            nodes[index % 2].clone(),
            format!("node {index}"),
            15,
        ));
    }
    let items: Vec<_> = parents.join_all().await.into_iter().flatten().collect();
    let held = count_unique(&items);
    // Each claims one for each that it creates: older work waits no longer than necessary.
    assert_eq!(held, 90);
    let waited = task_names(&items)
        .iter()
        .filter(|id| id.starts_with("waits"))
        .count();
    assert_eq!(waited, 20, "older work goes first");
    assert_eq!(claimable(&*nodes[0], time_at(999)).await.len(), 20);
}

async fn commits_and_polls_claim_each_task_once(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut parents = JoinSet::new();
    for index in 0..4 {
        parents.spawn(create_and_claim_many(
            nodes[index % 2].clone(),
            format!("node {index}"),
            15,
        ));
    }
    let mut found = Vec::new();
    let mut items = Vec::new();
    while !parents.is_empty() {
        found.extend(
            nodes[1]
                .claim_work(&work_claim("looks", 2, time_at(0)))
                .await
                .unwrap(),
        );
        if let Some(done) = parents.try_join_next() {
            items.extend(done.unwrap());
        }
    }
    found.extend(
        nodes[0]
            .claim_work(&work_claim("looks", 99, time_at(0)))
            .await
            .unwrap(),
    );
    items.extend(found);
    assert_eq!(count_unique(&items), 60, "no task is left or lost");
}

/// The claiming node dies before it does anything.
async fn expired_commit_claim_passes_to_another_node(on: Engine) {
    let [store, other] = on.two_nodes().await;
    let first = create_and_claim(&*store, "t", &work_claim("n", 1, time_at(0))).await;
    let none = create_and_claim(&*other, "u", &work_claim("m", 0, time_at(999))).await;
    assert_eq!(none, []);
    assert_eq!(claimable(&*other, time_at(999)).await, ["u"]);
    let u = task_id("u");
    store
        .commit(commit(vec![Op::DequeueWork(u)]))
        .await
        .unwrap();
    on.expire_leases(&*other, time_at(1_000)).await;
    let second = create_and_claim(&*other, "v", &work_claim("m", 1, time_at(1_000))).await;
    assert_eq!((task_names(&second)[0], second[0].attempt), ("t", 2));
    assert!(second[0].claim > first[0].claim);
    let late = Commit {
        fence: Some(fence(&first[0], "n")),
        ..commit_at(time_at(1_001), vec![update(&next_revision(&task("t")))])
    };
    let late = store
        .commit_and_claim(late, &work_claim("n", 9, time_at(1_001)))
        .await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(claimable(&*store, time_at(1_001)).await, ["v"]);
}

/// A file has one process, so the process that opens it may release all claims. On a server other nodes may be
/// running.
async fn opening_the_file_releases_commit_claims(on: Engine) {
    let store = on.node().await;
    let first = create_and_claim(&*store, "t", &work_claim("n", 1, time_at(0))).await;
    let store = on.reopen(store).await;
    let items = create_and_claim(&*store, "u", &work_claim("n", 2, time_at(10))).await;
    let late = Commit {
        fence: Some(fence(&first[0], "n")),
        ..commit_at(time_at(11), vec![update(&next_revision(&task("t")))])
    };
    let late = store.commit(late).await;
    if on.is_shared() {
        assert_eq!(task_names(&items), ["u"]);
        late.unwrap();
        assert_eq!(claimable(&*store, long_after()).await, ["t", "u"]);
        return;
    }
    assert_eq!(task_names(&items), ["t", "u"]);
    assert_eq!((items[0].attempt, items[1].attempt), (2, 1));
    assert!(items[0].claim > first[0].claim);
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
}

/// Returns true if the store sends a work hint before the hint of the last write.
async fn gets_work_hint(
    wakes: &mut broadcast::Receiver<ChangeHint>,
    store: &dyn Store,
    mark: &str,
) -> bool {
    let ops = vec![event(task_subject(mark), 1)];
    store.commit(commit(ops)).await.unwrap();
    let mut work = false;
    loop {
        match wakes.recv().await.unwrap() {
            ChangeHint::Subject(subject, _) if subject == task_subject(mark) => return work,
            ChangeHint::Work => work = true,
            _ => {}
        }
    }
}

/// Claimed work needs no hint; work left in the queue does.
async fn work_hint_is_sent_only_for_unclaimed_work(on: Engine) {
    let store = on.node().await;
    let mut hints = store.subscribe_changes();
    create_and_claim(&*store, "a", &work_claim("n", 1, time_at(0))).await;
    assert!(!gets_work_hint(&mut hints, &*store, "1").await);
    create_and_claim(&*store, "b", &work_claim("n", 0, time_at(0))).await;
    assert!(gets_work_hint(&mut hints, &*store, "2").await);
    // It claims another task, and leaves its own.
    let items = create_and_claim(&*store, "c", &work_claim("n", 1, time_at(0))).await;
    assert_eq!(task_names(&items), ["b"]);
    assert!(gets_work_hint(&mut hints, &*store, "3").await);
}
