//! Run slots are shared between owners: one that has many long runs leaves slots to the others.

use super::counting_store::CountingStore;
use super::{AgentAction, AgentScript, WorkersFixture, alice, bob, quick_options, start_workers};
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{
    Caller, Hub, Limits, NewTask, RandomIds, Registry, Route, SystemClock, Task, WorkOwner,
};
use interzone_protocol::vocab::{ContextId, Message, PrincipalId, Priority};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Polls so rarely that work is found only through change notifications.
fn notified_only_options(node: &str) -> WorkerOptions {
    WorkerOptions {
        poll_interval: Duration::from_secs(3_600),
        ..quick_options(node)
    }
}

fn new_task(text: &str, start_now: bool) -> NewTask {
    NewTask {
        start_now,
        ..NewTask::new(Message::user_text(text))
    }
}

async fn create(hub: &Hub, caller: &Caller, text: &str, start_now: bool) {
    hub.create_task(caller, new_task(text, start_now))
        .await
        .unwrap();
}

/// Waits until `count` runs have started; returns the number per message text.
async fn started_runs(stage: &mut AgentScript, count: usize) -> BTreeMap<String, usize> {
    let mut started = BTreeMap::new();
    let mut total = 0;
    while total < count {
        if let AgentAction::Started(text, attempt) = stage.next_action().await {
            assert_eq!(attempt, 1, "{text}");
            *started.entry(text).or_default() += 1;
            total += 1;
        }
    }
    started
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs
        .iter()
        .map(|(text, n)| ((*text).to_owned(), *n))
        .collect()
}

#[tokio::test]
async fn owner_with_a_long_queue_leaves_a_slot_to_others() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 4);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    for _ in 0..40 {
        create(&hub, &alice(), "alice", false).await;
    }
    let _workers = start_workers(&hub, notified_only_options("n1"));
    assert_eq!(started_runs(&mut stage, 3).await, counts(&[("alice", 3)]));
    create(&hub, &bob(), "bob", false).await;
    assert_eq!(started_runs(&mut stage, 1).await, counts(&[("bob", 1)]));
    assert!(stage.has_no_action(), "there are four slots");
    // A run that ends frees a slot for its owner or another; one slot is left to others each time.
    stage.gate.add_permits(4);
    let next = started_runs(&mut stage, 3).await;
    assert_eq!(next, counts(&[("alice", 3)]));
}

/// Two owners with long runs do not hold all slots between them, so a third one need not wait for their runs.
#[tokio::test]
async fn two_owners_with_long_queues_leave_a_slot_to_a_third() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 8);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    for _ in 0..20 {
        create(&hub, &alice(), "alice", false).await;
        create(&hub, &bob(), "bob", false).await;
    }
    let _workers = start_workers(&hub, notified_only_options("n1"));
    let started = started_runs(&mut stage, 7).await;
    assert_eq!(started, counts(&[("alice", 4), ("bob", 3)]));
    create(&hub, &carol(), "carol", false).await;
    assert_eq!(started_runs(&mut stage, 1).await, counts(&[("carol", 1)]));
    assert!(stage.has_no_action(), "there are eight slots");
    // The slot of a run that ends goes to another owner's task, whose share grew with the free slots.
    stage.gate.add_permits(2);
    assert_eq!(started_runs(&mut stage, 1).await.values().sum::<usize>(), 1);
}

#[tokio::test]
async fn urgent_task_of_owner_at_share_waits_for_own_runs() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 4);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let _workers = start_workers(&hub, notified_only_options("n1"));
    for _ in 0..40 {
        let urgent = NewTask {
            priority: Priority::Urgent,
            ..new_task("urgent", false)
        };
        hub.create_task(&alice(), urgent).await.unwrap();
    }
    assert_eq!(started_runs(&mut stage, 3).await, counts(&[("urgent", 3)]));
    let low = NewTask {
        priority: Priority::Low,
        ..new_task("low", false)
    };
    hub.create_task(&bob(), low).await.unwrap();
    assert_eq!(started_runs(&mut stage, 1).await, counts(&[("low", 1)]));
}

#[tokio::test]
async fn directly_dispatched_runs_count_against_share() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 4);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let workers = start_workers(&hub, notified_only_options("n1"));
    for _ in 0..10 {
        create(&hub, &alice(), "alice", true).await;
    }
    assert_eq!(started_runs(&mut stage, 3).await, counts(&[("alice", 3)]));
    create(&hub, &bob(), "bob", true).await;
    assert_eq!(started_runs(&mut stage, 1).await, counts(&[("bob", 1)]));
    assert_eq!(workers.running(), 4);
    // Queued tasks get the remaining slots.
    stage.gate.add_permits(100);
    assert_eq!(started_runs(&mut stage, 7).await, counts(&[("alice", 7)]));
}

fn task_for(agent: &str, text: &str) -> NewTask {
    let route = Route {
        assign_to: Some(agent.to_owned()),
        ..Route::default()
    };
    NewTask {
        route,
        ..new_task(text, false)
    }
}

/// Of eight runs of the node one agent may have seven, and one caller six of those and seven in total.
#[tokio::test]
async fn owner_leaves_slots_of_the_node_to_others() {
    let place = WorkersFixture::new().await;
    let (mut one, mut two) = (AgentScript::new("one", 16), AgentScript::new("two", 16));
    let hub = place.hub_with_system_clock(vec![one.agent.clone(), two.agent.clone()]);
    for agent in ["one", "two"].repeat(20) {
        hub.create_task(&alice(), task_for(agent, "alice"))
            .await
            .unwrap();
    }
    let options = WorkerOptions {
        runs: 8,
        ..notified_only_options("n1")
    };
    let _workers = start_workers(&hub, options);
    let mut total = 0;
    while total < 7 {
        let did = tokio::select! { did = one.next_action() => did, did = two.next_action() => did };
        assert_eq!(did, AgentAction::Started("alice".to_owned(), 1));
        total += 1;
    }
    hub.create_task(&bob(), task_for("one", "bob"))
        .await
        .unwrap();
    assert_eq!(started_runs(&mut one, 1).await, counts(&[("bob", 1)]));
}

#[tokio::test]
async fn agent_leaves_slots_of_the_node_to_other_agents() {
    let place = WorkersFixture::new().await;
    let (mut one, mut two) = (AgentScript::new("one", 16), AgentScript::new("two", 16));
    let hub = place.hub_with_system_clock(vec![one.agent.clone(), two.agent.clone()]);
    // As many owners as slots, since a few would leave one free.
    for number in 0..40 {
        let owner = PrincipalId::new(format!("owner-{}", number % 7)).unwrap();
        let task = task_for("one", "long");
        hub.create_task(&Caller::new(owner), task).await.unwrap();
    }
    let options = WorkerOptions {
        runs: 8,
        ..notified_only_options("n1")
    };
    let _workers = start_workers(&hub, options);
    assert_eq!(started_runs(&mut one, 7).await, counts(&[("long", 7)]));
    hub.create_task(&carol(), task_for("two", "carol"))
        .await
        .unwrap();
    assert_eq!(started_runs(&mut two, 1).await, counts(&[("carol", 1)]));
    assert!(one.has_no_action());
}

fn carol() -> Caller {
    Caller::new(PrincipalId::new("carol").unwrap())
}

/// In this test the conversation is named after the user.
fn user_of(task: &Task) -> Option<String> {
    Some(task.context_id.to_string())
}

#[tokio::test]
async fn users_of_one_principal_leave_slots_to_each_other() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 16);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    hub.set_person_reader(user_of);
    let task_of = |name: &str| NewTask {
        context_id: Some(ContextId::new(name).unwrap()),
        ..new_task(name, false)
    };
    let mut groups = Vec::new();
    for name in ["person-a", "person-b"] {
        let task = hub.create_task(&alice(), task_of(name)).await.unwrap();
        groups.push(WorkOwner::new(&task, Some(name)).group);
    }
    for _ in 0..30 {
        hub.create_task(&alice(), task_of("person-a"))
            .await
            .unwrap();
    }
    let _workers = start_workers(&hub, notified_only_options("n1"));
    let all = started_runs(&mut stage, 13).await;
    assert_eq!(all, counts(&[("person-a", 12), ("person-b", 1)]));
    let third = "person-c";
    let task = hub.create_task(&alice(), task_of(third)).await.unwrap();
    groups.push(WorkOwner::new(&task, Some(third)).group);
    assert_eq!(started_runs(&mut stage, 1).await, counts(&[(third, 1)]));
    assert_eq!(groups, [3, 15, 2], "they are in different groups");
}

/// Polling for work that must not start yet would cost the store as much as work.
#[tokio::test]
async fn workers_do_not_poll_while_owner_is_at_share() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = CountingStore::new(store.unwrap());
    let mut stage = AgentScript::new("demo", 4);
    let mut agents = Registry::default();
    agents.add(stage.agent.clone());
    let hub = Hub::new(
        store.clone(),
        Arc::new(SystemClock),
        Arc::new(RandomIds),
        agents,
        Limits::default(),
    );
    let _workers = start_workers(&hub, notified_only_options("n1"));
    for _ in 0..10 {
        create(&hub, &alice(), "hang", true).await;
    }
    assert_eq!(started_runs(&mut stage, 3).await, counts(&[("hang", 3)]));
    store.take_calls();
    for number in 0..20 {
        let text = format!("bob {number}");
        create(&hub, &bob(), &text, true).await;
        assert_eq!(started_runs(&mut stage, 1).await, counts(&[(&text, 1)]));
        stage.gate.add_permits(1);
        while !matches!(stage.next_action().await, AgentAction::Finished(_)) {}
    }
    let calls = store.take_calls();
    let claims = calls
        .lines()
        .find_map(|line| line.strip_prefix("claim_work: "));
    let claims: usize = claims.map_or(0, |looks| looks.parse().unwrap());
    assert!(claims <= 60, "{calls}");
}
