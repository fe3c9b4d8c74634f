//! Requests in flight: one principal has a share of what the zone works on at once, however it sends them.

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

/// A zone that works on eight requests at once, of which two may be of one principal.
async fn world() -> ZoneFixture {
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

/// A call that waits until a test ends its task by hand.
fn waiting_call(id: &str) -> Value {
    let params = json!({"channel": "C1", "text": "wait", "bot_token": "x"});
    json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": params})
}

fn list_call() -> Value {
    json!({"jsonrpc": "2.0", "id": "list", "method": "interzone.tasks.list"})
}

/// Sends a call by HTTP/1.1 on a connection of its own.
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

/// The head of an answer, and its JSON.
async fn answered(mut stream: DuplexStream) -> (String, Value) {
    let mut answer = Vec::new();
    loop {
        let mut piece = vec![0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_owned(), body);
        }
        assert!(read > 0, "no answer: {text}");
    }
}

async fn ask(world: &ZoneFixture, token: &str, call: &Value) -> (String, Value) {
    answered(send(world, token, call).await).await
}

/// Waits until there are so many tasks: their calls are in flight then.
async fn until_begun(world: &ZoneFixture, tasks: u64) {
    let query = TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        updated_since: None,
        after: None,
        limit: 1,
    };
    let begun = async {
        while world.hub.store().count_tasks(&query).await.unwrap() < tasks {
            tokio::task::yield_now().await;
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(15), begun).await;
    begun.expect("the calls are in flight");
}

async fn end_a_task(world: &ZoneFixture) {
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
async fn principal_with_its_share_in_flight_is_refused_and_others_are_answered() {
    let world = world().await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    let first = send(&world, &alice, &waiting_call("1")).await;
    until_begun(&world, 1).await;
    let second = send(&world, &alice, &waiting_call("2")).await;
    until_begun(&world, 2).await;

    let refused = ask(&world, &alice, &waiting_call("3")).await;
    assert_busy(&refused);
    assert_eq!(refused.1["id"], "3");
    assert_busy(&ask(&world, &alice, &list_call()).await);
    let answer = ask(&world, &bob, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"], json!([]), "{answer}");

    end_a_task(&world).await;
    let answer = answered(first).await.1;
    assert_eq!(answer["result"]["status"], "success", "{answer}");
    let answer = ask(&world, &alice, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 2);
    drop(second);
}

#[tokio::test]
async fn batch_counts_as_one_request() {
    let world = world().await;
    let alice = world.token("alice").await;
    let batch = |name: &str| {
        let calls = (0..3).map(|n| waiting_call(&format!("{name}{n}")));
        Value::Array(calls.collect())
    };
    let first = send(&world, &alice, &batch("a")).await;
    let _second = send(&world, &alice, &batch("b")).await;
    until_begun(&world, 6).await;
    let refused = ask(&world, &alice, &batch("c")).await;
    assert_busy(&refused);
    assert_eq!(refused.1["id"], Value::Null, "one error for the whole");

    // All tasks of one batch must end before it is answered; which run comes first is not said.
    for _ in 0..6 {
        end_a_task(&world).await;
    }
    let answers = answered(first).await.1;
    assert_eq!(answers.as_array().unwrap().len(), 3);
    let answer = ask(&world, &alice, &list_call()).await.1;
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

async fn say(socket: &mut Socket, call: &Value) {
    socket.send(Frame::text(call.to_string())).await.unwrap();
}

/// The next answer on a socket; what is told of its stream is left out.
async fn heard(socket: &mut Socket) -> Value {
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
async fn calls_on_sockets_count_like_other_requests() {
    let world = world().await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    let mut first = open_socket(&world, &alice).await;
    let mut second = open_socket(&world, &alice).await;
    let mut third = open_socket(&world, &alice).await;
    say(&mut first, &waiting_call("1")).await;
    until_begun(&world, 1).await;
    say(&mut second, &waiting_call("2")).await;
    until_begun(&world, 2).await;

    say(&mut third, &list_call()).await;
    let refused = heard(&mut third).await;
    assert_eq!(refused["id"], "list");
    assert_busy_error(&refused);
    assert_busy(&ask(&world, &alice, &list_call()).await);
    let answer = ask(&world, &bob, &list_call()).await.1;
    assert_eq!(answer["result"]["tasks"], json!([]), "{answer}");

    end_a_task(&world).await;
    let answer = heard(&mut first).await;
    assert_eq!(answer["result"]["status"], "success", "{answer}");
    say(&mut third, &list_call()).await;
    let answer = heard(&mut third).await;
    assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 2);
}
