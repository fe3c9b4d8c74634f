//! Run slots are shared between owners: one that has many long runs leaves slots to the others.

use super::counting::Counting;
use super::{Did, Place, Stage, alice, bob, quick, start};
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{
    Caller, Hub, Limits, NewTask, RandomIds, Registry, Route, SystemClock, Task, WorkOwner,
};
use interzone_protocol::vocab::{ContextId, Message, PrincipalId, Priority};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Looks so seldom that nothing is found but what was rung for.
fn seldom(node: &str) -> WorkerOptions {
    WorkerOptions {
        look_every: Duration::from_secs(3_600),
        ..quick(node)
    }
}

fn new(text: &str, at_once: bool) -> NewTask {
    NewTask {
        at_once,
        ..NewTask::new(Message::user_text(text))
    }
}

async fn create(hub: &Hub, caller: &Caller, text: &str, at_once: bool) {
    hub.create_task(caller, new(text, at_once)).await.unwrap();
}

/// How many runs begin of each text, until so many have begun.
async fn begun(stage: &mut Stage, count: usize) -> BTreeMap<String, usize> {
    let mut begun = BTreeMap::new();
    let mut all = 0;
    while all < count {
        if let Did::Begun(text, attempt) = stage.next().await {
            assert_eq!(attempt, 1, "{text}");
            *begun.entry(text).or_default() += 1;
            all += 1;
        }
    }
    begun
}

fn counts(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
    of.iter()
        .map(|(text, n)| ((*text).to_owned(), *n))
        .collect()
}

#[tokio::test]
async fn owner_with_a_long_queue_leaves_a_slot_to_others() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 4);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    for _ in 0..40 {
        create(&hub, &alice(), "alice", false).await;
    }
    let _workers = start(&hub, seldom("n1"));
    assert_eq!(begun(&mut stage, 3).await, counts(&[("alice", 3)]));
    create(&hub, &bob(), "bob", false).await;
    assert_eq!(begun(&mut stage, 1).await, counts(&[("bob", 1)]));
    assert!(stage.nothing_more(), "there are four slots");
    // A run that ends makes room for the next, of its owner or of another: one slot is left each time.
    stage.gate.add_permits(4);
    let next = begun(&mut stage, 3).await;
    assert_eq!(next, counts(&[("alice", 3)]));
}

#[tokio::test]
async fn urgent_tasks_of_an_owner_at_its_share_wait_for_its_own_runs() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 4);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let _workers = start(&hub, seldom("n1"));
    for _ in 0..40 {
        let urgent = NewTask {
            priority: Priority::Urgent,
            ..new("urgent", false)
        };
        hub.create_task(&alice(), urgent).await.unwrap();
    }
    assert_eq!(begun(&mut stage, 3).await, counts(&[("urgent", 3)]));
    let low = NewTask {
        priority: Priority::Low,
        ..new("low", false)
    };
    hub.create_task(&bob(), low).await.unwrap();
    assert_eq!(begun(&mut stage, 1).await, counts(&[("low", 1)]));
}

#[tokio::test]
async fn runs_that_begin_with_their_task_count_against_the_share() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 4);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let workers = start(&hub, seldom("n1"));
    for _ in 0..10 {
        create(&hub, &alice(), "alice", true).await;
    }
    assert_eq!(begun(&mut stage, 3).await, counts(&[("alice", 3)]));
    create(&hub, &bob(), "bob", true).await;
    assert_eq!(begun(&mut stage, 1).await, counts(&[("bob", 1)]));
    assert_eq!(workers.running(), 4);
    // What waited for a slot gets the ones that are left.
    stage.gate.add_permits(100);
    assert_eq!(begun(&mut stage, 7).await, counts(&[("alice", 7)]));
}

fn of(agent: &str, text: &str) -> NewTask {
    let route = Route {
        assign_to: Some(agent.to_owned()),
        ..Route::default()
    };
    NewTask {
        route,
        ..new(text, false)
    }
}

/// Of eight runs of the node an agent has seven, and a caller six of those and seven of all.
#[tokio::test]
async fn owner_leaves_slots_of_the_node_to_others() {
    let place = Place::new().await;
    let (mut one, mut two) = (Stage::new("one", 16), Stage::new("two", 16));
    let hub = place.live_hub(vec![one.actor.clone(), two.actor.clone()]);
    for agent in ["one", "two"].repeat(20) {
        hub.create_task(&alice(), of(agent, "alice")).await.unwrap();
    }
    let options = WorkerOptions {
        runs: 8,
        ..seldom("n1")
    };
    let _workers = start(&hub, options);
    let mut all = 0;
    while all < 7 {
        let did = tokio::select! { did = one.next() => did, did = two.next() => did };
        assert_eq!(did, Did::Begun("alice".to_owned(), 1));
        all += 1;
    }
    hub.create_task(&bob(), of("one", "bob")).await.unwrap();
    assert_eq!(begun(&mut one, 1).await, counts(&[("bob", 1)]));
}

#[tokio::test]
async fn agent_leaves_slots_of_the_node_to_other_agents() {
    let place = Place::new().await;
    let (mut one, mut two) = (Stage::new("one", 16), Stage::new("two", 16));
    let hub = place.live_hub(vec![one.actor.clone(), two.actor.clone()]);
    for owner in [alice(), bob()].iter().cycle().take(40) {
        hub.create_task(owner, of("one", "long")).await.unwrap();
    }
    let options = WorkerOptions {
        runs: 8,
        ..seldom("n1")
    };
    let _workers = start(&hub, options);
    assert_eq!(begun(&mut one, 7).await, counts(&[("long", 7)]));
    hub.create_task(&carol(), of("two", "carol")).await.unwrap();
    assert_eq!(begun(&mut two, 1).await, counts(&[("carol", 1)]));
    assert!(one.nothing_more());
}

fn carol() -> Caller {
    Caller::new(PrincipalId::new("carol").unwrap())
}

/// In this test the conversation is named after the person.
fn person(task: &Task) -> Option<String> {
    Some(task.context_id.to_string())
}

#[tokio::test]
async fn people_of_one_principal_leave_slots_to_each_other() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 16);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    hub.set_person_reader(person);
    let by = |name: &str| NewTask {
        context_id: Some(ContextId::new(name).unwrap()),
        ..new(name, false)
    };
    let mut groups = Vec::new();
    for name in ["person-a", "person-b"] {
        let task = hub.create_task(&alice(), by(name)).await.unwrap();
        groups.push(WorkOwner::new(&task, Some(name)).group);
    }
    assert_ne!(groups[0], groups[1], "they are in different groups");
    for _ in 0..30 {
        hub.create_task(&alice(), by("person-a")).await.unwrap();
    }
    let _workers = start(&hub, seldom("n1"));
    let all = begun(&mut stage, 14).await;
    assert_eq!(all, counts(&[("person-a", 13), ("person-b", 1)]));
}

/// Looks for work that must not be begun yet would cost the store as much as work.
#[tokio::test]
async fn workers_do_not_look_again_and_again_while_an_owner_is_at_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = Counting::new(store.unwrap());
    let mut stage = Stage::new("demo", 4);
    let mut agents = Registry::default();
    agents.add(stage.actor.clone());
    let hub = Hub::new(
        store.clone(),
        Arc::new(SystemClock),
        Arc::new(RandomIds),
        agents,
        Limits::default(),
    );
    let _workers = start(&hub, seldom("n1"));
    for _ in 0..10 {
        create(&hub, &alice(), "hang", true).await;
    }
    assert_eq!(begun(&mut stage, 3).await, counts(&[("hang", 3)]));
    store.asked();
    for number in 0..20 {
        let text = format!("bob {number}");
        create(&hub, &bob(), &text, true).await;
        assert_eq!(begun(&mut stage, 1).await, counts(&[(&text, 1)]));
        stage.gate.add_permits(1);
        while !matches!(stage.next().await, Did::Finished(_)) {}
    }
    let asked = store.asked();
    let looks = asked
        .lines()
        .find_map(|line| line.strip_prefix("claim_work: "));
    let looks: usize = looks.map_or(0, |looks| looks.parse().unwrap());
    assert!(looks <= 60, "{asked}");
}
