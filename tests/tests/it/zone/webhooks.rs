//! Webhooks: payloads, subscriptions, retries, dead letters and allowed URLs.

use super::{ZoneFixture, ZoneFixtureOptions, completed, user_message};
use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_execution::webhooks::{WEBHOOK_CHANNEL, WebhookDelivery};
use interzone_hub::RetryPolicy;
use interzone_hub::ports::DeadLetterQuery;
use interzone_jsonrpc::ErrorCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Webhook receiver that serves one connection at a time with a given status.
struct WebhookReceiver {
    listener: TcpListener,
    port: u16,
}

/// A request received by the webhook receiver.
struct WebhookRequest {
    headers: String,
    body: String,
}

impl WebhookRequest {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.lines().find_map(|line| {
            let (header, value) = line.split_once(": ")?;
            header.eq_ignore_ascii_case(name).then_some(value)
        });
        value.unwrap_or_else(|| panic!("{name} is missing: {}", self.headers))
    }

    fn params(&self) -> Value {
        serde_json::from_str::<Value>(&self.body).unwrap()["params"].clone()
    }
}

impl WebhookReceiver {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    /// Receives one request and responds with this status.
    async fn receive(&self, status: &str) -> WebhookRequest {
        let (mut socket, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((headers, body)) = text.split_once("\r\n\r\n") {
                let request = WebhookRequest {
                    headers: headers.to_owned(),
                    body: body.to_owned(),
                };
                if request.body.len() >= request.header("content-length").parse().unwrap() {
                    let response = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    socket.write_all(response.as_bytes()).await.unwrap();
                    return request;
                }
            }
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece).await.unwrap();
            assert!(count > 0, "the request ended early");
            bytes.extend_from_slice(&piece[..count]);
        }
    }
}

/// Starts a zone that may call the receiver.
async fn start_zone(receiver: &WebhookReceiver) -> ZoneFixture {
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

/// Five attempts without a delay.
const RETRY: RetryPolicy = RetryPolicy {
    initial_delay: Duration::ZERO,
    max_delay: Duration::ZERO,
    max_attempts: 5,
};

/// Delivers the entry that is due. Returns whether it was delivered.
async fn deliver_next(world: &ZoneFixture) -> bool {
    let lease = Duration::from_secs(60);
    let entries = world
        .hub
        .lease_entries(&[WEBHOOK_CHANNEL.to_owned()], lease, 1)
        .await
        .unwrap();
    assert_eq!(entries.len(), 1, "one entry should be due");
    let delivery = WebhookDelivery {
        hub: world.hub.clone(),
        egress: world.egress.clone(),
        secret: Some("s3cret".to_owned().into()),
        params_only: false,
    };
    let (reason, retry_after, is_retryable) = match delivery.deliver(&entries[0]).await.unwrap() {
        DeliveryOutcome::Delivered => return world.hub.mark_delivered(&entries[0]).await.unwrap(),
        DeliveryOutcome::Recorded { is_delivered } => return is_delivered,
        DeliveryOutcome::Retry {
            reason,
            retry_after,
        } => (reason, retry_after, true),
        DeliveryOutcome::Failed { reason } => (reason, None, false),
    };
    let is_recorded = world
        .hub
        .mark_failed(&entries[0], &RETRY, &reason, retry_after, is_retryable)
        .await;
    assert!(is_recorded.unwrap());
    false
}

async fn is_outbox_empty(world: &ZoneFixture) -> bool {
    let lease = Duration::from_secs(60);
    let entries = world
        .hub
        .lease_entries(&[WEBHOOK_CHANNEL.to_owned()], lease, 1)
        .await
        .unwrap();
    entries.is_empty()
}

#[tokio::test]
async fn webhook_retry_resends_only_the_failed_event() {
    let receiver = WebhookReceiver::new().await;
    let world = start_zone(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let (run, turn) = world.claim_run().await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    let events = json!(["STATUS_CHANGE", "COMPLETED", "COMPLETED"]);
    let subscription = subscribe(&world, &token, &id, &url, events).await;
    run.complete(&turn, completed("done")).await.unwrap();

    // The first notification is delivered and the second fails: only the second is sent again.
    let (is_delivered, (first, second)) = tokio::join!(deliver_next(&world), async {
        (
            receiver.receive("200 OK").await,
            receiver.receive("503 No").await,
        )
    });
    assert!(!is_delivered);
    let (is_delivered, again) = tokio::join!(deliver_next(&world), receiver.receive("204 Yes"));
    assert!(is_delivered && is_outbox_empty(&world).await);
    assert_eq!(first.params()["event"], "STATUS_CHANGE");
    assert_eq!(second.params()["event"], "COMPLETED");
    assert_eq!(second.body, again.body, "the retry has the same body");
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
async fn webhook_gets_subscribed_events_until_unsubscribed() {
    let receiver = WebhookReceiver::new().await;
    let world = start_zone(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    let events = json!(["NEW_MESSAGE", "FAILED"]);
    let subscription = subscribe(&world, &token, &id, &url, events).await;
    let more = json!({"taskId": id, "message": user_message("more")});
    world.result(&token, "tasks.send", more.clone()).await;
    let (is_delivered, request) = tokio::join!(deliver_next(&world), receiver.receive("200 OK"));
    assert!(is_delivered);
    assert_eq!(request.params()["data"]["parts"][0]["content"], "more");
    // A status change outside the subscription has an outbox entry, but no request is sent.
    let (run, _turn) = world.claim_run().await;
    assert!(deliver_next(&world).await);
    drop(run);
    world.result(&token, "tasks.send", more).await;
    let end = json!({"taskId": id, "subscriptionId": subscription});
    world
        .result(&token, "interzone.tasks.unsubscribe", end)
        .await;
    assert!(deliver_next(&world).await, "the queued entry is dropped");
    world
        .result(&token, "tasks.cancel", json!({"taskId": id}))
        .await;
    assert!(is_outbox_empty(&world).await);
}

#[tokio::test]
async fn webhook_with_response_410_is_dead_lettered() {
    let receiver = WebhookReceiver::new().await;
    let world = start_zone(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    subscribe(&world, &token, &id, &url, json!(null)).await;
    world
        .result(&token, "tasks.cancel", json!({"taskId": id}))
        .await;
    let (is_delivered, _) = tokio::join!(deliver_next(&world), receiver.receive("410 Gone"));
    assert!(!is_delivered && is_outbox_empty(&world).await);
    let query = DeadLetterQuery {
        limit: 10,
        ..DeadLetterQuery::default()
    };
    let dead = world.hub.store().dead_letters(&query).await.unwrap();
    assert_eq!(dead[0].error.as_deref(), Some("the receiver answered 410"));
}

#[tokio::test]
async fn webhook_is_dead_lettered_after_five_attempts() {
    let receiver = WebhookReceiver::new().await;
    let world = start_zone(&receiver).await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.port);
    subscribe(&world, &token, &id, &url, json!(null)).await;
    world
        .result(&token, "tasks.cancel", json!({"taskId": id}))
        .await;
    for _ in 0..5 {
        let status = "302 Found\r\nlocation: http://127.0.0.1:1/";
        let (is_delivered, request) = tokio::join!(deliver_next(&world), receiver.receive(status));
        assert!(!is_delivered);
        assert_eq!(request.params()["data"]["status"], "CANCELED");
    }
    assert!(is_outbox_empty(&world).await);
    assert_eq!(world.hub.store().outbox_depth().await.unwrap(), (0, 1));
}

#[tokio::test]
async fn subscribe_rejects_private_callback_urls() {
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
