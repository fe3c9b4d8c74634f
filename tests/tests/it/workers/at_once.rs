//! Tasks that somebody waits for: begun with the commit that makes them, and what one of them costs.

use super::counting::Counting;
use super::{Did, Place, Stage, alice, bob, ended, quick, start};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{WorkerOptions, Workers};
use interzone_hub::ports::{Commit, Op};
use interzone_hub::{
    EventBody, Hub, IdSource, Limits, NewTask, Once, RandomIds, Registry, Route, Subject,
    SystemClock, Task, WorkOwner,
};
use interzone_protocol::vocab::{AgentId, ContextId, Message, Priority, TaskId, TaskState};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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

async fn names(hub: &Hub, id: &TaskId) -> Vec<&'static str> {
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

/// A hub on a store whose looks for work can be held back, with workers that have looked around.
struct Held {
    hub: Hub,
    store: Arc<Counting>,
    workers: Workers,
    _folder: tempfile::TempDir,
}

impl Held {
    async fn new(stages: &[&Stage], options: WorkerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        let store = Counting::new(store.unwrap());
        let mut agents = Registry::default();
        for stage in stages {
            agents.add(stage.actor.clone());
        }
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let workers = start(&hub, options);
        store.is_asked_for("claim_work").await;
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

    /// Has the workers look for what they cannot find.
    async fn ring(&self) {
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
            status: None,
            created_at: now,
            updated_at: now,
            finished_at: None,
            revision: 1,
            seq: 0,
            messages: 0,
            artifacts: 0,
            pushes: 0,
        };
        let queue = Op::QueueWork {
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

    async fn running(&self, count: usize) {
        let running = async {
            while self.workers.running() != count {
                tokio::task::yield_now().await;
            }
        };
        let running = tokio::time::timeout(Duration::from_secs(20), running).await;
        assert!(running.is_ok(), "{} run", self.workers.running());
    }
}

fn plain(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn of(agent: &str, new: NewTask) -> NewTask {
    let route = Route {
        assign_to: Some(agent.to_owned()),
        ..Route::default()
    };
    NewTask { route, ..new }
}

/// Two wait, one seat is free, and another is left while the first of them is being claimed.
#[tokio::test]
async fn a_seat_that_is_left_during_a_look_is_not_overlooked() {
    let mut stage = Stage::new("demo", 2);
    let held = Held::new(&[&stage], seldom("n1")).await;
    held.create(at_once("first")).await;
    stage.begun("first", 1).await;
    let looks = held.store.hold_looks();
    held.ring().await;
    held.store.is_asked_for("held_look").await;
    held.create(plain("one")).await;
    held.create(plain("two")).await;
    // Both have rung, for one look.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    looks.add_permits(1);
    held.store.is_asked_for("held_look").await;
    stage.gate.add_permits(1);
    assert_eq!(stage.next().await, Did::Finished("first".to_owned()));
    held.running(0).await;
    looks.add_permits(100);
    // Both run at once, so either may say first that it has begun.
    let both = [stage.next().await, stage.next().await];
    for text in ["one", "two"] {
        assert!(both.contains(&Did::Begun(text.to_owned(), 1)), "{both:?}");
    }
}

/// What was found in the queue and has lost its seat to what was made meanwhile waits for its own agent
/// alone, and goes back when the node leaves.
#[tokio::test]
async fn who_waits_for_a_seat_is_in_nobodys_way() {
    let (mut busy, mut other) = (Stage::new("busy", 1), Stage::new("other", 1));
    let options = WorkerOptions {
        runs: 2,
        lease: Duration::from_secs(3_600),
        ..seldom("n1")
    };
    let held = Held::new(&[&busy, &other], options).await;
    let looks = held.store.hold_looks();
    held.create(of("busy", plain("waits"))).await;
    held.store.is_asked_for("held_look").await;
    // Another owner's, for an owner that holds its share gives the task back at once.
    let first = of("busy", at_once("first"));
    held.hub.create_task(&bob(), first).await.unwrap();
    busy.begun("first", 1).await;
    looks.add_permits(100);
    // It has found that there is no seat.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    held.create(of("other", at_once("beside"))).await;
    other.begun("beside", 1).await;
    assert!(busy.nothing_more(), "there is one seat");

    let Held {
        hub,
        store,
        workers,
        _folder,
    } = held;
    store.asked();
    let leaving = tokio::spawn(workers.join(Duration::from_secs(60)));
    store.is_asked_for("release_work").await;
    busy.gate.add_permits(9);
    other.gate.add_permits(9);
    leaving.await.unwrap();
    assert_eq!(busy.next().await, Did::Finished("first".to_owned()));
    assert_eq!(other.next().await, Did::Finished("beside".to_owned()));
    assert!(busy.nothing_more(), "nothing new is begun");
    assert_eq!(hub.store().work_depth(hub.now()).await.unwrap(), (1, 0));
    // It was not begun, so nothing is used up.
    let _next = start(&hub, seldom("n2"));
    busy.begun("waits", 1).await;
}

/// Whoever is asked without end leaves others their turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_node_has_places_for_what_waits() {
    let (asked, mut other) = (Stage::new("asked", 8), Stage::new("other", 8));
    let options = WorkerOptions {
        runs: 1,
        ..seldom("n1")
    };
    let held = Held::new(&[&asked, &other], options).await;
    asked.gate.add_permits(Semaphore::MAX_PERMITS >> 1);
    let askers: JoinSet<()> = (0..3)
        .map(|_| {
            let hub = held.hub.clone();
            async move {
                loop {
                    let new = of("asked", at_once("again"));
                    let task = hub.create_task(&alice(), new).await.unwrap();
                    ended(&hub, &task.id).await;
                }
            }
        })
        .collect();
    for number in 0..20 {
        let text = format!("patient {number}");
        held.create(of("other", plain(&text))).await;
        other.begun(&text, 1).await;
        other.gate.add_permits(1);
        assert_eq!(other.next().await, Did::Finished(text));
    }
    drop(askers);
}

#[tokio::test]
async fn a_run_that_breaks_leaves_its_seat() {
    let mut stage = Stage::new("demo", 1);
    let held = Held::new(&[&stage], seldom("n1")).await;
    for text in ["break", "panic", "break"] {
        held.create(at_once(text)).await;
        stage.begun(text, 1).await;
        if text == "panic" {
            assert_eq!(stage.next().await, Did::Cut(text.to_owned()));
        }
        held.running(0).await;
    }
    held.create(at_once("work")).await;
    stage.begun("work", 1).await;
}

/// The same call twice at once: one is made and begun, and the seat of the other is free again.
#[tokio::test]
async fn a_birth_that_is_refused_leaves_its_seat() {
    let mut stage = Stage::new("demo", 4);
    let held = Held::new(&[&stage], seldom("n1")).await;
    let once = Once {
        key: "key".to_owned(),
        keep: Duration::from_secs(60),
    };
    let same = |text| NewTask {
        once: Some(once.clone()),
        ..at_once(text)
    };
    let (alice, hub) = (alice(), &held.hub);
    let (one, two) = tokio::join!(
        hub.create_task(&alice, same("work")),
        hub.create_task(&alice, same("work"))
    );
    assert_eq!(one.unwrap().id, two.unwrap().id);
    stage.begun("work", 1).await;
    held.running(1).await;
    assert!(stage.nothing_more());
}

/// The node leaves while a task is on its way into the store: it is made, and done or given back.
#[tokio::test]
async fn a_birth_that_has_begun_is_not_lost_when_the_node_leaves() {
    let mut stage = Stage::new("demo", 4);
    let held = Held::new(&[&stage], seldom("n1")).await;
    let (hub, caller) = (held.hub.clone(), alice());
    let id = hub.new_task_id().unwrap();
    let new = NewTask {
        id: Some(id.clone()),
        ..at_once("work")
    };
    let making = hub.create_task(&caller, new);
    tokio::pin!(making);
    assert!(futures_util::poll!(making.as_mut()).is_pending());
    let leaving = tokio::spawn(held.workers.join(Duration::from_secs(60)));
    let (made, ()) = tokio::join!(making, stage.begun("work", 1));
    assert_eq!(made.unwrap().id, id);
    stage.gate.add_permits(1);
    leaving.await.unwrap();
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    // And the next one waits for another node.
    hub.create_task(&caller, at_once("later")).await.unwrap();
    assert_eq!(stage.next().await, Did::Finished("work".to_owned()));
    assert!(stage.nothing_more());
}
