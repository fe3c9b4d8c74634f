//! The doors: who is let in, what is answered, and what happens when the store is away.

use super::{Setup, World};
use crate::workers::counting::Counting;
use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::limits::HttpLimits;
use interzone_playground::{PlaygroundOptions, seed};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::slack::socket::{Ack, Envelopes};
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

async fn send(world: &World, path: &str, body: &str, headers: &[(&str, String)]) -> (u16, String) {
    let client = reqwest::Client::new();
    let mut request = client.post(format!("{}{path}", world.running().url));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = request.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn send_signed(world: &World, path: &str, body: &str) -> (u16, String) {
    let time = now();
    let headers = [
        ("x-slack-request-timestamp", time.to_string()),
        ("x-slack-signature", signature(time, body)),
    ];
    send(world, path, body, &headers).await
}

#[tokio::test]
async fn fault_1_what_is_not_signed_is_not_believed() {
    let world = World::new().await;
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
    for (why, headers) in [
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
            assert_eq!((status, text.as_str()), (401, "unauthorized"), "{why}");
        }
    }
    let challenge = json!({"type": "url_verification", "challenge": "c"}).to_string();
    let (status, _) = send(&world, "/slack/events", &challenge, &[]).await;
    assert_eq!(status, 401);
    assert_eq!(world.store.outbox_depth().await.unwrap(), (0, 0));
}

/// Opens a connection and sends the head of an event whose body does not come.
async fn send_head(world: &World, time: u64, signature: &str) -> TcpStream {
    let address = world.running().url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /slack/events HTTP/1.1\r\nhost: zone\r\ncontent-length: 100000\r\n\
         x-slack-request-timestamp: {time}\r\nx-slack-signature: {signature}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn requests_with_made_up_signatures_do_not_keep_slack_out() {
    let world = World::with(Setup {
        limits: HttpLimits {
            requests: 2,
            arriving: 64,
            ..HttpLimits::default()
        },
        ..Setup::default()
    })
    .await;
    let made_up = format!("v0={}", "0".repeat(64));
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(send_head(&world, now(), &made_up).await);
    }
    // Four of one address may be arriving; the first four have been ended when they are answered.
    for stream in &mut open[..4] {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    let body = event("Ev1", "1700000000.000100");
    let (status, text) = send_signed(&world, "/slack/events", &body).await;
    assert_eq!((status, text.as_str()), (200, ""));
    let client = reqwest::Client::new();
    let ready = client.get(format!("{}/healthz", world.running().url));
    assert_eq!(ready.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn body_is_not_waited_for_when_its_signature_cannot_be_slacks() {
    let world = World::new().await;
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
async fn a_challenge_is_echoed_and_what_is_unknown_is_taken_politely() {
    let world = World::new().await;
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
async fn fault_6_an_event_that_comes_again_is_answered_once() {
    let world = World::new().await;
    let ts = world
        .playground
        .post(seed::HANA, seed::DM_HANA, "first")
        .unwrap();
    world.sign(seed::DM_HANA, &ts).await;
    let body = event("Ev1", "1700000000.000100");
    for _ in 0..3 {
        assert_eq!(send_signed(&world, "/slack/events", &body).await.0, 200);
    }
    // Its twin has another name and is the same message.
    let twin = event("Ev2", "1700000000.000100");
    assert_eq!(send_signed(&world, "/slack/events", &twin).await.0, 200);
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 2);
}

#[tokio::test]
async fn fault_6_what_cannot_be_kept_is_not_acknowledged_and_comes_again() {
    let (mut world, store, schema) = World::on_postgres(Setup::default()).await;
    // Nobody reaches the store any more.
    store.close();
    let body = event("Ev1", "1700000000.000100");
    let (status, text) = send_signed(&world, "/slack/events", &body).await;
    assert_eq!((status, text.as_str()), (503, "try again"));
    let zone = world.running().zone.clone();
    let payload = bytes::Bytes::from(body.clone());
    assert_eq!(zone.envelope("events_api", payload).await, Ack::Later);
    let ready = reqwest::get(format!("{}/readyz", world.running().url));
    assert_eq!(ready.await.unwrap().status(), 503);
    // Now somebody does, and Slack tells it again.
    world.store = super::postgres(&schema).await;
    world.crash().await;
    world.start().await;
    assert_eq!(send_signed(&world, "/slack/events", &body).await.0, 200);
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 1);
}

#[tokio::test]
async fn readiness_requests_share_one_write_to_the_store_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verification.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = Counting::new(store.unwrap());
    let world = World::on(store.clone(), Setup::default(), folder).await;
    let url = format!("{}/readyz", world.running().url);
    let http = reqwest::Client::new();
    let began = std::time::Instant::now();
    let requests = (0..200).map(|_| http.get(&url).send());
    for response in futures_util::future::join_all(requests).await {
        assert_eq!(response.unwrap().status(), 200);
    }
    let most = 1 + usize::try_from(began.elapsed().as_secs()).unwrap();
    let checks = store.count("check");
    assert!((1..=most).contains(&checks), "{checks} checks");
}

#[tokio::test]
async fn operators_see_how_it_is() {
    let world = World::with(Setup::default()).await;
    let get = async |path: &str| {
        let response = reqwest::get(format!("{}{path}", world.running().url));
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
    assert!(world.running().workers.healthy().is_ok());
}
