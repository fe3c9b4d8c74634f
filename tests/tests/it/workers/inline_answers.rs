//! Inline answers: committed together with the task that asks for them, and their cost in store calls.

use super::counting_store::CountingStore;
use super::{
    RejectingDeliveryHandler, alice, quick_options, wait_until_ended, wait_until_ended_after,
};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{WorkerMetrics, WorkerOptions, Workers};
use interzone_hub::{
    EventBody, Hub, IdempotencyKey, Limits, NewTask, RandomIds, Registry, StartedTask, Subject,
    SystemClock,
};
use interzone_protocol::vocab::{AgentId, Message, TaskId, TaskState};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn inline_task(text: &str) -> NewTask {
    NewTask {
        start_now: true,
        allow_inline_answer: true,
        ..NewTask::new(Message::user_text(text))
    }
}

/// Counts the runs reported to the metrics.
#[derive(Default)]
struct RunCounter(AtomicUsize);

impl WorkerMetrics for RunCounter {
    fn agent_run(&self, _: &str, _: &'static str, _: Duration) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Hub with the demo agent on a counting store, and workers that have polled once.
struct InlineFixture {
    hub: Hub,
    runs: Arc<RunCounter>,
    store: Arc<CountingStore>,
    _workers: Workers,
    _folder: tempfile::TempDir,
}

impl InlineFixture {
    async fn new(concurrency: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        let store = CountingStore::new(store.unwrap());
        let mut agents = Registry::default();
        let demo = AgentId::new("demo").unwrap();
        agents.add(Arc::new(DemoAgent::new(demo, concurrency)));
        let hub = Hub::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            agents,
            Limits::default(),
        );
        let options = WorkerOptions {
            poll_interval: Duration::from_secs(3_600),
            working_delay: Duration::from_secs(3_600),
            ..quick_options("n1")
        };
        let runs = Arc::new(RunCounter::default());
        let workers = Workers::start(
            hub.clone(),
            Arc::new(RejectingDeliveryHandler),
            options,
            runs.clone(),
            CancellationToken::new(),
        );
        while !(store.was_called("claim_work") && store.was_called("put_record")) {
            tokio::task::yield_now().await;
        }
        store.take_calls();
        Self {
            hub,
            runs,
            store,
            _workers: workers,
            _folder: folder,
        }
    }

    async fn create_and_start(&self, new: NewTask) -> StartedTask {
        self.hub.create_and_start(&alice(), new).await.unwrap()
    }

    async fn event_log(&self, id: &TaskId) -> Vec<EventBody> {
        let subject = Subject::Task(id.clone());
        let events = self.hub.store().events(&subject, 0, 100).await.unwrap();
        events.into_iter().map(|event| event.body).collect()
    }
}

fn texts(started: &StartedTask) -> Vec<String> {
    let snapshot = started.answered.as_ref().expect("an answer");
    let messages = snapshot.messages.iter();
    messages.map(|packed| packed.inline().text()).collect()
}

#[tokio::test]
async fn inline_echo_is_one_commit_and_no_read() {
    let place = InlineFixture::new(4).await;
    let started = place.create_and_start(inline_task("echo hello")).await;
    assert_eq!(place.store.take_calls(), "commit: 1");
    assert_eq!(texts(&started), ["echo hello", "hello"]);
    assert_eq!(started.task.state, TaskState::Completed);
    let stored = place.hub.task(&alice(), &started.task.id).await.unwrap();
    assert_eq!(stored, started.task);
    let now = place.hub.now();
    assert_eq!(place.hub.store().work_depth(now).await.unwrap(), (0, 0));
}

/// The stored events do not reveal whether the answer came from a turn.
#[tokio::test]
async fn inline_answer_stores_the_same_events_as_a_turn() {
    let place = InlineFixture::new(4).await;
    for text in ["echo hello", "help", "ask Who?", "fail today", "what", ""] {
        let new = |text| match text {
            "" => NewTask {
                history: vec![Message::user_text("ask Who?"), Message::agent_text("Who?")],
                ..inline_task("me")
            },
            text => inline_task(text),
        };
        let quick = place.create_and_start(new(text)).await;
        assert!(quick.answered.is_some(), "{text}");
        let turn = NewTask {
            allow_inline_answer: false,
            ..new(text)
        };
        let slow = place.create_and_start(turn).await;
        assert!(slow.answered.is_none() && slow.watch.is_some());
        let (slow, _) = wait_until_ended(&place.hub, &slow.task.id).await;
        let describe = |body: &EventBody| {
            let (name, text_of) = (body.name(), |message: &Message| message.text());
            match body {
                EventBody::State {
                    from, to, message, ..
                } => {
                    let message = message.as_ref().map(|packed| text_of(packed.inline()));
                    format!("{name} {from:?} {to:?} {message:?}")
                }
                EventBody::Created { message } | EventBody::Message { message, .. } => {
                    let message = message.inline();
                    format!("{name} {} {:?}", text_of(message), message.agent_id())
                }
                other => format!("{other:?}"),
            }
        };
        let logs = [
            place.event_log(&quick.task.id).await,
            place.event_log(&slow.id).await,
        ];
        let [quick_log, slow_log] = logs.map(|log| log.iter().map(describe).collect::<Vec<_>>());
        assert_eq!(quick_log, slow_log, "{text}");
        let quick = quick.task;
        assert_eq!(
            (
                quick.state,
                quick.seq,
                quick.message_count,
                quick.finished_at.is_some()
            ),
            (
                slow.state,
                slow.seq,
                slow.message_count,
                slow.finished_at.is_some()
            )
        );
    }
}

#[tokio::test]
async fn inline_question_is_answered_in_a_turn() {
    let place = InlineFixture::new(4).await;
    let question = place
        .create_and_start(inline_task("ask Who are you?"))
        .await
        .task;
    assert_eq!(question.state, TaskState::InputRequired);
    let answer = Message::user_text("alice");
    let hub = &place.hub;
    hub.answer_input(&alice(), &question.id, answer, None)
        .await
        .unwrap();
    let (task, _) = wait_until_ended_after(hub, &question.id, question.seq).await;
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn repeated_inline_call_is_one_task_with_one_answer() {
    let place = InlineFixture::new(4).await;
    let same = || NewTask {
        idempotency_key: Some(IdempotencyKey::new("key", b"body")),
        ..inline_task("echo once")
    };
    let (one, two) = tokio::join!(
        place.create_and_start(same()),
        place.create_and_start(same())
    );
    let three = place.create_and_start(same()).await;
    assert_eq!(one.task, two.task);
    assert_eq!(one.task, three.task);
    let answered = [&one, &two, &three].map(|started| started.answered.is_some());
    assert_eq!(answered.iter().filter(|answered| **answered).count(), 1);
    assert_eq!(place.event_log(&one.task.id).await.len(), 4);
    assert_eq!(place.runs.0.load(Ordering::Relaxed), 1, "counted runs");
}

/// An agent at its concurrency limit is not called for inline answers.
#[tokio::test]
async fn agent_without_free_slot_gives_no_inline_answer() {
    let place = InlineFixture::new(1).await;
    let long = place.create_and_start(inline_task("wait 500")).await;
    assert!(long.answered.is_none() && long.watch.is_some());
    let queued = place.create_and_start(inline_task("echo hello")).await;
    assert!(queued.answered.is_none());
    assert_eq!(queued.task.state, TaskState::Submitted);
    place
        .hub
        .cancel(&alice(), &long.task.id, None)
        .await
        .unwrap();
    let (done, _) = wait_until_ended(&place.hub, &queued.task.id).await;
    assert_eq!(done.state, TaskState::Completed);
    // An inline answer releases its slot at once.
    for _ in 0..3 {
        assert_eq!(
            texts(&place.create_and_start(inline_task("echo a")).await),
            ["echo a", "a"]
        );
    }
}
