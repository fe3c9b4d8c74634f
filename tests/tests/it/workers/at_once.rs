//! Tasks that somebody waits for: begun with the commit that makes them, and what one of them costs.

use super::counting::Counting;
use super::{Did, Place, Stage, alice, ended, quick, start};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{EventBody, Hub, Limits, NewTask, RandomIds, Registry, Subject, SystemClock};
use interzone_protocol::vocab::{AgentId, Message, Priority, TaskState};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::time::Duration;

fn at_once(text: &str) -> NewTask {
    NewTask {
        at_once: true,
        ..NewTask::new(Message::user_text(text))
    }
}

/// Looks so seldom that nothing is found but what was rung for.
fn seldom(node: &str) -> WorkerOptions {
    WorkerOptions {
        look_every: Duration::from_secs(3_600),
        settle_after: Duration::from_secs(3_600),
        ..quick(node)
    }
}

async fn names(hub: &Hub, id: &interzone_protocol::vocab::TaskId) -> Vec<&'static str> {
    let subject = Subject::Task(id.clone());
    let events = hub.store().events(&subject, 0, 100).await.unwrap();
    events.iter().map(|event| event.body.name()).collect()
}

/// Everything that it takes to be asked, to answer and to be done with it.
#[tokio::test]
async fn one_echo_is_two_commits_and_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = Counting::new(store.unwrap());
    let mut agents = Registry::default();
    agents.add(Arc::new(DemoAgent::new(AgentId::new("demo").unwrap(), 4)));
    let hub = Hub::new(
        store.clone(),
        Arc::new(SystemClock),
        Arc::new(RandomIds),
        agents,
        Limits::default(),
    );
    let workers = start(&hub, seldom("n1"));
    // The workers have looked around, each once.
    while !(store.was_asked_for("claim_work") && store.was_asked_for("put_record")) {
        tokio::task::yield_now().await;
    }
    store.asked();

    let id = hub.new_task_id().unwrap();
    let mut watch = hub.watch_new(id.clone());
    let new = NewTask {
        id: Some(id.clone()),
        ..at_once("echo hello")
    };
    hub.create_task(&alice(), new).await.unwrap();
    while watch.next().await.unwrap().is_some() {}
    assert_eq!(store.asked(), "commit: 1\ncommit_and_claim: 1");
    let expected = ["created", "state", "message", "state"];
    assert_eq!(names(&hub, &id).await, expected);
    assert_eq!(hub.store().work_depth(hub.now()).await.unwrap(), (0, 0));
    workers.join(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn who_works_for_long_says_so_soon() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 1);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let _workers = start(&hub, quick("n1"));
    let task = hub.create_task(&alice(), at_once("work")).await.unwrap();
    assert!(matches!(stage.next().await, Did::Begun(..)));
    let mut watch = hub
        .watch(&alice(), Subject::Task(task.id.clone()), 1)
        .await
        .unwrap();
    let seen = watch.next().await.unwrap().unwrap();
    let interzone_hub::Seen::Event(event) = seen else {
        panic!("{seen:?}")
    };
    assert!(matches!(
        event.body,
        EventBody::State {
            to: TaskState::Working,
            ..
        }
    ));
    stage.gate.add_permits(1);
    let (task, _) = ended(&hub, &task.id).await;
    assert_eq!(task.state, TaskState::Completed);
}

/// What waits comes before what is made now, as its priority says; and seats are never more than there are.
#[tokio::test]
async fn what_waits_comes_first() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 1);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let low = NewTask {
        priority: Priority::Low,
        ..NewTask::new(Message::user_text("low"))
    };
    let _workers = start(&hub, seldom("n1"));
    hub.create_task(&alice(), at_once("first")).await.unwrap();
    assert!(matches!(stage.next().await, Did::Begun(..)));
    hub.create_task(&alice(), low).await.unwrap();
    let last = hub.create_task(&alice(), at_once("second")).await.unwrap();
    assert!(stage.nothing_more(), "there is one seat");
    let mut done = Vec::new();
    stage.gate.add_permits(3);
    while done.len() < 3 {
        if let Did::Finished(text) = stage.next().await {
            done.push(text);
        }
    }
    assert_eq!(done, ["first", "second", "low"]);
    let (task, _) = ended(&hub, &last.id).await;
    assert_eq!(task.state, TaskState::Completed);
}

/// A caller who goes while its task is being made leaves a task that is done all the same.
#[tokio::test]
async fn who_goes_leaves_nothing_half_begun() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 4);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let _workers = start(&hub, seldom("n1"));
    let id = hub.new_task_id().unwrap();
    let new = NewTask {
        id: Some(id.clone()),
        ..at_once("work")
    };
    {
        let caller = alice();
        let making = hub.create_task(&caller, new);
        tokio::pin!(making);
        // As far as it comes without waiting.
        assert!(futures_util::poll!(making.as_mut()).is_pending());
    }
    assert!(matches!(stage.next().await, Did::Begun(..)));
    stage.gate.add_permits(1);
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn a_task_that_is_called_off_in_its_first_moment_stops() {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 1);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let _workers = start(&hub, seldom("n1"));
    let task = hub.create_task(&alice(), at_once("wait")).await.unwrap();
    assert!(matches!(stage.next().await, Did::Begun(..)));
    hub.cancel(&alice(), &task.id, None).await.unwrap();
    assert!(matches!(stage.next().await, Did::Stopped(_)));
    let expected = ["created", "state"];
    assert_eq!(names(&hub, &task.id).await, expected);
}
