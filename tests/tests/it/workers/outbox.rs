//! Outbox delivery: order, retries, dead letters, and answers delivered to a stream.

use super::{
    RejectingDeliveryHandler, WorkersFixture, alice, create_task, quick_options, start_workers,
    wait_until_ended,
};
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::{WorkerMetrics, WorkerOptions, Workers};
use interzone_hub::ports::DeadLetterQuery;
use interzone_hub::{
    EventBody, Hub, HubError, NewOutboxEntry, NewStream, OutboxEntry, Retention, RetryPolicy,
    Route, Subject, WatchItem,
};
use interzone_protocol::vocab::{AgentId, Message, PrincipalId, Role, VerbatimJson};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Delivery handler that follows the entry's key and reports each attempt.
struct ScriptedHandler {
    hub: Hub,
    attempts: mpsc::UnboundedSender<(String, u32)>,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
}

#[async_trait::async_trait]
impl DeliveryHandler for ScriptedHandler {
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_in_flight.fetch_max(now, Ordering::SeqCst);
        // Yields, so that concurrent deliveries overlap.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let _ = self.attempts.send((entry.key.clone(), entry.attempt));
        let unavailable = "receiver is unavailable";
        Ok(match entry.key.as_str() {
            "thrice" if entry.attempt < 3 => DeliveryOutcome::retry(unavailable),
            "never" => DeliveryOutcome::retry(unavailable),
            "hopeless" => DeliveryOutcome::failed(unavailable),
            "broken" if entry.attempt < 2 => panic!("requested by the test"),
            "stuck" if entry.attempt < 2 => std::future::pending().await,
            "itself" => {
                self.hub.mark_delivered(entry).await?;
                DeliveryOutcome::Recorded { is_delivered: true }
            }
            _ => DeliveryOutcome::Delivered,
        })
    }
}

fn entry(key: &str, group: Option<&str>) -> NewOutboxEntry {
    NewOutboxEntry {
        channel: "webhook".to_owned(),
        key: key.to_owned(),
        group: group.map(str::to_owned),
        owner: PrincipalId::new("alice").unwrap(),
        subject: None,
        payload: VerbatimJson::from_value(key).unwrap(),
    }
}

fn start_delivery(
    hub: &Hub,
    change: impl FnOnce(&mut WorkerOptions),
) -> (
    Workers,
    mpsc::UnboundedReceiver<(String, u32)>,
    Arc<ScriptedHandler>,
) {
    let (sender, attempts) = mpsc::unbounded_channel();
    let handler = Arc::new(ScriptedHandler {
        hub: hub.clone(),
        attempts: sender,
        in_flight: AtomicUsize::new(0),
        max_in_flight: AtomicUsize::new(0),
    });
    let mut options = quick_options("n1");
    options.webhooks.retry = RetryPolicy {
        initial_delay: Duration::from_millis(2),
        max_delay: Duration::from_millis(8),
        max_attempts: 4,
    };
    change(&mut options);
    let stop = CancellationToken::new();
    let workers = Workers::start(hub.clone(), handler.clone(), options, Arc::new(()), stop);
    (workers, attempts, handler)
}

async fn attempts(
    receiver: &mut mpsc::UnboundedReceiver<(String, u32)>,
    count: usize,
) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), receiver.recv()).await;
        let (key, attempt) = next.expect("an attempt before the timeout").unwrap();
        all.push(format!("{key} {attempt}"));
    }
    all
}

async fn wait_until_empty(hub: &Hub, dead: u64) {
    while hub.store().outbox_depth().await.unwrap() != (0, dead) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn group_is_delivered_in_order_behind_its_first() {
    let place = WorkersFixture::new().await;
    let hub = place.hub_with_system_clock(Vec::new());
    let (workers, mut receiver, _) = start_delivery(&hub, |_| {});
    let group = Some("g");
    let all = vec![
        entry("thrice", group),
        entry("b", group),
        entry("hopeless", group),
        entry("d", group),
    ];
    hub.enqueue(all).await.unwrap();
    let attempts = attempts(&mut receiver, 6).await;
    let expected = [
        "thrice 1",
        "thrice 2",
        "thrice 3",
        "b 1",
        "hopeless 1",
        "d 1",
    ];
    assert_eq!(attempts, expected);
    wait_until_empty(&hub, 1).await;
    workers.join(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn undeliverable_entry_is_dead_lettered_and_replayable() {
    let place = WorkersFixture::new().await;
    let hub = place.hub_with_system_clock(Vec::new());
    let (_workers, mut receiver, _) = start_delivery(&hub, |_| {});
    hub.enqueue(vec![entry("never", None)]).await.unwrap();
    let tried = attempts(&mut receiver, 4).await;
    assert_eq!(tried, ["never 1", "never 2", "never 3", "never 4"]);
    wait_until_empty(&hub, 1).await;
    let query = DeadLetterQuery {
        limit: 10,
        ..DeadLetterQuery::default()
    };
    let dead = hub.store().dead_letters(&query).await.unwrap();
    assert_eq!(dead[0].error.as_deref(), Some("receiver is unavailable"));
    assert!(
        hub.store()
            .replay_outbox(&dead[0].id, hub.now())
            .await
            .unwrap()
    );
    assert_eq!(attempts(&mut receiver, 1).await, ["never 1"]);
}

#[tokio::test]
async fn panicking_or_hanging_delivery_is_retried() {
    let place = WorkersFixture::new().await;
    let hub = place.hub_with_system_clock(Vec::new());
    let (_workers, mut receiver, _) = start_delivery(&hub, |options| {
        options.webhooks.attempt_timeout = Duration::from_millis(300);
    });
    for key in ["broken", "stuck", "itself"] {
        hub.enqueue(vec![entry(key, None)]).await.unwrap();
        let count = if key == "itself" { 1 } else { 2 };
        let tried = attempts(&mut receiver, count).await;
        assert_eq!(tried.last(), Some(&format!("{key} {count}")));
        wait_until_empty(&hub, 0).await;
    }
}

#[tokio::test]
async fn delivery_past_grace_is_released_to_another_node() {
    let place = WorkersFixture::new().await;
    let hub = place.hub_with_system_clock(Vec::new());
    let hour = Duration::from_secs(3600);
    let (workers, mut receiver, _) = start_delivery(&hub, |options| {
        (options.webhooks.lease, options.webhooks.attempt_timeout) = (hour, hour);
    });
    hub.enqueue(vec![entry("stuck", None)]).await.unwrap();
    assert_eq!(attempts(&mut receiver, 1).await, ["stuck 1"]);
    workers.join(Duration::from_millis(20)).await;
    let others = place.hub_with_system_clock(Vec::new());
    let (_workers, mut receiver, _) = start_delivery(&others, |_| {});
    assert_eq!(attempts(&mut receiver, 1).await, ["stuck 2"]);
    wait_until_empty(&others, 0).await;
}

#[tokio::test]
async fn concurrent_deliveries_stay_within_limit() {
    let place = WorkersFixture::new().await;
    let hub = place.hub_with_system_clock(Vec::new());
    let all: Vec<NewOutboxEntry> = (0..50).map(|n| entry(&n.to_string(), None)).collect();
    hub.enqueue(all).await.unwrap();
    let (_workers, mut receiver, handler) =
        start_delivery(&hub, |options| options.webhooks.concurrency = 3);
    attempts(&mut receiver, 50).await;
    wait_until_empty(&hub, 0).await;
    assert_eq!(handler.max_in_flight.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn stream_message_is_answered_on_stream() {
    let place = WorkersFixture::new().await;
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    let hub = place.hub_with_system_clock(vec![Arc::new(demo)]);
    let _workers = start_workers(&hub, WorkerOptions::new("n1"));
    let stream = hub
        .start_stream(&alice(), NewStream::default())
        .await
        .unwrap();
    let subject = Subject::Stream(stream.id.clone());
    let mut watch = hub.watch(&alice(), subject, 0).await.unwrap();
    let message = Message::user_text("stream 24");
    let route = Route::default();
    hub.send_stream_message(&alice(), &stream.id, message, route)
        .await
        .unwrap();
    let (mut text, mut pieces) = (String::new(), 0);
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
        let Some(WatchItem::Event(event)) = next.expect("an answer before the timeout").unwrap()
        else {
            continue;
        };
        let EventBody::Chunk { chunk, last, .. } = event.body.clone() else {
            continue;
        };
        let message = hub.restore(chunk).await.unwrap();
        if message.role() != Role::Agent {
            continue;
        }
        text.push_str(&message.text());
        pieces += 1;
        if last {
            break;
        }
    }
    assert_eq!(text.split(' ').count(), 24, "{text}");
    assert!(pieces > 2, "the answer arrives in pieces: {pieces}");
    wait_until_empty(&hub, 0).await;
}

#[tokio::test]
async fn finished_task_is_purged_and_gauges_are_reported() {
    struct ReportedGauges(mpsc::UnboundedSender<String>);
    impl WorkerMetrics for ReportedGauges {
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
    let place = WorkersFixture::new().await;
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    let hub = place.hub_with_manual_clock(vec![Arc::new(demo)]);
    let options = WorkerOptions {
        sweep_interval: Duration::from_millis(10),
        gauges_interval: Duration::from_millis(10),
        retention: Retention {
            finished: Duration::from_secs(60),
            ..Retention::default()
        },
        ..quick_options("n1")
    };
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let metrics = Arc::new(ReportedGauges(sender));
    let stop = CancellationToken::new();
    let _workers = Workers::start(
        hub.clone(),
        Arc::new(RejectingDeliveryHandler),
        options,
        metrics,
        stop,
    );
    let id = create_task(&hub, "echo hi").await;
    wait_until_ended(&hub, &id).await;
    for wanted in ["queue 0 0", "outbox 0 0"] {
        while receiver.recv().await.unwrap() != wanted {}
    }
    place.advance_clock(Duration::from_secs(61));
    while hub.task(&alice(), &id).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let id = create_task(&hub, "fail").await;
    wait_until_ended(&hub, &id).await;
    while receiver.recv().await.unwrap() != "demo failed" {}
}
