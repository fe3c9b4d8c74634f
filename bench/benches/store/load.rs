//! Load: durable creates and events through the hub, with an increasing number of writers.

use crate::baseline::Baseline;
use crate::meter::Meter;
use crate::{StoreBenchSize, WRITERS};
use interzone_hub::ports::Store;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Caller, Hub, Limits, NewStream, NewTask, RandomIds,
    Registry, Subject, SystemClock, Turn, TurnOutcome, TurnOutput,
};
use interzone_protocol::vocab::{AgentId, Message, PrincipalId};
use std::sync::Arc;

/// Rows of a create: the task, its message, its event and its queue entry.
const ROWS_PER_CREATE: usize = 4;
/// Rows of a stream event: the event and the stream.
const ROWS_PER_EVENT: usize = 2;

pub(crate) async fn measure(
    name: &str,
    store: Arc<dyn Store>,
    size: StoreBenchSize,
    baseline: Option<&Baseline>,
) {
    let hub = hub(store);
    for (index, writers) in WRITERS.into_iter().enumerate() {
        let raw = baseline.and_then(|baseline| baseline.0.get(index).copied());
        let tasks = size.tasks.min(writers * 2_000);
        let meter = Meter::start();
        let done = spread(&hub, writers, tasks, create).await;
        report(name, "creates", writers, done, ROWS_PER_CREATE, &meter, raw);
        let meter = Meter::start();
        let done = spread(&hub, writers, tasks, post_chunks).await;
        report(name, "events", writers, done, ROWS_PER_EVENT, &meter, raw);
    }
    replay(&hub, size.replayed).await;
}

fn report(
    name: &str,
    operation: &str,
    writers: usize,
    done: usize,
    rows_each: usize,
    meter: &Meter,
    raw: Option<f64>,
) {
    let (rate, rows) = (meter.rate(done), meter.rate(done * rows_each));
    let cpu = meter.cpu() / u32::try_from(done).unwrap();
    let ratio = raw.map_or(String::new(), |raw| format!(", {:.2} of raw", rows / raw));
    println!(
        "{rate:>10.0} {operation}/s, {name}, {writers} writers: {rows:.0} rows{ratio}; {cpu:.1?} CPU each"
    );
}

/// Spreads the work over concurrent writers.
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

async fn post_chunks(hub: Hub, count: usize) {
    let caller = caller();
    let stream = hub
        .start_stream(&caller, NewStream::default())
        .await
        .unwrap();
    for _ in 0..count {
        let message = Message::agent_text("A piece of an answer, as long as such pieces are.");
        hub.post_chunk(&caller, &stream.id, message, true)
            .await
            .unwrap();
    }
}

/// Replays one long log from the beginning, as a reconnecting client does.
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
        "{:>10.0} events/s replayed, of {events}",
        meter.rate(events)
    );
}

/// Creates a log with this many events in large commits, to save time.
async fn long_log(hub: &Hub, events: usize) -> Subject {
    use interzone_hub::EventBody;
    use interzone_hub::ports::{Commit, EventRow, Op};
    let caller = caller();
    let stream = hub
        .start_stream(&caller, NewStream::default())
        .await
        .unwrap();
    let subject = Subject::Stream(stream.id.clone());
    let (mut stream_row, mut seq) = (stream, 1);
    while seq < u64::try_from(events).unwrap() {
        let last = (seq + 500).min(u64::try_from(events).unwrap());
        let rows = (seq + 1..=last).map(|seq| {
            let delta = "A piece of an answer, as long as such pieces are.".to_owned();
            let body = EventBody::Text {
                run: 1,
                answers: Some(0),
                offset: seq * 50,
                delta,
            };
            Op::AppendEvent(EventRow {
                subject: subject.clone(),
                seq,
                generation: None,
                body,
            })
        });
        stream_row.revision += 1;
        stream_row.seq = last;
        let mut ops = vec![Op::UpdateStream(Box::new(stream_row.clone()))];
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
    agents.add(Arc::new(IdleAgent(AgentInfo {
        id: AgentId::new("idle").unwrap(),
        name: "Idle".to_owned(),
        description: "Does nothing".to_owned(),
        skills: Vec::new(),
        concurrency: 1,
        profile: AgentProfile::default(),
    })));
    Hub::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds),
        agents,
        Limits::default(),
    )
}

/// An agent to route to; its work is never claimed here.
struct IdleAgent(AgentInfo);

#[async_trait::async_trait]
impl Agent for IdleAgent {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    async fn run(&self, _: Turn, _: Arc<dyn TurnOutput>) -> Result<TurnOutcome, AgentError> {
        Ok(TurnOutcome::Completed {
            message: None,
            direct: false,
        })
    }
}
