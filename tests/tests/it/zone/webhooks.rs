//! Webhooks: what is sent, to whom, how often, and what becomes of what does not arrive.

use super::{ZoneFixture, ZoneFixtureOptions, completed, user_message};
use interzone_execution::webhooks::{WEBHOOK_CHANNEL, WebhookDelivery};
use interzone_execution::workers::{DeliveryHandler, DeliveryOutcome};
use interzone_hub::RetryPolicy;
use interzone_hub::ports::DeadLetterQuery;
use interzone_jsonrpc::ErrorCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A receiver that answers as it is told, one connection after another, and keeps what came.
struct Receiver {
    listener: TcpListener,
    port: u16,
}

struct Came {
    headers: String,
    body: String,
}

impl Came {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        });
        found.unwrap_or_else(|| panic!("{name} is missing: {}", self.headers))
    }

    fn params(&self) -> Value {
        serde_json::from_str::<Value>(&self.body).unwrap()["params"].clone()
    }
}

impl Receiver {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    /// Takes one request and answers it with a status.
    async fn take(&self, status: &str) -> Came {
        let (mut socket, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((headers, body)) = text.split_once("\r\n\r\n") {
                let came = Came {
                    headers: headers.to_owned(),
                    body: body.to_owned(),
                };
                if came.body.len() >= came.header("content-length").parse().unwrap() {
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    socket.write_all(answer.as_bytes()).await.unwrap();
                    return came;
                }
            }
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece).await.unwrap();
            assert!(count > 0, "the request broke off");
            bytes.extend_from_slice(&piece[..count]);
        }
    }
}

async fn world(receiver: &Receiver) -> ZoneFixture {
    ZoneFixture::with_options(ZoneFixtureOptions {
        allow: vec![format!("127.0.0.1:{}", receiver.port)],
        ..ZoneFixtureOptions::default()
    })
    .await
}

async fn subscribe(world: &ZoneFixture, token: &str, id: &str, url: &str, events: Value) -> String {
    let params = json!({"taskId": id, "callbackUrl": url, "events": events});
    let result = world.result(token, "tasks.subscribe", params).await;
    assert_eq!(result["type"], "subscription");
    let subscription = &result["subscription"];
    assert_eq!(subscription["callbackUrl"], url);
    subscription["subscriptionId"].as_str().unwrap().to_owned()
}

/// Five tries, one right after another.
const RETRY: RetryPolicy = RetryPolicy {
    initial_delay: Duration::ZERO,
    max_delay: Duration::ZERO,
    max_attempts: 5,
};

/// Carries the entry that is due; tells whether it arrived.
async fn carry(world: &ZoneFixture) -> bool {
    let hold = Duration::from_secs(60);
    let entries = world
        .hub
        .lease_entries(&[WEBHOOK_CHANNEL.to_owned()], hold, 1)
        .await
        .unwrap();
    assert_eq!(entries.len(), 1, "one entry should be due");
    let carrier = WebhookDelivery {
        egress: world.egress.clone(),
        secret: Some("s3cret".to_owned().into()),
        params_only: false,
    };
    match carrier.deliver(&world.hub, &entries[0]).await.unwrap() {
        DeliveryOutcome::Delivered => world.hub.mark_delivered(&entries[0]).await.unwrap(),
        DeliveryOutcome::Failed {
            reason: why,
            retry_after: wait,
            is_retryable: may_help,
        } => {
            let settled = world
                .hub
                .mark_failed(&entries[0], &RETRY, &why, wait, may_help)
                .await;
            assert!(settled.unwrap());
            false
        }
        DeliveryOutcome::Recorded {
            is_delivered: arrived,
        } => arrived,
    }
}

async fn nothing_is_due(world: &ZoneFixture) -> bool {
    let hold = Duration::from_secs(60);
    let entries = world
        .hub
        .lease_entries(&[WEBHOOK_CHANNEL.to_owned()], hold, 1)
        .await
        .unwrap();
    entries.is_empty()
}

#[tokio::test]
async fn the_end_of_a_task_is_told_as_both_its_events_and_never_twice() {
    let receiver = Receiver::new().await;
    let world = world(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let (run, turn) = world.claim_run().await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    let events = json!(["STATUS_CHANGE", "COMPLETED", "COMPLETED"]);
    let subscription = subscribe(&world, &token, &id, &url, events).await;
    run.complete(&turn, completed("done")).await.unwrap();

    // The first notification arrives, the second does not: only the second comes again.
    let (arrived, (first, second)) = tokio::join!(carry(&world), async {
        (receiver.take("200 OK").await, receiver.take("503 No").await)
    });
    assert!(!arrived);
    let (arrived, again) = tokio::join!(carry(&world), receiver.take("204 Yes"));
    assert!(arrived && nothing_is_due(&world).await);
    assert_eq!(first.params()["event"], "STATUS_CHANGE");
    assert_eq!(second.params()["event"], "COMPLETED");
    assert_eq!(second.body, again.body, "byte for byte");
    for name in [
        "x-delivery-id",
        "x-event-id",
        "x-webhook-signature",
        "x-acp-signature",
    ] {
        assert_eq!(second.header(name), again.header(name), "{name}");
        assert_ne!(first.header(name), second.header(name), "{name}");
    }
    assert_eq!(first.header("x-webhook-id"), subscription);
    assert_eq!(
        format!("sha256={}", first.header("x-acp-signature")),
        first.header("x-webhook-signature")
    );
    assert!(
        first
            .header("x-webhook-signature-timestamp")
            .starts_with("sha256=")
    );
    assert!(!first.headers.to_lowercase().contains("authorization"));
    let note: Value = serde_json::from_str(&first.body).unwrap();
    assert_eq!(
        (&note["jsonrpc"], &note["method"]),
        (&json!("2.0"), &json!("task.notification"))
    );
    assert!(note.get("id").is_none());
    assert_eq!(note["params"]["data"]["status"], "COMPLETED");
    assert_eq!(
        note["params"]["data"]["messages"][1]["parts"][0]["content"],
        "done"
    );
}

#[tokio::test]
async fn a_subscription_hears_what_it_wants_until_it_ends() {
    let receiver = Receiver::new().await;
    let world = world(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    let wants = json!(["NEW_MESSAGE", "FAILED"]);
    let subscription = subscribe(&world, &token, &id, &url, wants).await;
    let more = json!({"taskId": id, "message": user_message("more")});
    world.result(&token, "tasks.send", more.clone()).await;
    let (arrived, came) = tokio::join!(carry(&world), receiver.take("200 OK"));
    assert!(arrived);
    assert_eq!(came.params()["data"]["parts"][0]["content"], "more");
    // A change of status that is not wanted is an entry, but nothing that is sent.
    let (run, _turn) = world.claim_run().await;
    assert!(carry(&world).await);
    drop(run);
    world.result(&token, "tasks.send", more).await;
    let end = json!({"taskId": id, "subscriptionId": subscription});
    world
        .result(&token, "interzone.tasks.unsubscribe", end)
        .await;
    assert!(carry(&world).await, "what waited is dropped");
    world
        .result(&token, "tasks.cancel", json!({"taskId": id}))
        .await;
    assert!(nothing_is_due(&world).await);
}

#[tokio::test]
async fn a_receiver_that_is_gone_for_good_is_asked_no_more() {
    let receiver = Receiver::new().await;
    let world = world(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    subscribe(&world, &token, &id, &url, json!(null)).await;
    world
        .result(&token, "tasks.cancel", json!({"taskId": id}))
        .await;
    let (arrived, _) = tokio::join!(carry(&world), receiver.take("410 Gone"));
    assert!(!arrived && nothing_is_due(&world).await);
    let letters = DeadLetterQuery {
        limit: 10,
        ..DeadLetterQuery::default()
    };
    let dead = world.hub.store().dead_letters(&letters).await.unwrap();
    assert_eq!(dead[0].error.as_deref(), Some("the receiver answered 410"));
}

#[tokio::test]
async fn five_tries_and_then_it_is_a_dead_letter() {
    let receiver = Receiver::new().await;
    let world = world(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    subscribe(&world, &token, &id, &url, json!(null)).await;
    world
        .result(&token, "tasks.cancel", json!({"taskId": id}))
        .await;
    for _ in 0..5 {
        let answer = "302 Found\r\nlocation: http://127.0.0.1:1/";
        let (arrived, came) = tokio::join!(carry(&world), receiver.take(answer));
        assert!(!arrived);
        assert_eq!(came.params()["data"]["status"], "CANCELED");
    }
    assert!(nothing_is_due(&world).await);
    assert_eq!(world.hub.store().outbox_depth().await.unwrap(), (0, 1));
}

#[tokio::test]
async fn addresses_inside_are_refused_in_every_spelling() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    for url in [
        "http://example.com/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest",
        "https://100.64.0.1/",
        "https://user:pass@example.com/",
        "ftp://example.com/",
        "https://db.internal/",
        "not a url",
        "",
    ] {
        let params = json!({"taskId": id, "callbackUrl": url});
        let (code, data) = world.call_error(&token, "tasks.subscribe", params).await;
        assert_eq!(code, ErrorCode::INVALID_PARAMS, "{url}");
        assert_eq!(data["field"], "params.callbackUrl");
        assert!(!data["expected"].as_str().unwrap().is_empty());
    }
}
