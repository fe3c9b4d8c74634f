//! Large request bodies: the token is checked before they are read, and their memory counts against the principal.

use super::{ZoneFixture, ZoneFixtureOptions, user_message};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use interzone_edge::budget::MemoryBudget;
use interzone_edge::limits::HttpLimits;
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;

const PAGE: usize = MemoryBudget::PAGE;
/// Length of the test bodies.
const LENGTH: usize = 3 * PAGE;

/// Starts a zone with a body memory of eight pages. A principal may use two of them, or more for a single body.
async fn start_zone_with_budget() -> ZoneFixture {
    ZoneFixture::with_options(ZoneFixtureOptions {
        limits: HttpLimits {
            body_memory: MemoryBudget::new(8 * PAGE),
            ..HttpLimits::default()
        },
        ..ZoneFixtureOptions::default()
    })
    .await
}

/// Request head of a call with a body of [`LENGTH`] bytes, with `Content-Length` or chunked.
fn head(token: Option<&str>, has_length: bool) -> String {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let length = match has_length {
        true => format!("content-length: {LENGTH}"),
        false => "transfer-encoding: chunked".to_owned(),
    };
    format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: zone.test\r\ncontent-type: application/json\r\n{}{length}\r\n\r\n",
        token.unwrap_or_default()
    )
}

/// Sends a head and all of the body except the last byte.
async fn send_without_last_byte(world: &ZoneFixture, token: Option<&str>) -> DuplexStream {
    let mut stream = (world.connect)();
    stream
        .write_all(head(token, true).as_bytes())
        .await
        .unwrap();
    let body = vec![b' '; LENGTH - 1];
    stream.write_all(&body).await.unwrap();
    stream
}

/// Reads a response: its status and its JSON body.
async fn read_response(stream: &mut DuplexStream) -> (u16, Value) {
    let mut response = Vec::new();
    loop {
        let mut piece = vec![0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        response.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&response).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            let status = head.split(' ').nth(1).unwrap();
            return (status.parse().unwrap(), body);
        }
        assert!(read > 0, "incomplete response: {text}");
    }
}

/// Creates a task with a message of 100 KB. Returns the status and the JSON body.
async fn create_large(world: &ZoneFixture, token: &str) -> (u16, Value) {
    let params = json!({"initialMessage": user_message(&"x".repeat(100_000))});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.create", "params": params});
    let body = call.to_string();
    let mut stream = (world.connect)();
    let head = head(Some(token), true).replace(
        &format!("content-length: {LENGTH}"),
        &format!("content-length: {}", body.len()),
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    read_response(&mut stream).await
}

#[tokio::test]
async fn unauthenticated_bodies_take_no_memory() {
    let world = start_zone_with_budget().await;
    let token = world.token("alice").await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(send_without_last_byte(&world, None).await);
    }
    let (status, answer) = create_large(&world, &token).await;
    assert_eq!(status, 200, "{answer}");
    for stream in &mut open {
        let (status, answer) = read_response(stream).await;
        assert_eq!(status, 401, "{answer}");
        assert_eq!(answer["id"], Value::Null);
    }
}

#[tokio::test]
async fn token_is_checked_before_a_large_body_is_read() {
    let world = start_zone_with_budget().await;
    let expired = world.token("alice").await;
    world.clock.advance(Duration::from_secs(24 * 3_600));
    for token in [None, Some("rubbish"), Some(&*expired)] {
        let mut stream = (world.connect)();
        stream
            .write_all(head(token, true).as_bytes())
            .await
            .unwrap();
        let (status, answer) = read_response(&mut stream).await;
        assert_eq!(status, 401, "{token:?} {answer}");

        // Without `Content-Length`, the token is checked once the body exceeds one page.
        let mut stream = (world.connect)();
        stream
            .write_all(head(token, false).as_bytes())
            .await
            .unwrap();
        let chunk = format!("{:x}\r\n{}\r\n", PAGE + 1, " ".repeat(PAGE + 1));
        stream.write_all(chunk.as_bytes()).await.unwrap();
        let (status, answer) = read_response(&mut stream).await;
        assert_eq!(status, 401, "{token:?} {answer}");
    }
}

#[tokio::test]
async fn small_invalid_json_gets_400_with_any_token() {
    let world = start_zone_with_budget().await;
    let (status, _, body) = world.post("rubbish", "{".repeat(PAGE)).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status.as_u16(), &answer["error"]["code"]),
        (400, &json!(-32700))
    );
}

#[tokio::test]
async fn large_bodies_of_one_principal_leave_memory_for_others() {
    let world = start_zone_with_budget().await;
    static SERVED: Notify = Notify::const_new();
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    let open = (0..6).map(|_| send_without_last_byte(&world, Some(&alice)));
    let open = futures_util::future::join_all(open).await;
    // Only one of her bodies at a time fits into her share; which one is unspecified.
    let answers = open.into_iter().map(|mut stream| async move {
        let answer = tokio::select! {
            answer = read_response(&mut stream) => Some(answer),
            () = SERVED.notified() => None,
        };
        (stream, answer)
    });
    let answers: FuturesUnordered<_> = answers.collect();
    let mut answers = pin!(answers);
    for _ in 0..5 {
        let (_, answer) = answers.next().await.unwrap();
        let (status, answer) = answer.unwrap();
        assert_eq!(status, 503, "{answer}");
    }
    let (status, answer) = create_large(&world, &bob).await;
    assert_eq!(status, 200, "{answer}");
    SERVED.notify_one();
    let (mut last, none) = answers.next().await.unwrap();
    assert!(none.is_none(), "{none:?}");
    last.write_all(b" ").await.unwrap();
    assert_eq!(
        read_response(&mut last).await.0,
        400,
        "a body of spaces only"
    );
}
