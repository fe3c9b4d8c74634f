//! Commits that claim: what is next in the queue goes with them, to one claimer, or nothing does.

use crate::engine::Engine;
use crate::make::{
    agent, at, becoming, change, commit, commit_at, create, event, fence, from_start, key,
    long_after, make, next, of_task, queue, queue_for, subscribe, subscription, task, task_id,
    update, wish, work_owner,
};
use crate::snapshot::log;
use interzone_hub::SubscriptionState;
use interzone_hub::ports::{Commit, Op, Store, StoreError, Wake, WorkClaim, WorkItem};
use interzone_protocol::vocab::{Priority, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

contract!(
    claim_what_they_make,
    claim_what_is_next_and_not_what_they_make,
    claim_for_each_agent_what_is_wanted,
    claim_nothing_where_nothing_is_wanted,
    claim_nothing_that_is_not_due,
    claim_nothing_when_they_are_refused,
    claim_under_numbers_that_rise,
    claim_what_their_own_fence_has_left,
    claim_each_task_once,
    claim_beside_those_who_look,
    leave_what_they_claim_to_others_when_the_lease_is_over,
    are_taken_over_by_whoever_opens_the_file,
    tell_of_work_that_they_leave,
);

fn names(items: &[WorkItem]) -> Vec<&str> {
    items.iter().map(|item| item.task_id.as_str()).collect()
}

/// A task that is made, with all that shows whether it was.
fn birth(id: &str) -> Vec<Op> {
    vec![create(&task(id)), queue(id), event(of_task(id), 1)]
}

async fn born(store: &dyn Store, id: &str, wish: &WorkClaim) -> Vec<WorkItem> {
    let items = store.commit_and_claim(commit(birth(id)), wish).await;
    let items = items.unwrap();
    assert!(store.task(&task_id(id)).await.unwrap().is_some());
    assert_eq!(log(store, &of_task(id)).await.len(), 1);
    items
}

async fn waiting(store: &dyn Store, now: Timestamp) -> Vec<String> {
    let items = store.claim_work(&wish("last", 99, now)).await.unwrap();
    items.iter().map(|item| item.task_id.to_string()).collect()
}

async fn claim_what_they_make(on: Engine) {
    let store = on.node().await;
    let items = born(&*store, "t", &wish("n", 1, at(5))).await;
    let [item] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(item.task_id, task_id("t"));
    assert_eq!(item.agent, agent("agent"));
    assert_eq!(item.attempt, 1);
    assert_eq!(store.work_depth(at(5)).await.unwrap(), (0, 1));
    assert_eq!(waiting(&*store, at(1_004)).await, [""; 0]);
    // It is a claim like any other: it is proved, renewed and given back by its number.
    let held = Commit {
        fence: Some(fence(item, "n")),
        ..commit_at(at(6), vec![update(&next(&task("t")))])
    };
    store.commit(held.clone()).await.unwrap();
    let renewed = store.renew_work(&item.task_id, "n", item.claim, from_start(at(3_000)), at(0));
    assert!(renewed.await.unwrap());
    assert_eq!(waiting(&*store, at(2_999)).await, [""; 0]);
    let back = store.release_work(&item.task_id, "n", item.claim, from_start(at(7)), at(0));
    assert!(back.await.unwrap());
    let late = store.commit(held).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    let again = store.claim_work(&wish("m", 1, at(7))).await.unwrap();
    assert_eq!(again[0].attempt, 1, "what was given back does not count");
    assert!(again[0].claim > item.claim);
}

async fn claim_what_is_next_and_not_what_they_make(on: Engine) {
    let store = on.node().await;
    for (id, priority) in [
        ("z low", Priority::Low),
        ("y urgent", Priority::Urgent),
        ("x normal", Priority::Normal),
        ("w urgent", Priority::Urgent),
    ] {
        make(&*store, [id]).await;
        let ops = vec![queue_for(id, "agent", priority, at(0))];
        store.commit(commit(ops)).await.unwrap();
    }
    let first = born(&*store, "a", &wish("n", 1, at(0))).await;
    assert_eq!(names(&first), ["y urgent"]);
    let next = born(&*store, "b", &wish("n", 3, at(0))).await;
    assert_eq!(names(&next), ["w urgent", "x normal", "a"]);
    let last = born(&*store, "c", &wish("n", 9, at(0))).await;
    assert_eq!(names(&last), ["b", "c", "z low"]);
    let all = first.iter().chain(&next).chain(&last);
    assert!(all.clone().all(|item| item.attempt == 1));
    let claims: HashSet<_> = all.map(|item| item.claim).collect();
    assert_eq!(claims.len(), 7);
}

async fn claim_for_each_agent_what_is_wanted(on: Engine) {
    let store = on.node().await;
    let of = |id: &str, of: &str| queue_for(id, of, Priority::Normal, at(0));
    make(&*store, ["a1", "b1", "a2", "c1"]).await;
    let ops = vec![of("a1", "a"), of("b1", "b"), of("a2", "a"), of("c1", "c")];
    let wanted = WorkClaim {
        wanted: vec![(agent("b"), 2), (agent("a"), 1)],
        ..wish("n", 0, at(0))
    };
    let items = store.commit_and_claim(commit(ops), &wanted).await.unwrap();
    let mut names = names(&items);
    names.sort_unstable();
    assert_eq!(names, ["a1", "b1"]);
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (2, 2));
}

async fn claim_nothing_where_nothing_is_wanted(on: Engine) {
    let store = on.node().await;
    let nobody = WorkClaim {
        wanted: Vec::new(),
        ..wish("n", 0, at(0))
    };
    let other = WorkClaim {
        wanted: vec![(agent("other"), 5)],
        ..wish("n", 0, at(0))
    };
    for (id, wish) in [("a", &nobody), ("b", &wish("n", 0, at(0))), ("c", &other)] {
        assert_eq!(born(&*store, id, wish).await, [], "{id}");
    }
    // What was made is there all the same, for whoever has room.
    assert_eq!(waiting(&*store, at(0)).await, ["a", "b", "c"]);
}

async fn claim_nothing_that_is_not_due(on: Engine) {
    let store = on.node().await;
    let held = born(&*store, "held", &wish("m", 1, at(0))).await;
    make(&*store, ["later"]).await;
    let ops = vec![queue_for("later", "agent", Priority::Urgent, at(100))];
    let none = store
        .commit_and_claim(commit(ops), &wish("n", 9, at(99)))
        .await;
    assert_eq!(none.unwrap(), []);
    let items = born(&*store, "now", &wish("n", 9, at(100))).await;
    assert_eq!(names(&items), ["later", "now"]);
    // A lease that is over is as good as none, in its turn.
    store.abandon_work(&[fence(&held[0], "m")]).await.unwrap();
    let items = born(&*store, "new", &wish("n", 1, at(1_000))).await;
    assert_eq!((names(&items)[0], items[0].attempt), ("held", 2));
    assert!(items[0].claim > held[0].claim);
}

/// Each way of refusing a commit, with work waiting that could have been had.
async fn claim_nothing_when_they_are_refused(on: Engine) {
    let store = on.node().await;
    make(&*store, ["waits"]).await;
    let taken = vec![
        create(&task("there")),
        key("key", "taken", at(100)),
        queue("waits"),
        subscribe(&subscription("s")),
    ];
    store.commit(commit(taken)).await.unwrap();
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    let revoked = becoming(&subscription("s"), SubscriptionState::Revoked);
    store.commit(commit(vec![change(&revoked)])).await.unwrap();
    let nobodys = WorkItem {
        task_id: task_id("waits"),
        agent: agent("agent"),
        owner: work_owner("owner"),
        attempt: 1,
        claim: 1,
    };
    let with = |op: Op| {
        let mut ops = birth("new");
        // Last, so that everything before it has to be undone.
        ops.push(op);
        commit(ops)
    };
    let refused = [
        (with(create(&task("there"))), "Conflict"),
        (with(update(&next(&next(&task("there"))))), "Conflict"),
        (with(key("key", "mine", at(100))), "Claimed"),
        (
            Commit {
                fence: Some(fence(&nobodys, "n")),
                ..commit(birth("new"))
            },
            "Fenced",
        ),
        (
            Commit {
                epoch: Some(epoch),
                ..commit(birth("new"))
            },
            "StaleSubscriptions",
        ),
    ];
    for (commit, how) in refused {
        let answer = store.commit_and_claim(commit, &wish("n", 9, at(0))).await;
        let said = format!("{:?}", answer.unwrap_err());
        assert!(said.starts_with(how), "{said}, not {how}");
        assert_eq!(store.task(&task_id("new")).await.unwrap(), None, "{how}");
        assert_eq!(store.work_depth(at(0)).await.unwrap(), (1, 0), "{how}");
    }
    let items = born(&*store, "new", &wish("n", 9, at(0))).await;
    assert_eq!(names(&items), ["waits", "new"]);
    assert!(items.iter().all(|item| item.attempt == 1), "{items:?}");
}

async fn claim_under_numbers_that_rise(on: Engine) {
    let mut store = on.node().await;
    make(&*store, ["plain"]).await;
    let mut last = 0;
    for round in 0..6 {
        let id = format!("t{round}");
        let born = born(&*store, &id, &wish("n", 1, at(0))).await;
        store.commit(commit(vec![queue("plain")])).await.unwrap();
        let plain = store.claim_work(&wish("n", 1, at(0))).await.unwrap();
        for item in born.iter().chain(&plain) {
            assert!(item.claim > last, "{} after {last}", item.claim);
            last = item.claim;
            let ops = vec![Op::EndWork(item.task_id.clone())];
            store.commit(commit(ops)).await.unwrap();
        }
        // Not even when the store was closed between, and nothing is in the queue to tell.
        store = on.reopen(store).await;
    }
}

/// Who ends one piece of work and takes the next in the same breath.
async fn claim_what_their_own_fence_has_left(on: Engine) {
    let store = on.node().await;
    let first = born(&*store, "first", &wish("n", 1, at(0))).await;
    store.commit(commit(birth("second"))).await.unwrap();
    let done = Commit {
        fence: Some(fence(&first[0], "n")),
        ..commit_at(at(1), vec![Op::EndWork(task_id("first"))])
    };
    let items = store.commit_and_claim(done, &wish("n", 9, at(1))).await;
    assert_eq!(names(&items.unwrap()), ["second"]);
    // And what is queued again under its own claim begins anew.
    let again = born(&*store, "third", &wish("n", 1, at(2))).await;
    let back = Commit {
        fence: Some(fence(&again[0], "n")),
        ..commit_at(at(3), vec![queue("third")])
    };
    let items = store.commit_and_claim(back, &wish("n", 9, at(3))).await;
    let items = items.unwrap();
    assert_eq!((names(&items)[0], items[0].attempt), ("third", 1));
    assert!(items[0].claim > again[0].claim);
}

fn each_once(items: &[WorkItem]) -> usize {
    let tasks: HashSet<_> = items.iter().map(|item| &item.task_id).collect();
    let claims: HashSet<_> = items.iter().map(|item| item.claim).collect();
    assert_eq!((tasks.len(), claims.len()), (items.len(), items.len()));
    assert!(items.iter().all(|item| item.attempt == 1));
    items.len()
}

/// Makes tasks one after another, each with a wish for one.
async fn bear(store: Arc<dyn Store>, name: String, count: usize) -> Vec<WorkItem> {
    let mut mine = Vec::new();
    for number in 0..count {
        let ops = birth(&format!("{name}-{number}"));
        let wish = wish(&name, 1, at(0));
        let items = store.commit_and_claim(commit(ops), &wish).await.unwrap();
        assert!(items.len() <= 1, "{items:?}");
        mine.extend(items);
    }
    mine
}

async fn claim_each_task_once(on: Engine) {
    let nodes = on.two_nodes().await;
    make(&*nodes[0], (0..20).map(|n| format!("waits{n}"))).await;
    let ops = (0..20).map(|n| queue(&format!("waits{n}"))).collect();
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut parents = JoinSet::new();
    for index in 0..6 {
        parents.spawn(bear(nodes[index % 2].clone(), format!("node {index}"), 15));
    }
    let items: Vec<_> = parents.join_all().await.into_iter().flatten().collect();
    let held = each_once(&items);
    // Each claims one for each that it makes: what waited before waits no longer than it must.
    assert_eq!(held, 90);
    let waited = names(&items)
        .iter()
        .filter(|id| id.starts_with("waits"))
        .count();
    assert_eq!(waited, 20, "older work goes first");
    assert_eq!(waiting(&*nodes[0], at(999)).await.len(), 20);
}

async fn claim_beside_those_who_look(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut parents = JoinSet::new();
    for index in 0..4 {
        parents.spawn(bear(nodes[index % 2].clone(), format!("node {index}"), 15));
    }
    let mut found = Vec::new();
    let mut items = Vec::new();
    while !parents.is_empty() {
        found.extend(nodes[1].claim_work(&wish("looks", 2, at(0))).await.unwrap());
        if let Some(done) = parents.try_join_next() {
            items.extend(done.unwrap());
        }
    }
    found.extend(
        nodes[0]
            .claim_work(&wish("looks", 99, at(0)))
            .await
            .unwrap(),
    );
    items.extend(found);
    assert_eq!(each_once(&items), 60, "nothing is left and nothing is lost");
}

/// Whoever claimed it is gone before it did anything.
async fn leave_what_they_claim_to_others_when_the_lease_is_over(on: Engine) {
    let [store, other] = on.two_nodes().await;
    let first = born(&*store, "t", &wish("n", 1, at(0))).await;
    let none = born(&*other, "u", &wish("m", 0, at(999))).await;
    assert_eq!(none, []);
    assert_eq!(waiting(&*other, at(999)).await, ["u"]);
    let u = task_id("u");
    store.commit(commit(vec![Op::EndWork(u)])).await.unwrap();
    on.end_leases(&*other, at(1_000)).await;
    let second = born(&*other, "v", &wish("m", 1, at(1_000))).await;
    assert_eq!((names(&second)[0], second[0].attempt), ("t", 2));
    assert!(second[0].claim > first[0].claim);
    let late = Commit {
        fence: Some(fence(&first[0], "n")),
        ..commit_at(at(1_001), vec![update(&next(&task("t")))])
    };
    let late = store.commit_and_claim(late, &wish("n", 9, at(1_001))).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(waiting(&*store, at(1_001)).await, ["v"]);
}

/// A file has one process, so whoever has just opened it knows that nobody else is at work. On a server
/// somebody may be.
async fn are_taken_over_by_whoever_opens_the_file(on: Engine) {
    let store = on.node().await;
    let first = born(&*store, "t", &wish("n", 1, at(0))).await;
    let store = on.reopen(store).await;
    let items = born(&*store, "u", &wish("n", 2, at(10))).await;
    let late = Commit {
        fence: Some(fence(&first[0], "n")),
        ..commit_at(at(11), vec![update(&next(&task("t")))])
    };
    let late = store.commit(late).await;
    if on.is_shared() {
        assert_eq!(names(&items), ["u"]);
        late.unwrap();
        assert_eq!(waiting(&*store, long_after()).await, ["t", "u"]);
        return;
    }
    assert_eq!(names(&items), ["t", "u"]);
    assert_eq!((items[0].attempt, items[1].attempt), (2, 1));
    assert!(items[0].claim > first[0].claim);
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
}

/// Whether the store tells of work, before it tells of what was written last.
async fn told_of_work(
    wakes: &mut broadcast::Receiver<Wake>,
    store: &dyn Store,
    mark: &str,
) -> bool {
    let ops = vec![event(of_task(mark), 1)];
    store.commit(commit(ops)).await.unwrap();
    let mut work = false;
    loop {
        match wakes.recv().await.unwrap() {
            Wake::Subject(subject, _) if subject == of_task(mark) => return work,
            Wake::Work => work = true,
            _ => {}
        }
    }
}

/// Nobody need look for what is taken, and everybody for what is not.
async fn tell_of_work_that_they_leave(on: Engine) {
    let store = on.node().await;
    let mut wakes = store.wakes();
    born(&*store, "a", &wish("n", 1, at(0))).await;
    assert!(!told_of_work(&mut wakes, &*store, "1").await);
    born(&*store, "b", &wish("n", 0, at(0))).await;
    assert!(told_of_work(&mut wakes, &*store, "2").await);
    // It takes another, and leaves its own.
    let items = born(&*store, "c", &wish("n", 1, at(0))).await;
    assert_eq!(names(&items), ["b"]);
    assert!(told_of_work(&mut wakes, &*store, "3").await);
}
