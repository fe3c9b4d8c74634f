//! Answers that an agent has at hand: written with the task that asks for them, and what that costs.

use super::counting::Counting;
use super::{NoWebhooks, alice, ended, ended_after, quick};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{WorkerMetrics, WorkerOptions, Workers};
use interzone_hub::{
    Begun, EventBody, Hub, Limits, NewTask, Once, RandomIds, Registry, Subject, SystemClock,
};
use interzone_protocol::vocab::{AgentId, Message, TaskId, TaskState};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn at_hand(text: &str) -> NewTask {
    NewTask {
        at_once: true,
        at_hand: true,
        ..NewTask::new(Message::user_text(text))
    }
}

/// How many runs were told of.
#[derive(Default)]
struct Runs(AtomicUsize);

impl WorkerMetrics for Runs {
    fn agent_run(&self, _: &str, _: &'static str, _: Duration) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A hub with the demo agent on a store that counts, and workers that have looked around.
struct Place {
    hub: Hub,
    runs: Arc<Runs>,
    store: Arc<Counting>,
    _workers: Workers,
    _folder: tempfile::TempDir,
}

impl Place {
    async fn new(seats: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        let store = Counting::new(store.unwrap());
        let mut agents = Registry::default();
        let demo = AgentId::new("demo").unwrap();
        agents.add(Arc::new(DemoAgent::new(demo, seats)));
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let options = WorkerOptions {
            look_every: Duration::from_secs(3_600),
            settle_after: Duration::from_secs(3_600),
            ..quick("n1")
        };
        let runs = Arc::new(Runs::default());
        let workers = Workers::start(
            hub.clone(),
            Arc::new(NoWebhooks),
            options,
            runs.clone(),
            CancellationToken::new(),
        );
        while !(store.was_asked_for("claim_work") && store.was_asked_for("put_record")) {
            tokio::task::yield_now().await;
        }
        store.asked();
        Self {
            hub,
            runs,
            store,
            _workers: workers,
            _folder: folder,
        }
    }

    async fn begin(&self, new: NewTask) -> Begun {
        self.hub.begin_task(&alice(), new).await.unwrap()
    }

    async fn log(&self, id: &TaskId) -> Vec<EventBody> {
        let subject = Subject::Task(id.clone());
        let events = self.hub.store().events(&subject, 0, 100).await.unwrap();
        events.into_iter().map(|event| event.body).collect()
    }
}

fn said(begun: &Begun) -> Vec<String> {
    let whole = begun.answered.as_ref().expect("an answer");
    let messages = whole.messages.iter();
    messages
        .map(|packed| packed.without_large().text())
        .collect()
}

#[tokio::test]
async fn an_echo_is_one_commit_and_no_read() {
    let place = Place::new(4).await;
    let begun = place.begin(at_hand("echo hello")).await;
    assert_eq!(place.store.asked(), "commit: 1");
    assert_eq!(said(&begun), ["echo hello", "hello"]);
    assert_eq!(begun.task.state, TaskState::Completed);
    let stored = place.hub.task(&alice(), &begun.task.id).await.unwrap();
    assert_eq!(stored, begun.task);
    let now = place.hub.now();
    assert_eq!(place.hub.store().work_depth(now).await.unwrap(), (0, 0));
}

/// Nobody who reads what is stored can tell whether a turn was taken.
#[tokio::test]
async fn what_is_stored_is_what_a_turn_would_have_stored() {
    let place = Place::new(4).await;
    for text in ["echo hello", "help", "ask Who?", "fail today", "what", ""] {
        let new = |text| match text {
            "" => NewTask {
                before: vec![Message::user_text("ask Who?"), Message::agent_text("Who?")],
                ..at_hand("me")
            },
            text => at_hand(text),
        };
        let quick = place.begin(new(text)).await;
        assert!(quick.answered.is_some(), "{text}");
        let turn = NewTask {
            at_hand: false,
            ..new(text)
        };
        let slow = place.begin(turn).await;
        assert!(slow.answered.is_none() && slow.watch.is_some());
        let (slow, _) = ended(&place.hub, &slow.task.id).await;
        let plain = |body: &EventBody| {
            let (name, said) = (body.name(), |message: &Message| message.text());
            match body {
                EventBody::State { from, to, message } => {
                    let message = message.as_ref().map(|packed| said(packed.without_large()));
                    format!("{name} {from:?} {to:?} {message:?}")
                }
                EventBody::Created { message } | EventBody::Message { message, .. } => {
                    let message = message.without_large();
                    format!("{name} {} {:?}", said(message), message.agent_id())
                }
                other => format!("{other:?}"),
            }
        };
        let logs = [place.log(&quick.task.id).await, place.log(&slow.id).await];
        let [quick_log, slow_log] = logs.map(|log| log.iter().map(plain).collect::<Vec<_>>());
        assert_eq!(quick_log, slow_log, "{text}");
        let quick = quick.task;
        assert_eq!(
            (
                quick.state,
                quick.seq,
                quick.messages,
                quick.finished_at.is_some()
            ),
            (
                slow.state,
                slow.seq,
                slow.messages,
                slow.finished_at.is_some()
            )
        );
    }
}

#[tokio::test]
async fn a_question_that_was_at_hand_is_answered_in_a_turn() {
    let place = Place::new(4).await;
    let asked = place.begin(at_hand("ask Who are you?")).await.task;
    assert_eq!(asked.state, TaskState::InputRequired);
    let answer = Message::user_text("alice");
    let hub = &place.hub;
    hub.answer(&alice(), &asked.id, answer, None).await.unwrap();
    let (task, _) = ended_after(hub, &asked.id, asked.seq).await;
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn the_same_call_twice_is_one_task_with_one_answer() {
    let place = Place::new(4).await;
    let same = || NewTask {
        once: Some(Once {
            key: "key".to_owned(),
            keep: Duration::from_secs(60),
        }),
        ..at_hand("echo once")
    };
    let (one, two) = tokio::join!(place.begin(same()), place.begin(same()));
    let three = place.begin(same()).await;
    assert_eq!(one.task, two.task);
    assert_eq!(one.task, three.task);
    let answered = [&one, &two, &three].map(|begun| begun.answered.is_some());
    assert_eq!(answered.iter().filter(|answered| **answered).count(), 1);
    assert_eq!(place.log(&one.task.id).await.len(), 4);
    assert_eq!(place.runs.0.load(Ordering::Relaxed), 1, "runs that count");
}

/// An agent that has no seat left is not asked, whatever it has at hand.
#[tokio::test]
async fn nothing_is_at_hand_without_a_seat() {
    let place = Place::new(1).await;
    let long = place.begin(at_hand("wait 500")).await;
    assert!(long.answered.is_none() && long.watch.is_some());
    let waits = place.begin(at_hand("echo hello")).await;
    assert!(waits.answered.is_none());
    assert_eq!(waits.task.state, TaskState::Submitted);
    place
        .hub
        .cancel(&alice(), &long.task.id, None)
        .await
        .unwrap();
    let (done, _) = ended(&place.hub, &waits.task.id).await;
    assert_eq!(done.state, TaskState::Completed);
    // And with one, the seat is free again at once.
    for _ in 0..3 {
        assert_eq!(said(&place.begin(at_hand("echo a")).await), ["echo a", "a"]);
    }
}
