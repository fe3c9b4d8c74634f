//! HTTP endpoints: request signatures, responses, and an unavailable store.

use super::{VerificationFixture, VerificationSetup};
use crate::workers::counting_store::CountingStore;
use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::limits::HttpLimits;
use interzone_playground::{PlaygroundOptions, seed};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::slack::socket::{EnvelopeAck, EnvelopeHandler};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}

fn signature(time: u64, body: &str) -> String {
    let secret = PlaygroundOptions::default().signing_secret;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).unwrap();
    mac.update(format!("v0:{time}:{body}").as_bytes());
    let hex: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("v0={hex}")
}

fn event(id: &str, ts: &str) -> String {
    json!({
        "type": "event_callback", "event_id": id, "team_id": seed::TEAM,
        "event": {
            "type": "message", "channel": seed::DM_ALEX, "channel_type": "im", "user": seed::ALEX,
            "ts": ts, "text": "hello",
        },
    })
    .to_string()
}

async fn send(
    world: &VerificationFixture,
    path: &str,
    body: &str,
    headers: &[(&str, String)],
) -> (u16, String) {
    let client = reqwest::Client::new();
    let mut request = client.post(format!("{}{path}", world.running_node().url));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = request.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn send_signed(world: &VerificationFixture, path: &str, body: &str) -> (u16, String) {
    let time = now();
    let headers = [
        ("x-slack-request-timestamp", time.to_string()),
        ("x-slack-signature", signature(time, body)),
    ];
    send(world, path, body, &headers).await
}

#[tokio::test]
async fn fault_1_unsigned_requests_are_rejected() {
    let world = VerificationFixture::new().await;
    let body = event("Ev1", "1700000000.000100");
    let (time, old) = (now(), now() - 301);
    let headers = |time: String, signature: String| {
        vec![
            ("x-slack-request-timestamp", time),
            ("x-slack-signature", signature),
        ]
    };
    let good = || signature(time, &body);
    let mut twice = headers(time.to_string(), good());
    twice.push(("x-slack-signature", good()));
    let mut two_times = headers(time.to_string(), good());
    two_times.push(("x-slack-request-timestamp", time.to_string()));
    for (case, headers) in [
        ("nothing", Vec::new()),
        ("no time", vec![("x-slack-signature", good())]),
        (
            "no signature",
            vec![("x-slack-request-timestamp", time.to_string())],
        ),
        ("old", headers(old.to_string(), signature(old, &body))),
        (
            "future",
            headers((time + 600).to_string(), signature(time + 600, &body)),
        ),
        (
            "another body",
            headers(time.to_string(), signature(time, "{}")),
        ),
        ("twice", twice),
        ("two times", two_times),
        ("empty", headers(time.to_string(), String::new())),
    ] {
        for path in ["/slack/events", "/slack/interactions"] {
            let (status, text) = send(&world, path, &body, &headers).await;
            assert_eq!((status, text.as_str()), (401, "unauthorized"), "{case}");
        }
    }
    let challenge = json!({"type": "url_verification", "challenge": "c"}).to_string();
    let (status, _) = send(&world, "/slack/events", &challenge, &[]).await;
    assert_eq!(status, 401);
    assert_eq!(world.store.outbox_depth().await.unwrap(), (0, 0));
}

/// Opens a connection and sends the head of an event without its body.
async fn send_head(world: &VerificationFixture, time: u64, signature: &str) -> TcpStream {
    let address = world.running_node().url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /slack/events HTTP/1.1\r\nhost: zone\r\ncontent-length: 100000\r\n\
         x-slack-request-timestamp: {time}\r\nx-slack-signature: {signature}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn forged_requests_do_not_block_slack() {
    let world = VerificationFixture::with_setup(VerificationSetup {
        limits: HttpLimits {
            requests: 2,
            receiving_requests: 64,
            ..HttpLimits::default()
        },
        ..VerificationSetup::default()
    })
    .await;
    let made_up = format!("v0={}", "0".repeat(64));
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(send_head(&world, now(), &made_up).await);
    }
    // Four requests of one address may be receiving; the first four were ended when they are answered.
    for stream in &mut open[..4] {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    let body = event("Ev1", "1700000000.000100");
    let (status, text) = send_signed(&world, "/slack/events", &body).await;
    assert_eq!((status, text.as_str()), (200, ""));
    let client = reqwest::Client::new();
    let ready = client.get(format!("{}/healthz", world.running_node().url));
    assert_eq!(ready.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn invalid_signature_is_rejected_before_the_body() {
    let world = VerificationFixture::new().await;
    let made_up = format!("v0={}", "0".repeat(64));
    for (time, signature) in [(now() - 301, &*made_up), (now(), "v0=x"), (now(), "")] {
        let mut stream = send_head(&world, time, signature).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

#[tokio::test]
async fn challenge_is_echoed_and_unknown_events_get_200() {
    let world = VerificationFixture::new().await;
    assert!(world.playground.verify_url().await);
    for body in [
        "{}",
        "no json",
        r#"{"type":"event_callback"}"#,
        r#"{"type":"app_rate_limited","team_id":"T1"}"#,
        r#"{"type":"event_callback","event_id":"Ev9","team_id":"T1","event":{"type":"app_home_opened"}}"#,
    ] {
        let (status, text) = send_signed(&world, "/slack/events", body).await;
        assert_eq!((status, text.as_str()), (200, ""), "{body}");
        let (status, _) = send_signed(&world, "/slack/interactions", body).await;
        assert_eq!(status, 200, "{body}");
    }
    let large = "x".repeat(1024 * 1024 + 1);
    let (status, _) = send_signed(&world, "/slack/events", &large).await;
    assert_eq!(status, 413);
    assert_eq!(world.store.outbox_depth().await.unwrap(), (0, 0));
}

#[tokio::test]
async fn fault_6_repeated_event_is_answered_once() {
    let world = VerificationFixture::new().await;
    let ts = world
        .playground
        .post(seed::HANA, seed::DM_HANA, "first")
        .unwrap();
    world.wait_for_reaction(seed::DM_HANA, &ts).await;
    let body = event("Ev1", "1700000000.000100");
    for _ in 0..3 {
        assert_eq!(send_signed(&world, "/slack/events", &body).await.0, 200);
    }
    // The same message under another event id.
    let twin = event("Ev2", "1700000000.000100");
    assert_eq!(send_signed(&world, "/slack/events", &twin).await.0, 200);
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 2);
}

#[tokio::test]
async fn fault_6_event_is_not_acked_while_store_is_down() {
    let (mut world, store, schema) =
        VerificationFixture::with_postgres(VerificationSetup::default()).await;
    // The store is unavailable from here on.
    store.close();
    let body = event("Ev1", "1700000000.000100");
    let (status, text) = send_signed(&world, "/slack/events", &body).await;
    assert_eq!((status, text.as_str()), (503, "try again"));
    let zone = world.running_node().zone.clone();
    let payload = bytes::Bytes::from(body.clone());
    assert_eq!(zone.handle("events_api", payload).await, EnvelopeAck::Retry);
    let ready = reqwest::get(format!("{}/readyz", world.running_node().url));
    assert_eq!(ready.await.unwrap().status(), 503);
    // The store is available again, and Slack repeats the event.
    world.store = super::postgres(&schema).await;
    world.crash().await;
    world.start_node().await;
    assert_eq!(send_signed(&world, "/slack/events", &body).await.0, 200);
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 1);
}

#[tokio::test]
async fn readiness_checks_share_one_store_write_per_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verification.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = CountingStore::new(store.unwrap());
    let world =
        VerificationFixture::with_store(store.clone(), VerificationSetup::default(), folder).await;
    let url = format!("{}/readyz", world.running_node().url);
    let http = reqwest::Client::new();
    let started_at = std::time::Instant::now();
    let requests = (0..200).map(|_| http.get(&url).send());
    for response in futures_util::future::join_all(requests).await {
        assert_eq!(response.unwrap().status(), 200);
    }
    let max_checks = 1 + usize::try_from(started_at.elapsed().as_secs()).unwrap();
    let checks = store.call_count("check");
    assert!((1..=max_checks).contains(&checks), "{checks} checks");
}

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    let world = VerificationFixture::with_setup(VerificationSetup::default()).await;
    let get = async |path: &str| {
        let response = reqwest::get(format!("{}{path}", world.running_node().url));
        let response = response.await.unwrap();
        (response.status(), response.text().await.unwrap())
    };
    assert_eq!(get("/healthz").await.0, StatusCode::OK);
    let (status, text) = get("/readyz").await;
    let ready: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &ready["status"]),
        (StatusCode::OK, &json!("ready"))
    );
    send_signed(&world, "/slack/events", "{}").await;
    let (_, metrics) = get("/metrics").await;
    assert!(
        metrics.contains(r#"method="slack.events",outcome="ignored""#),
        "{metrics}"
    );
    assert_eq!(get("/nowhere").await.0, StatusCode::NOT_FOUND);
    assert!(world.running_node().workers.check_health().is_ok());
}
