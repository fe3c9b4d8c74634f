//! Direct dispatch: tasks that start with the commit that creates them, and their cost in store calls.

use super::counting_store::CountingStore;
use super::{
    AgentAction, AgentScript, WorkersFixture, alice, bob, quick_options, start_workers,
    wait_until_ended,
};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{WorkerOptions, Workers};
use interzone_hub::ports::{Commit, Op};
use interzone_hub::{
    EventBody, Hub, IdSource, IdempotencyKey, Limits, NewTask, RandomIds, Registry, Route, Subject,
    SystemClock, Task, WorkOwner,
};
use interzone_protocol::vocab::{AgentId, ContextId, Message, Priority, TaskId, TaskState};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

fn direct_task(text: &str) -> NewTask {
    NewTask {
        start_now: true,
        ..NewTask::new(Message::user_text(text))
    }
}

/// Polls so rarely that work is found only through change notifications.
fn notified_only_options(node: &str) -> WorkerOptions {
    WorkerOptions {
        poll_interval: Duration::from_secs(3_600),
        working_delay: Duration::from_secs(3_600),
        ..quick_options(node)
    }
}

async fn event_names(hub: &Hub, id: &TaskId) -> Vec<&'static str> {
    let subject = Subject::Task(id.clone());
    let events = hub.store().events(&subject, 0, 100).await.unwrap();
    events.iter().map(|event| event.body.name()).collect()
}

/// Store calls from creation to completion of one task.
#[tokio::test]
async fn direct_echo_is_two_commits_and_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = CountingStore::new(store.unwrap());
    let mut agents = Registry::default();
    agents.add(Arc::new(DemoAgent::new(AgentId::new("demo").unwrap(), 4)));
    let hub = Hub::new(
        store.clone(),
        Arc::new(SystemClock),
        Arc::new(RandomIds),
        agents,
        Limits::default(),
    );
    let workers = start_workers(&hub, notified_only_options("n1"));
    // Each worker has polled once.
    while !(store.was_called("claim_work") && store.was_called("put_record")) {
        tokio::task::yield_now().await;
    }
    store.take_calls();

    let id = hub.new_task_id().unwrap();
    let mut watch = hub.watch_from_creation(id.clone());
    let new = NewTask {
        id: Some(id.clone()),
        ..direct_task("echo hello")
    };
    hub.create_task(&alice(), new).await.unwrap();
    while watch.next().await.unwrap().is_some() {}
    assert_eq!(store.take_calls(), "commit: 1\ncommit_and_claim: 1");
    let expected = ["created", "state", "message", "state"];
    assert_eq!(event_names(&hub, &id).await, expected);
    assert_eq!(hub.store().work_depth(hub.now()).await.unwrap(), (0, 0));
    workers.join(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn long_run_reports_working_state() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 1);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let _workers = start_workers(&hub, quick_options("n1"));
    let task = hub
        .create_task(&alice(), direct_task("work"))
        .await
        .unwrap();
    assert!(matches!(
        stage.next_action().await,
        AgentAction::Started(..)
    ));
    let mut watch = hub
        .watch(&alice(), Subject::Task(task.id.clone()), 1)
        .await
        .unwrap();
    let item = watch.next().await.unwrap().unwrap();
    let interzone_hub::WatchItem::Event(event) = item else {
        panic!("{item:?}")
    };
    assert!(matches!(
        event.body,
        EventBody::State {
            to: TaskState::Working,
            ..
        }
    ));
    stage.gate.add_permits(1);
    let (task, _) = wait_until_ended(&hub, &task.id).await;
    assert_eq!(task.state, TaskState::Completed);
}

/// Queued tasks run before newly created ones, by priority, and the concurrency limit holds.
#[tokio::test]
async fn queued_tasks_run_first_by_priority() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 1);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let low = NewTask {
        priority: Priority::Low,
        ..NewTask::new(Message::user_text("low"))
    };
    let _workers = start_workers(&hub, notified_only_options("n1"));
    hub.create_task(&alice(), direct_task("first"))
        .await
        .unwrap();
    assert!(matches!(
        stage.next_action().await,
        AgentAction::Started(..)
    ));
    hub.create_task(&alice(), low).await.unwrap();
    let last = hub
        .create_task(&alice(), direct_task("second"))
        .await
        .unwrap();
    assert!(stage.has_no_action(), "there is one slot");
    let mut done = Vec::new();
    stage.gate.add_permits(3);
    while done.len() < 3 {
        if let AgentAction::Finished(text) = stage.next_action().await {
            done.push(text);
        }
    }
    assert_eq!(done, ["first", "second", "low"]);
    let (task, _) = wait_until_ended(&hub, &last.id).await;
    assert_eq!(task.state, TaskState::Completed);
}

/// A caller that disconnects while its task is created leaves a task that is completed nevertheless.
#[tokio::test]
async fn dropped_create_call_still_completes_task() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 4);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let _workers = start_workers(&hub, notified_only_options("n1"));
    let id = hub.new_task_id().unwrap();
    let new = NewTask {
        id: Some(id.clone()),
        ..direct_task("work")
    };
    {
        let caller = alice();
        let creating = hub.create_task(&caller, new);
        tokio::pin!(creating);
        // Polls it as far as it gets without waiting.
        assert!(futures_util::poll!(creating.as_mut()).is_pending());
    }
    assert!(matches!(
        stage.next_action().await,
        AgentAction::Started(..)
    ));
    stage.gate.add_permits(1);
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn task_canceled_right_after_creation_stops() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 1);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let _workers = start_workers(&hub, notified_only_options("n1"));
    let task = hub
        .create_task(&alice(), direct_task("wait"))
        .await
        .unwrap();
    assert!(matches!(
        stage.next_action().await,
        AgentAction::Started(..)
    ));
    hub.cancel(&alice(), &task.id, None).await.unwrap();
    assert!(matches!(stage.next_action().await, AgentAction::Stopped(_)));
    let expected = ["created", "state"];
    assert_eq!(event_names(&hub, &task.id).await, expected);
}

/// Hub on a store whose `claim_work` can be delayed, with workers that have polled once.
struct HeldClaimsFixture {
    hub: Hub,
    store: Arc<CountingStore>,
    workers: Workers,
    _folder: tempfile::TempDir,
}

impl HeldClaimsFixture {
    async fn new(stages: &[&AgentScript], options: WorkerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        let store = CountingStore::new(store.unwrap());
        let mut agents = Registry::default();
        for stage in stages {
            agents.add(stage.agent.clone());
        }
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let workers = start_workers(&hub, options);
        store.wait_for_call("claim_work").await;
        Self {
            hub,
            store,
            workers,
            _folder: folder,
        }
    }

    async fn create(&self, new: NewTask) {
        self.hub.create_task(&alice(), new).await.unwrap();
    }

    /// Makes the workers poll, by committing work for an agent they do not have.
    async fn trigger_poll(&self) {
        let now = self.hub.now();
        let id = RandomIds.next(now);
        let agent = AgentId::new("elsewhere").unwrap();
        let task = Task {
            id: TaskId::new(&id).unwrap(),
            context_id: ContextId::new(&id).unwrap(),
            owner: alice().principal,
            agent: agent.clone(),
            state: TaskState::Submitted,
            priority: Priority::Normal,
            metadata: None,
            status_message: None,
            created_at: now,
            status_at: now,
            updated_at: now,
            finished_at: None,
            revision: 1,
            seq: 0,
            generation: 0,
            is_direct: false,
            message_count: 0,
            artifact_count: 0,
            push_count: 0,
        };
        let queue = Op::EnqueueWork {
            task_id: task.id.clone(),
            agent,
            owner: WorkOwner::new(&task, None),
            priority: Priority::Normal,
            due_at: now,
        };
        let ops = vec![Op::CreateTask(Arc::new(task)), queue];
        let commit = Commit {
            id: RandomIds.next(now),
            at: now,
            fence: None,
            epoch: None,
            ops,
        };
        self.hub.store().commit(commit).await.unwrap();
    }

    async fn wait_for_running(&self, count: usize) {
        let running = async {
            while self.workers.running() != count {
                tokio::task::yield_now().await;
            }
        };
        let running = tokio::time::timeout(Duration::from_secs(20), running).await;
        assert!(running.is_ok(), "{} run", self.workers.running());
    }
}

fn queued_task(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn assigned(agent: &str, new: NewTask) -> NewTask {
    let route = Route {
        assign_to: Some(agent.to_owned()),
        ..Route::default()
    };
    NewTask { route, ..new }
}

/// Two tasks wait and one slot is free; another slot is freed while the first task is being claimed.
#[tokio::test]
async fn slot_freed_during_claim_is_used() {
    let mut stage = AgentScript::new("demo", 2);
    let held = HeldClaimsFixture::new(&[&stage], notified_only_options("n1")).await;
    held.create(direct_task("first")).await;
    stage.expect_started("first", 1).await;
    let claim_permits = held.store.hold_claims();
    held.trigger_poll().await;
    held.store.wait_for_call("held_claim").await;
    held.create(queued_task("one")).await;
    held.create(queued_task("two")).await;
    // Both have notified the workers, for one poll.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    claim_permits.add_permits(1);
    held.store.wait_for_call("held_claim").await;
    stage.gate.add_permits(1);
    assert_eq!(
        stage.next_action().await,
        AgentAction::Finished("first".to_owned())
    );
    held.wait_for_running(0).await;
    claim_permits.add_permits(100);
    // Both run concurrently, so either may report its start first.
    let both = [stage.next_action().await, stage.next_action().await];
    for text in ["one", "two"] {
        assert!(
            both.contains(&AgentAction::Started(text.to_owned(), 1)),
            "{both:?}"
        );
    }
}

/// A queued task that lost its slot to a newly created one waits only for its own agent, and is released at
/// shutdown.
#[tokio::test]
async fn task_waiting_for_slot_blocks_no_other_agent() {
    let (mut busy, mut other) = (AgentScript::new("busy", 1), AgentScript::new("other", 1));
    let options = WorkerOptions {
        runs: 2,
        lease: Duration::from_secs(3_600),
        ..notified_only_options("n1")
    };
    let held = HeldClaimsFixture::new(&[&busy, &other], options).await;
    let claim_permits = held.store.hold_claims();
    held.create(assigned("busy", queued_task("waits"))).await;
    held.store.wait_for_call("held_claim").await;
    // Of another owner: an owner at its share releases the task at once.
    let first = assigned("busy", direct_task("first"));
    held.hub.create_task(&bob(), first).await.unwrap();
    busy.expect_started("first", 1).await;
    claim_permits.add_permits(100);
    // It has found no free slot.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    held.create(assigned("other", direct_task("concurrent")))
        .await;
    other.expect_started("concurrent", 1).await;
    assert!(busy.has_no_action(), "there is one slot");

    let HeldClaimsFixture {
        hub,
        store,
        workers,
        _folder,
    } = held;
    store.take_calls();
    let shutdown = tokio::spawn(workers.join(Duration::from_secs(60)));
    store.wait_for_call("release_work").await;
    busy.gate.add_permits(9);
    other.gate.add_permits(9);
    shutdown.await.unwrap();
    assert_eq!(
        busy.next_action().await,
        AgentAction::Finished("first".to_owned())
    );
    assert_eq!(
        other.next_action().await,
        AgentAction::Finished("concurrent".to_owned())
    );
    assert!(busy.has_no_action(), "no new run is started");
    assert_eq!(hub.store().work_depth(hub.now()).await.unwrap(), (1, 0));
    // It was not started, so no attempt is used up.
    let _next = start_workers(&hub, notified_only_options("n2"));
    busy.expect_started("waits", 1).await;
}

/// An agent with continuous direct tasks does not starve queued tasks of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_tasks_do_not_starve_queued_tasks() {
    let (busy, mut other) = (AgentScript::new("asked", 8), AgentScript::new("other", 8));
    let options = WorkerOptions {
        runs: 1,
        ..notified_only_options("n1")
    };
    let held = HeldClaimsFixture::new(&[&busy, &other], options).await;
    busy.gate.add_permits(Semaphore::MAX_PERMITS >> 1);
    let creators: JoinSet<()> = (0..3)
        .map(|_| {
            let hub = held.hub.clone();
            async move {
                loop {
                    let new = assigned("asked", direct_task("again"));
                    let task = hub.create_task(&alice(), new).await.unwrap();
                    wait_until_ended(&hub, &task.id).await;
                }
            }
        })
        .collect();
    for number in 0..20 {
        let text = format!("patient {number}");
        held.create(assigned("other", queued_task(&text))).await;
        other.expect_started(&text, 1).await;
        other.gate.add_permits(1);
        assert_eq!(other.next_action().await, AgentAction::Finished(text));
    }
    drop(creators);
}

#[tokio::test]
async fn failed_run_frees_its_slot() {
    let mut stage = AgentScript::new("demo", 1);
    let held = HeldClaimsFixture::new(&[&stage], notified_only_options("n1")).await;
    for text in ["break", "panic", "break"] {
        held.create(direct_task(text)).await;
        stage.expect_started(text, 1).await;
        if text == "panic" {
            assert_eq!(
                stage.next_action().await,
                AgentAction::Dropped(text.to_owned())
            );
        }
        held.wait_for_running(0).await;
    }
    held.create(direct_task("work")).await;
    stage.expect_started("work", 1).await;
}

/// Two concurrent calls with one key: one task is created and run, the slot of the other call is freed.
#[tokio::test]
async fn rejected_direct_create_frees_its_slot() {
    let mut stage = AgentScript::new("demo", 4);
    let held = HeldClaimsFixture::new(&[&stage], notified_only_options("n1")).await;
    let idempotency_key = IdempotencyKey::new("key", b"body");
    let same = |text| NewTask {
        idempotency_key: Some(idempotency_key.clone()),
        ..direct_task(text)
    };
    let (alice, hub) = (alice(), &held.hub);
    let (one, two) = tokio::join!(
        hub.create_task(&alice, same("work")),
        hub.create_task(&alice, same("work"))
    );
    assert_eq!(one.unwrap().id, two.unwrap().id);
    stage.expect_started("work", 1).await;
    held.wait_for_running(1).await;
    assert!(stage.has_no_action());
}

/// The node shuts down during the commit of a new task: the task is created, and run or released.
#[tokio::test]
async fn direct_create_during_shutdown_is_not_lost() {
    let mut stage = AgentScript::new("demo", 4);
    let held = HeldClaimsFixture::new(&[&stage], notified_only_options("n1")).await;
    let (hub, caller) = (held.hub.clone(), alice());
    let id = hub.new_task_id().unwrap();
    let new = NewTask {
        id: Some(id.clone()),
        ..direct_task("work")
    };
    let creating = hub.create_task(&caller, new);
    tokio::pin!(creating);
    assert!(futures_util::poll!(creating.as_mut()).is_pending());
    let shutdown = tokio::spawn(held.workers.join(Duration::from_secs(60)));
    let (made, ()) = tokio::join!(creating, stage.expect_started("work", 1));
    assert_eq!(made.unwrap().id, id);
    stage.gate.add_permits(1);
    shutdown.await.unwrap();
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    // The next task waits for another node.
    hub.create_task(&caller, direct_task("later"))
        .await
        .unwrap();
    assert_eq!(
        stage.next_action().await,
        AgentAction::Finished("work".to_owned())
    );
    assert!(stage.has_no_action());
}
