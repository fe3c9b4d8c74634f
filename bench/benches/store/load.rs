//! Load: durable creates and events, through the hub, by more and more writers.

use crate::floor::Floor;
use crate::meter::Meter;
use crate::{Size, WRITERS};
use interzone_hub::ports::Store;
use interzone_hub::{
    Agent, AgentError, AgentInfo, Caller, Hub, Limits, NewStream, NewTask, Outcome, Output,
    RandomIds, Registry, Subject, SystemClock, Turn,
};
use interzone_protocol::vocab::{AgentId, Message, PrincipalId};
use std::sync::Arc;

/// A create writes the task, its message, its event and its place in the queue.
const ROWS_A_CREATE: usize = 4;
/// An event on a stream writes itself and the stream.
const ROWS_AN_EVENT: usize = 2;

pub(crate) async fn measure(name: &str, store: Arc<dyn Store>, size: Size, floor: Option<&Floor>) {
    let hub = hub(store);
    for (place, writers) in WRITERS.into_iter().enumerate() {
        let raw = floor.and_then(|floor| floor.0.get(place).copied());
        let tasks = size.tasks.min(writers * 2_000);
        let meter = Meter::start();
        let done = spread(&hub, writers, tasks, create).await;
        report(name, "creates", writers, done, ROWS_A_CREATE, &meter, raw);
        let meter = Meter::start();
        let done = spread(&hub, writers, tasks, speak).await;
        report(name, "events", writers, done, ROWS_AN_EVENT, &meter, raw);
    }
    replay(&hub, size.replayed).await;
}

fn report(
    name: &str,
    what: &str,
    writers: usize,
    done: usize,
    rows_each: usize,
    meter: &Meter,
    raw: Option<f64>,
) {
    let (rate, rows) = (meter.rate(done), meter.rate(done * rows_each));
    let processor = meter.processor() / u32::try_from(done).unwrap();
    let ratio = raw.map_or(String::new(), |raw| format!(", {:.2} of raw", rows / raw));
    println!(
        "{rate:>10.0} {what} a second, {name}, {writers} writers: {rows:.0} rows{ratio}; {processor:.1?} of processor each"
    );
}

/// Many writers, each doing its share one after another.
async fn spread<F>(hub: &Hub, writers: usize, total: usize, work: fn(Hub, usize) -> F) -> usize
where
    F: Future<Output = ()> + Send + 'static,
{
    let each = total / writers;
    let tasks: Vec<_> = (0..writers)
        .map(|_| tokio::spawn(work(hub.clone(), each)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    each * writers
}

async fn create(hub: Hub, count: usize) {
    let caller = caller();
    for _ in 0..count {
        let message = Message::user_text("Please analyse the figures of the last quarter.");
        hub.create_task(&caller, NewTask::new(message))
            .await
            .unwrap();
    }
}

async fn speak(hub: Hub, count: usize) {
    let caller = caller();
    let stream = hub
        .start_stream(&caller, NewStream::default())
        .await
        .unwrap();
    for _ in 0..count {
        let message = Message::agent_text("A piece of an answer, as long as such pieces are.");
        hub.speak(&caller, &stream.id, message, true).await.unwrap();
    }
}

/// Reads one long log from its beginning to its end, as somebody who comes back does.
async fn replay(hub: &Hub, events: usize) {
    let subject = long_log(hub, events).await;
    let meter = Meter::start();
    let mut last = 0;
    loop {
        let page = hub.store().events(&subject, last, 1_000).await.unwrap();
        match page.last() {
            Some(event) => last = event.seq,
            None => break,
        }
    }
    assert_eq!(last, u64::try_from(events).unwrap());
    println!(
        "{:>10.0} events a second replayed, of {events}",
        meter.rate(events)
    );
}

/// A log of so many events, written by a crowd so that it does not take all day.
async fn long_log(hub: &Hub, events: usize) -> Subject {
    use interzone_hub::EventBody;
    use interzone_hub::ports::{Commit, EventRow, Op};
    let caller = caller();
    let stream = hub
        .start_stream(&caller, NewStream::default())
        .await
        .unwrap();
    let subject = Subject::Stream(stream.id.clone());
    let (mut head, mut seq) = (stream, 1);
    while seq < u64::try_from(events).unwrap() {
        let last = (seq + 500).min(u64::try_from(events).unwrap());
        let rows = (seq + 1..=last).map(|seq| {
            let delta = "A piece of an answer, as long as such pieces are.".to_owned();
            let body = EventBody::Text {
                run: 1,
                offset: seq * 50,
                delta,
            };
            Op::AppendEvent(EventRow {
                subject: subject.clone(),
                seq,
                body,
            })
        });
        head.revision += 1;
        head.seq = last;
        let mut ops = vec![Op::UpdateStream(Box::new(head.clone()))];
        ops.extend(rows);
        let commit = Commit {
            id: uuid::Uuid::new_v4().to_string(),
            at: hub.now(),
            fence: None,
            epoch: None,
            ops,
        };
        hub.store().commit(commit).await.unwrap();
        seq = last;
    }
    subject
}

pub(crate) fn caller() -> Caller {
    Caller::new(PrincipalId::new("bench").unwrap())
}

pub(crate) fn hub(store: Arc<dyn Store>) -> Hub {
    let mut agents = Registry::default();
    agents.add(Arc::new(Idle(AgentInfo {
        id: AgentId::new("idle").unwrap(),
        name: "Idle".to_owned(),
        description: "Does nothing".to_owned(),
        skills: Vec::new(),
        concurrency: 1,
    })));
    Hub::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds),
        agents,
        Limits::default(),
    )
}

/// An agent to route to; nobody claims its work here.
struct Idle(AgentInfo);

#[async_trait::async_trait]
impl Agent for Idle {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    async fn run(&self, _: Turn, _: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        Ok(Outcome::Completed {
            message: None,
            direct: false,
        })
    }
}
