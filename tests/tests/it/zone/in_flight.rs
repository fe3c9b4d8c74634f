//! Requests in flight: the zone limits them in total and per principal, over HTTP and WebSocket.

use super::{ZoneFixture, ZoneFixtureOptions, completed};
use futures_util::{SinkExt, StreamExt};
use interzone_edge::limits::HttpLimits;
use interzone_hub::TaskQuery;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// Starts a zone with a limit of eight requests in flight, and thus of two per principal.
async fn start_limited_zone() -> ZoneFixture {
    let limits = HttpLimits {
        requests: 8,
        ..HttpLimits::default()
    };
    ZoneFixture::with_options(ZoneFixtureOptions {
        limits,
        ..ZoneFixtureOptions::default()
    })
    .await
}

/// Call that waits until the test completes its task.
fn waiting_call(id: &str) -> Value {
    let params = json!({"channel": "C1", "text": "wait", "bot_token": "x"});
    json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": params})
}

fn list_call() -> Value {
    json!({"jsonrpc": "2.0", "id": "list", "method": "interzone.tasks.list"})
}

/// Sends a call over HTTP/1.1 on its own connection, without reading the response.
async fn send(world: &ZoneFixture, token: &str, call: &Value) -> DuplexStream {
    let mut stream = (world.connect)();
    let body = call.to_string();
    let head = format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: zone.test\r\ncontent-type: application/json\r\n\
         authorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// Reads a response: its head and its JSON body.
async fn read_response(mut stream: DuplexStream) -> (String, Value) {
    let mut response = Vec::new();
    loop {
        let mut piece = vec![0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        response.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&response).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_owned(), body);
        }
        assert!(read > 0, "incomplete response: {text}");
    }
}

async fn send_and_read(world: &ZoneFixture, token: &str, call: &Value) -> (String, Value) {
    read_response(send(world, token, call).await).await
}

/// Waits until this many tasks exist: their calls are in flight.
async fn wait_for_tasks(world: &ZoneFixture, tasks: u64) {
    let query = TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        status_since: None,
        after: None,
        limit: 1,
    };
    let created = async {
        while world.hub.store().count_tasks(&query).await.unwrap() < tasks {
            tokio::task::yield_now().await;
        }
    };
    let created = tokio::time::timeout(Duration::from_secs(15), created).await;
    created.expect("the tasks before the timeout");
}

async fn complete_a_task(world: &ZoneFixture) {
    let (run, turn) = world.claim_run().await;
    run.complete(&turn, completed("done")).await.unwrap();
}

fn assert_busy((head, body): &(String, Value)) {
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(head.contains("retry-after: 1"), "{head}");
    assert_busy_error(body);
}

fn assert_busy_error(body: &Value) {
    assert_eq!(body["error"]["code"], -32603, "{body}");
    assert_eq!(body["error"]["data"]["error_code"], "unavailable");
    assert_eq!(body["error"]["data"]["retryAfter"], 1);
}

#[tokio::test]
async fn principal_over_its_request_share_gets_503() {
    let world = start_limited_zone().await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    let first = send(&world, &alice, &waiting_call("1")).await;
    wait_for_tasks(&world, 1).await;
    let second = send(&world, &alice, &waiting_call("2")).await;
    wait_for_tasks(&world, 2).await;

    let rejected = send_and_read(&world, &alice, &waiting_call("3")).await;
    assert_busy(&rejected);
    assert_eq!(rejected.1["id"], "3");
    assert_busy(&send_and_read(&world, &alice, &list_call()).await);
    let answer = send_and_read(&world, &bob, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"], json!([]), "{answer}");

    complete_a_task(&world).await;
    let answer = read_response(first).await.1;
    assert_eq!(answer["result"]["status"], "success", "{answer}");
    let answer = send_and_read(&world, &alice, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 2);
    drop(second);
}

#[tokio::test]
async fn batch_counts_as_one_request() {
    let world = start_limited_zone().await;
    let alice = world.token("alice").await;
    let batch = |name: &str| {
        let calls = (0..3).map(|n| waiting_call(&format!("{name}{n}")));
        Value::Array(calls.collect())
    };
    let first = send(&world, &alice, &batch("a")).await;
    let _second = send(&world, &alice, &batch("b")).await;
    wait_for_tasks(&world, 6).await;
    let rejected = send_and_read(&world, &alice, &batch("c")).await;
    assert_busy(&rejected);
    assert_eq!(rejected.1["id"], Value::Null, "one error for the batch");

    // The response to a batch is sent when all its tasks are completed, and the order of the runs is unspecified.
    for _ in 0..6 {
        complete_a_task(&world).await;
    }
    let answers = read_response(first).await.1;
    assert_eq!(answers.as_array().unwrap().len(), 3);
    let answer = send_and_read(&world, &alice, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 6);
}

type Socket = WebSocketStream<DuplexStream>;

async fn open_socket(world: &ZoneFixture, token: &str) -> Socket {
    let started = world.result(token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap();
    let mut request = format!("ws://zone.test/streams/{id}")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let opened = tokio_tungstenite::client_async(request, (world.connect)()).await;
    opened.unwrap().0
}

async fn send_on_socket(socket: &mut Socket, call: &Value) {
    socket.send(Frame::text(call.to_string())).await.unwrap();
}

/// Reads the next response on a socket and skips notifications.
async fn read_from_socket(socket: &mut Socket) -> Value {
    loop {
        if let Frame::Text(text) = socket.next().await.unwrap().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["method"].is_null() {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn websocket_calls_count_as_requests_in_flight() {
    let world = start_limited_zone().await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    let mut first = open_socket(&world, &alice).await;
    let mut second = open_socket(&world, &alice).await;
    let mut third = open_socket(&world, &alice).await;
    send_on_socket(&mut first, &waiting_call("1")).await;
    wait_for_tasks(&world, 1).await;
    send_on_socket(&mut second, &waiting_call("2")).await;
    wait_for_tasks(&world, 2).await;

    send_on_socket(&mut third, &list_call()).await;
    let rejected = read_from_socket(&mut third).await;
    assert_eq!(rejected["id"], "list");
    assert_busy_error(&rejected);
    assert_busy(&send_and_read(&world, &alice, &list_call()).await);
    let answer = send_and_read(&world, &bob, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"], json!([]), "{answer}");

    complete_a_task(&world).await;
    let answer = read_from_socket(&mut first).await;
    assert_eq!(answer["result"]["status"], "success", "{answer}");
    send_on_socket(&mut third, &list_call()).await;
    let answer = read_from_socket(&mut third).await;
    assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 2);
}
