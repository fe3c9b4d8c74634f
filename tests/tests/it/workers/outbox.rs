//! What leaves: in order, tried again, given up at last; and answers that come back to a stream.

use super::{NoWebhooks, Place, alice, ask, ended, quick, start};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{Carried, Carrier, WorkerMetrics, WorkerOptions, Workers};
use interzone_hub::ports::DeadLetterQuery;
use interzone_hub::{
    EventBody, Hub, HubError, NewEntry, NewStream, OutboxEntry, Retention, RetryPolicy, Route,
    Seen, Subject,
};
use interzone_protocol::vocab::{AgentId, Json, Message, PrincipalId, Role};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Does with an entry as its key says, and tells of each attempt.
struct Postman {
    seen: mpsc::UnboundedSender<(String, u32)>,
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait::async_trait]
impl Carrier for Postman {
    async fn carry(&self, hub: &Hub, entry: &OutboxEntry) -> Result<Carried, HubError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Lets the others in, so that it shows how many there are at once.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        let _ = self.seen.send((entry.key.clone(), entry.attempt));
        let failed = |may_help| Carried::Failed {
            why: "nobody is at home".to_owned(),
            wait: None,
            may_help,
        };
        Ok(match entry.key.as_str() {
            "thrice" if entry.attempt < 3 => failed(true),
            "never" => failed(true),
            "hopeless" => failed(false),
            "broken" if entry.attempt < 2 => panic!("as told"),
            "stuck" if entry.attempt < 2 => std::future::pending().await,
            "itself" => {
                hub.arrived(entry).await?;
                Carried::Settled { arrived: true }
            }
            _ => Carried::Arrived,
        })
    }
}

fn entry(key: &str, group: Option<&str>) -> NewEntry {
    NewEntry {
        channel: "webhook".to_owned(),
        key: key.to_owned(),
        group: group.map(str::to_owned),
        owner: PrincipalId::new("alice").unwrap(),
        subject: None,
        payload: Json::of(key).unwrap(),
    }
}

fn post(
    hub: &Hub,
    change: impl FnOnce(&mut WorkerOptions),
) -> (
    Workers,
    mpsc::UnboundedReceiver<(String, u32)>,
    Arc<Postman>,
) {
    let (sender, seen) = mpsc::unbounded_channel();
    let postman = Arc::new(Postman {
        seen: sender,
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let mut options = quick("n1");
    options.webhooks.retry = RetryPolicy {
        first: Duration::from_millis(2),
        longest: Duration::from_millis(8),
        attempts: 4,
    };
    change(&mut options);
    let stop = CancellationToken::new();
    let workers = Workers::start(hub.clone(), postman.clone(), options, Arc::new(()), stop);
    (workers, seen, postman)
}

async fn attempts(seen: &mut mpsc::UnboundedReceiver<(String, u32)>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), seen.recv()).await;
        let (key, attempt) = next.expect("it should be carried").unwrap();
        all.push(format!("{key} {attempt}"));
    }
    all
}

async fn empty(hub: &Hub, dead: u64) {
    while hub.store().outbox_depth().await.unwrap() != (0, dead) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_group_leaves_in_order_and_waits_for_its_first() {
    let place = Place::new().await;
    let hub = place.live_hub(Vec::new());
    let (workers, mut seen, _) = post(&hub, |_| {});
    let group = Some("g");
    let all = vec![
        entry("thrice", group),
        entry("b", group),
        entry("hopeless", group),
        entry("d", group),
    ];
    hub.enqueue(all).await.unwrap();
    let attempts = attempts(&mut seen, 6).await;
    let expected = [
        "thrice 1",
        "thrice 2",
        "thrice 3",
        "b 1",
        "hopeless 1",
        "d 1",
    ];
    assert_eq!(attempts, expected);
    empty(&hub, 1).await;
    workers.join(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn what_never_arrives_is_given_up_and_kept_for_the_operator() {
    let place = Place::new().await;
    let hub = place.live_hub(Vec::new());
    let (_workers, mut seen, _) = post(&hub, |_| {});
    hub.enqueue(vec![entry("never", None)]).await.unwrap();
    let tried = attempts(&mut seen, 4).await;
    assert_eq!(tried, ["never 1", "never 2", "never 3", "never 4"]);
    empty(&hub, 1).await;
    let query = DeadLetterQuery {
        limit: 10,
        ..DeadLetterQuery::default()
    };
    let dead = hub.store().dead_letters(&query).await.unwrap();
    assert_eq!(dead[0].error.as_deref(), Some("nobody is at home"));
    assert!(
        hub.store()
            .replay_outbox(&dead[0].id, hub.now())
            .await
            .unwrap()
    );
    assert_eq!(attempts(&mut seen, 1).await, ["never 1"]);
}

#[tokio::test]
async fn carriers_that_break_or_hang_are_tried_again() {
    let place = Place::new().await;
    let hub = place.live_hub(Vec::new());
    let (_workers, mut seen, _) = post(&hub, |options| {
        options.webhooks.hold = Duration::from_millis(400);
    });
    for key in ["broken", "stuck", "itself"] {
        hub.enqueue(vec![entry(key, None)]).await.unwrap();
        let count = if key == "itself" { 1 } else { 2 };
        let tried = attempts(&mut seen, count).await;
        assert_eq!(tried.last(), Some(&format!("{key} {count}")));
        empty(&hub, 0).await;
    }
}

#[tokio::test]
async fn only_so_many_are_on_their_way_at_once() {
    let place = Place::new().await;
    let hub = place.live_hub(Vec::new());
    let all: Vec<NewEntry> = (0..50).map(|n| entry(&n.to_string(), None)).collect();
    hub.enqueue(all).await.unwrap();
    let (_workers, mut seen, postman) = post(&hub, |options| options.webhooks.concurrency = 3);
    attempts(&mut seen, 50).await;
    empty(&hub, 0).await;
    assert_eq!(postman.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_is_asked_on_a_stream_is_answered_there() {
    let place = Place::new().await;
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    let hub = place.live_hub(vec![Arc::new(demo)]);
    let _workers = start(&hub, WorkerOptions::new("n1"));
    let stream = hub
        .start_stream(&alice(), NewStream::default())
        .await
        .unwrap();
    let subject = Subject::Stream(stream.id.clone());
    let mut watch = hub.watch(&alice(), subject, 0).await.unwrap();
    let message = Message::user_text("stream 24");
    let route = Route::default();
    hub.ask_on_stream(&alice(), &stream.id, message, route)
        .await
        .unwrap();
    let (mut text, mut pieces) = (String::new(), 0);
    loop {
        let seen = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
        let Some(Seen::Event(event)) = seen.expect("an answer should come").unwrap() else {
            continue;
        };
        let EventBody::Chunk { chunk, last, .. } = event.body.clone() else {
            continue;
        };
        let said = hub.unpack_one(chunk).await.unwrap();
        if said.role() != Role::Agent {
            continue;
        }
        text.push_str(&said.text());
        pieces += 1;
        if last {
            break;
        }
    }
    assert_eq!(text.split(' ').count(), 24, "{text}");
    assert!(pieces > 2, "it comes in pieces, not at the end: {pieces}");
    empty(&hub, 0).await;
}

#[tokio::test]
async fn what_is_old_goes_and_what_waits_is_measured() {
    struct Gauges(mpsc::UnboundedSender<String>);
    impl WorkerMetrics for Gauges {
        fn queue(&self, waiting: u64, held: u64) {
            let _ = self.0.send(format!("queue {waiting} {held}"));
        }
        fn outbox(&self, waiting: u64, dead: u64) {
            let _ = self.0.send(format!("outbox {waiting} {dead}"));
        }
        fn agent_run(&self, agent: &str, outcome: &'static str, _: Duration) {
            let _ = self.0.send(format!("{agent} {outcome}"));
        }
    }
    let place = Place::new().await;
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    let hub = place.hub(vec![Arc::new(demo)]);
    let options = WorkerOptions {
        sweep_every: Duration::from_millis(10),
        gauges_every: Duration::from_millis(10),
        retention: Retention {
            finished: Duration::from_secs(60),
            ..Retention::default()
        },
        ..quick("n1")
    };
    let (sender, mut seen) = mpsc::unbounded_channel();
    let metrics = Arc::new(Gauges(sender));
    let stop = CancellationToken::new();
    let _workers = Workers::start(hub.clone(), Arc::new(NoWebhooks), options, metrics, stop);
    let id = ask(&hub, "echo hi").await;
    ended(&hub, &id).await;
    for wanted in ["queue 0 0", "outbox 0 0"] {
        while seen.recv().await.unwrap() != wanted {}
    }
    place.pass(Duration::from_secs(61));
    while hub.task(&alice(), &id).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let id = ask(&hub, "fail").await;
    ended(&hub, &id).await;
    while seen.recv().await.unwrap() != "demo failed" {}
}
