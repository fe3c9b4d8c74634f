//! Invalid requests: the zone answers with a clear JSON-RPC error or closes the connection, and keeps serving.

use super::rpc::{HttpReply, error_code};
use super::within_timeout;
use super::zone_process::{ZoneBuilder, ZoneProcess, user_message};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// A call for a task that does not exist.
fn get_task_request(task: &str) -> String {
    let params = json!({"taskId": task});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": params}).to_string()
}

fn assert_rejected(reply: &HttpReply, status: u16, code: i64, name: &str) {
    assert_eq!(
        (reply.status, reply.code()),
        (status, code),
        "{name}: {reply:?}"
    );
    assert_eq!(reply.header("content-type"), "application/json", "{name}");
    assert!(!reply.header("x-correlation-id").is_empty(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_json_rpc_bodies_are_rejected() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let nested = |depth: usize| {
        let inner = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tasks.create","params":{{"initialMessage":{{"role":"user","parts":[{{"type":"DataPart","content":{inner}}}]}}}}}}"#
        )
    };
    let table: Vec<(&str, Vec<u8>, i64)> = vec![
        ("nothing", b"".to_vec(), PARSE_ERROR),
        ("spaces", b"   \n".to_vec(), PARSE_ERROR),
        ("rubbish", b"<xml/>".to_vec(), PARSE_ERROR),
        (
            "half",
            br#"{"jsonrpc":"2.0","id":1,"method":"#.to_vec(),
            PARSE_ERROR,
        ),
        (
            "two",
            br#"{"jsonrpc":"2.0","id":1,"method":"tasks.get"} {}"#.to_vec(),
            PARSE_ERROR,
        ),
        (
            "not a number",
            br#"{"jsonrpc":"2.0","id":NaN,"method":"tasks.get"}"#.to_vec(),
            PARSE_ERROR,
        ),
        (
            "bad UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\",\"method\":\"tasks.get\"}".to_vec(),
            PARSE_ERROR,
        ),
        (
            "cut UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\xe2\x98\",\"method\":\"tasks.get\"}".to_vec(),
            PARSE_ERROR,
        ),
        (
            "a surrogate as bytes",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\xed\xa0\x80\",\"method\":\"tasks.get\"}".to_vec(),
            PARSE_ERROR,
        ),
        (
            "UTF-16",
            "{\"jsonrpc\":\"2.0\"}"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
            PARSE_ERROR,
        ),
        (
            "a zero byte",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\0\",\"method\":\"tasks.get\"}".to_vec(),
            PARSE_ERROR,
        ),
        ("deep nesting", nested(100_000).into_bytes(), PARSE_ERROR),
        ("deep and unfinished", vec![b'['; 1_000_000], PARSE_ERROR),
        (
            "deep objects",
            "{\"a\":".repeat(200_000).into_bytes(),
            PARSE_ERROR,
        ),
        ("null", b"null".to_vec(), INVALID_REQUEST),
        ("a number", b"42".to_vec(), INVALID_REQUEST),
        ("a text", b"\"tasks.get\"".to_vec(), INVALID_REQUEST),
        ("an empty batch", b"[]".to_vec(), INVALID_REQUEST),
        ("an empty object", b"{}".to_vec(), INVALID_REQUEST),
        (
            "no version",
            br#"{"id":1,"method":"tasks.get"}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "another version",
            br#"{"jsonrpc":"1.0","id":1,"method":"tasks.get"}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "a member too many",
            br#"{"jsonrpc":"2.0","id":1,"method":"tasks.get","more":1}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "a method twice",
            br#"{"jsonrpc":"2.0","id":1,"method":"tasks.get","method":"tasks.cancel"}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "a method that is a number",
            br#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "an id that is a list",
            br#"{"jsonrpc":"2.0","id":[1],"method":"tasks.get"}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "an id that is true",
            br#"{"jsonrpc":"2.0","id":true,"method":"tasks.get"}"#.to_vec(),
            INVALID_REQUEST,
        ),
        (
            "half an id",
            br#"{"jsonrpc":"2.0","id":1.5,"method":"tasks.get"}"#.to_vec(),
            INVALID_REQUEST,
        ),
    ];
    for (name, body, code) in table {
        let reply = zone.post(&token, body).await;
        assert_rejected(&reply, 400, code, name);
    }
    for (name, params) in [("a list", "[1]"), ("a number", "7"), ("a text", "\"x\"")] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tasks.get","params":{params}}}"#);
        let reply = zone.post(&token, body).await;
        assert!(
            [INVALID_PARAMS, INVALID_REQUEST].contains(&reply.code()),
            "{name}: {reply:?}"
        );
    }
    // Nesting below the limit is accepted.
    let reply = zone.post(&token, nested(60)).await;
    assert!(reply.json().get("result").is_some(), "{reply:?}");
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_limited_and_answered_per_entry() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let get = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tasks.get", "params": {"taskId": "x"}});
    let many: Vec<Value> = (0..10_000).map(get).collect();
    let reply = zone.post(&token, json!(many).to_string()).await;
    assert_rejected(&reply, 400, INVALID_REQUEST, "10,000 at once");
    let full: Vec<Value> = (0..1000).map(get).collect();
    let reply = zone.post(&token, json!(full).to_string()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json().as_array().unwrap().len(), 1000);

    let mixed = json!([
        get(7), 1, {}, {"jsonrpc": "2.0", "method": "tasks.get", "params": {"taskId": "x"}},
        {"jsonrpc": "2.0", "id": "made", "method": "tasks.create", "params": {"initialMessage": user_message("echo x"), "assignTo": "demo"}},
        {"jsonrpc": "2.0", "id": null, "method": "nothing.like.it"},
    ]);
    let reply = zone.post(&token, mixed.to_string()).await;
    assert_eq!(reply.status, 200);
    let answers = reply.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 5, "{answers:#?}");
    let by_id = |id: Value| answers.iter().filter(move |answer| answer["id"] == id);
    assert_eq!(
        by_id(json!(7)).map(error_code).collect::<Vec<_>>(),
        [-40001]
    );
    assert_eq!(
        by_id(json!("made")).next().unwrap()["result"]["type"],
        "task"
    );
    let mut without_id: Vec<i64> = by_id(Value::Null).map(error_code).collect();
    without_id.sort_unstable();
    assert_eq!(
        without_id,
        [METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_REQUEST]
    );

    let notifications =
        json!([{"jsonrpc": "2.0", "method": "tasks.get"}, {"jsonrpc": "2.0", "method": "no.such"}]);
    let reply = zone.post(&token, notifications.to_string()).await;
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_params_error_names_the_field() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    for method in [
        "tasks.getBatch",
        "tasks.list.all",
        "Tasks.Get",
        "tasks.get ",
        "rpc.discover",
        "__proto__",
        "tasks/get\u{0}",
    ] {
        let (code, data) = zone.call_error(&token, method, json!({})).await;
        assert_eq!(code, METHOD_NOT_FOUND, "{method:?}: {data}");
    }
    let message = user_message("hello");
    let table = [
        ("tasks.get", json!({}), "params.taskId"),
        ("tasks.get", json!({"taskId": 7}), "params.taskId"),
        ("tasks.get", json!({"taskId": null}), "params.taskId"),
        (
            "tasks.get",
            json!({"taskId": "x", "includeMessages": "yes"}),
            "params.includeMessages",
        ),
        ("tasks.create", json!({}), "params.initialMessage"),
        (
            "tasks.create",
            json!({"initialMessage": "hello"}),
            "params.initialMessage",
        ),
        (
            "tasks.create",
            json!({"initialMessage": {"parts": []}}),
            "params.initialMessage.role",
        ),
        (
            "tasks.create",
            json!({"initialMessage": {"role": "king", "parts": [{"type": "TextPart"}]}}),
            "params.initialMessage.role",
        ),
        (
            "tasks.create",
            json!({"initialMessage": {"role": "user", "parts": []}}),
            "params.initialMessage.parts",
        ),
        (
            "tasks.create",
            json!({"initialMessage": {"role": "user", "parts": [{"type": "text"}]}}),
            "params.initialMessage.parts[0].type",
        ),
        (
            "tasks.create",
            json!({"initialMessage": {"role": "user", "parts": [{"type": "TextPart", "size": "big"}]}}),
            "params.initialMessage.parts[0].size",
        ),
        (
            "tasks.create",
            json!({"initialMessage": {"role": "user", "parts": [{"type": "TextPart", "encoding": "rot13"}]}}),
            "params.initialMessage.parts[0].encoding",
        ),
        (
            "tasks.create",
            json!({"initialMessage": message, "priority": "MEDIUM"}),
            "params.priority",
        ),
        (
            "tasks.create",
            json!({"initialMessage": message, "metadata": []}),
            "params.metadata",
        ),
        (
            "tasks.create",
            json!({"initialMessage": message, "assignTo": {}}),
            "params.assignTo",
        ),
        ("tasks.send", json!({"taskId": "x"}), "params.message"),
        (
            "tasks.cancel",
            json!({"taskId": "x", "reason": 7}),
            "params.reason",
        ),
        (
            "tasks.subscribe",
            json!({"taskId": "x"}),
            "params.callbackUrl",
        ),
        (
            "tasks.subscribe",
            json!({"taskId": "x", "callbackUrl": "https://example.com/", "events": ["DONE"]}),
            "params.events[0]",
        ),
        (
            "stream.start",
            json!({"participants": "demo"}),
            "params.participants",
        ),
        (
            "stream.message",
            json!({"message": message}),
            "params.streamId",
        ),
        (
            "stream.chunk",
            json!({"streamId": "x", "chunk": message}),
            "params.sequence",
        ),
        (
            "stream.chunk",
            json!({"streamId": "x", "chunk": message, "sequence": 1.5}),
            "params.sequence",
        ),
        (
            "task.notification",
            json!({"taskId": "x", "event": "DONE", "timestamp": "2026-01-01T00:00:00Z"}),
            "params.event",
        ),
        (
            "task.notification",
            json!({"taskId": "x", "event": "COMPLETED", "timestamp": "yesterday"}),
            "params.timestamp",
        ),
    ];
    for (method, params, field) in table {
        let (code, data) = zone.call_error(&token, method, params.clone()).await;
        assert_eq!(
            (code, data["field"].as_str().unwrap_or_default()),
            (INVALID_PARAMS, field),
            "{method} {params}: {data}"
        );
    }
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_other_callers_look_unknown() {
    let zone = ZoneBuilder::new().start().await;
    let (anna, bert) = (zone.token("anna"), zone.token("bert"));
    let task = zone.create_task(&anna, "demo", "ask something").await;
    zone.watch(&anna, &format!("tasks/{task}"), None)
        .await
        .until(|event| event.params()["data"]["status"] == "INPUT_REQUIRED")
        .await;
    let started = zone
        .call(&anna, "stream.start", json!({"participants": ["demo"]}))
        .await;
    let stream = started["stream"]["streamId"].as_str().unwrap();
    let message = user_message("mine now");
    let now = "2026-01-01T00:00:00Z";
    for (method, params, missing, code) in [
        ("tasks.get", json!({"taskId": task}), "taskId", -40001),
        (
            "tasks.send",
            json!({"taskId": task, "message": message}),
            "taskId",
            -40001,
        ),
        ("tasks.cancel", json!({"taskId": task}), "taskId", -40001),
        (
            "tasks.subscribe",
            json!({"taskId": task, "callbackUrl": "https://example.com/"}),
            "taskId",
            -40001,
        ),
        (
            "stream.message",
            json!({"streamId": stream, "message": message}),
            "streamId",
            -40003,
        ),
        (
            "stream.chunk",
            json!({"streamId": stream, "chunk": message, "sequence": 1}),
            "streamId",
            -40003,
        ),
        (
            "stream.end",
            json!({"streamId": stream}),
            "streamId",
            -40003,
        ),
    ] {
        let foreign_reply = zone.send_call(&bert, method, params.clone()).await;
        let mut unknown = params.clone();
        unknown[missing] = json!("0198c0de-0000-7000-8000-000000000000");
        let unknown_reply = zone.send_call(&bert, method, unknown).await;
        // Apart from the id that was sent, the two responses must be the same, or ids could be guessed.
        assert_eq!(
            (foreign_reply.status, foreign_reply.code()),
            (unknown_reply.status, unknown_reply.code()),
            "{method}"
        );
        let comparable_error = |reply: &HttpReply| {
            let mut data = reply.json()["error"].take();
            for name in [missing, "timestamp"] {
                data["data"]
                    .as_object_mut()
                    .map(|members| members.remove(name));
            }
            data
        };
        assert_eq!(
            comparable_error(&foreign_reply),
            comparable_error(&unknown_reply),
            "{method}"
        );
        // On a stream, a caller that does not take part may also be told so (contract, 4).
        assert!(
            foreign_reply.code() == code
                || (missing == "streamId" && foreign_reply.code() == -40006),
            "{method}: {foreign_reply:?}"
        );
    }
    // Other callers may send notifications for any task id; this task does not change.
    let notification = json!({"taskId": task, "event": "COMPLETED", "timestamp": now});
    let accepted = zone
        .call(&bert, "task.notification", notification.clone())
        .await;
    let mut unknown = notification;
    unknown["taskId"] = json!("no-such-task");
    assert_eq!(
        zone.call(&bert, "task.notification", unknown).await,
        accepted
    );
    let task_now = zone.task(&anna, &task).await;
    assert_eq!(task_now["status"], "INPUT_REQUIRED");
    assert_eq!(
        zone.task(&anna, &task).await["messages"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "nothing was added"
    );
    zone.call(&anna, "stream.end", json!({"streamId": stream}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_http_requests_are_rejected() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let body = get_task_request("x");
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = zone
            .http
            .request(method.clone(), format!("{}/jsonrpc", zone.url))
            .bearer_auth(&token);
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        assert_rejected(&reply, 405, INVALID_REQUEST, method.as_str());
        assert!(reply.header("allow").contains("POST"), "{reply:?}");
    }
    for kind in [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
    ] {
        let request = zone
            .http
            .post(format!("{}/jsonrpc", zone.url))
            .bearer_auth(&token);
        let request = if kind.is_empty() {
            request
        } else {
            request.header("content-type", kind)
        };
        let reply = HttpReply::read(request.body(body.clone()).send().await.unwrap()).await;
        assert_rejected(&reply, 415, INVALID_REQUEST, kind);
    }
    for kind in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/json;charset=UTF-8",
    ] {
        let request = zone
            .http
            .post(format!("{}/jsonrpc", zone.url))
            .bearer_auth(&token);
        let request = request
            .header("content-type", kind)
            .header("x-correlation-id", "abc-123");
        let reply = HttpReply::read(request.body(body.clone()).send().await.unwrap()).await;
        assert_eq!((reply.status, reply.code()), (200, -40001), "{kind}");
        assert_eq!(reply.header("x-correlation-id"), "abc-123");
    }
    let reply = zone.get("/nothing/here").await;
    assert_eq!(reply.status, 404, "{reply:?}");
    for path in [
        "/tasks/../../etc/passwd/events",
        "/tasks/%00/events",
        "/streams/%ff",
        "/.well-known/../metrics",
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        let mut raw = zone.raw_connection().await;
        raw.send(request.as_bytes()).await;
        let reply = raw.reply().await.unwrap();
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
    }
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_bodies_get_413() {
    let zone = ZoneBuilder::new().set("limits.body", "64KiB").start().await;
    let token = zone.token("anna");
    let authorization =
        format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
    let big = vec![b' '; 70_000];
    let reply = zone.post(&token, big.clone()).await;
    assert_rejected(&reply, 413, INVALID_REQUEST, "a big body");
    // Rejected by the content length, before the body is sent.
    let reply = zone
        .raw_post(
            &format!("{authorization}content-length: 99999999999\r\n"),
            b"",
        )
        .await;
    assert_rejected(&reply, 413, INVALID_REQUEST, "a big length");
    // Without a length: rejected when the limit is exceeded, not at the end of the body.
    let mut chunked = Vec::new();
    for block in big.chunks(1000) {
        chunked.extend(format!("{:x}\r\n", block.len()).into_bytes());
        chunked.extend(block);
        chunked.extend(b"\r\n");
    }
    let reply = zone
        .raw_post(
            &format!("{authorization}transfer-encoding: chunked\r\n"),
            &chunked,
        )
        .await;
    assert_rejected(&reply, 413, INVALID_REQUEST, "a big body in chunks");
    let mut just = get_task_request("x").into_bytes();
    just.resize(65_536, b' ');
    assert_eq!(
        zone.post(&token, just).await.code(),
        -40001,
        "exactly at the limit"
    );
    zone.assert_serving().await;
}

/// Sends raw bytes on a TLS connection and expects one of these statuses; 0 stands for a closed connection.
async fn assert_raw_status(zone: &ZoneProcess, name: &str, bytes: &[u8], statuses: &[u16]) {
    let mut raw = zone.raw_connection().await;
    raw.send(bytes).await;
    match raw.reply().await {
        Some(reply) => assert!(statuses.contains(&reply.status), "{name}: {reply:?}"),
        None => assert!(statuses.contains(&0), "{name}: connection closed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_http_is_rejected() {
    let zone = ZoneBuilder::new()
        .set("limits.body_timeout", "2s")
        .set("limits.header_timeout", "2s")
        .start()
        .await;
    let token = zone.token("anna");
    let head = format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
    );
    let body = get_task_request("x");
    let length = body.len();
    let post = |headers: &str, body: &str| format!("{head}{headers}\r\n{body}").into_bytes();
    assert_raw_status(
        &zone,
        "a valid request",
        &post(&format!("content-length: {length}\r\n"), &body),
        &[200],
    )
    .await;
    assert_raw_status(
        &zone,
        "two lengths",
        &post(
            &format!("content-length: {length}\r\ncontent-length: 3\r\n"),
            &body,
        ),
        &[400],
    )
    .await;
    assert_raw_status(
        &zone,
        "a length and chunks",
        &post(
            &format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
            "0\r\n\r\n",
        ),
        &[400, 0],
    )
    .await;
    assert_raw_status(
        &zone,
        "a length below nothing",
        &post("content-length: -1\r\n", &body),
        &[400],
    )
    .await;
    assert_raw_status(
        &zone,
        "a length in words",
        &post("content-length: all\r\n", &body),
        &[400],
    )
    .await;
    assert_raw_status(
        &zone,
        "another coding",
        &post("transfer-encoding: gzip\r\n", &body),
        &[400, 411, 501],
    )
    .await;
    assert_raw_status(
        &zone,
        "a chunk without a size",
        &post("transfer-encoding: chunked\r\n", "zz\r\nabc\r\n"),
        &[400, 0],
    )
    .await;
    assert_raw_status(
        &zone,
        "a space in a name",
        &post(&format!("x y: z\r\ncontent-length: {length}\r\n"), &body),
        &[400],
    )
    .await;
    assert_raw_status(
        &zone,
        "a line too many",
        b"\r\n\r\n\r\n\r\nhello\r\n\r\n",
        &[400, 0],
    )
    .await;
    assert_raw_status(
        &zone,
        "not HTTP at all",
        b"\x00\x01\x02\x03 rubbish \xff\r\n\r\n",
        &[400, 0],
    )
    .await;
    assert_raw_status(
        &zone,
        "another version",
        b"GET / HTTP/9.9\r\n\r\n",
        &[400, 505, 0],
    )
    .await;
    let huge = format!(
        "x-big: {}\r\ncontent-length: {length}\r\n",
        "y".repeat(100_000)
    );
    assert_raw_status(&zone, "a huge header", &post(&huge, &body), &[431, 0]).await;
    let many: String = (0..2_000).map(|n| format!("x-{n}: y\r\n")).collect();
    assert_raw_status(
        &zone,
        "many headers",
        &post(&format!("{many}content-length: {length}\r\n"), &body),
        &[431, 0],
    )
    .await;
    let long = format!(
        "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "a".repeat(100_000)
    );
    assert_raw_status(&zone, "a long path", long.as_bytes(), &[404, 414, 431, 0]).await;

    // Half a request, then a half-close: answered or closed, not waited for.
    for (name, part) in [
        (
            "half a body",
            post(&format!("content-length: {length}\r\n"), &body[..10]),
        ),
        (
            "half a chunk",
            post("transfer-encoding: chunked\r\n", "ff\r\n{\"json"),
        ),
        ("half a head", head.clone().into_bytes()),
    ] {
        let mut raw = zone.raw_connection().await;
        raw.send(&part).await;
        raw.0.shutdown().await.unwrap();
        if let Some(reply) = raw.reply().await {
            assert!((400..500).contains(&reply.status), "{name}: {reply:?}");
        }
    }
    // A complete request from a client that closed its sending side is answered.
    let mut raw = zone.raw_connection().await;
    raw.send(&post(
        &format!("content-length: {length}\r\nconnection: close\r\n"),
        &body,
    ))
    .await;
    raw.0.shutdown().await.unwrap();
    if let Some(reply) = raw.reply().await {
        assert_eq!(reply.code(), -40001);
    }
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected() {
    let zone = ZoneBuilder::new()
        .set("limits.handshake_timeout", "1s")
        .set("limits.header_timeout", "1s")
        .set("limits.body_timeout", "1s")
        .set("limits.idle_timeout", "2s")
        .start()
        .await;
    let token = zone.token("anna");
    // One connection that never starts its handshake, and one that is silent after it.
    let mut silent = TcpStream::connect(zone.address).await.unwrap();
    let mut raw = zone.raw_connection().await;
    // Slow-loris: a byte of the head now and then must not extend the timeout.
    let mut loris = zone.raw_connection().await;
    loris
        .send(b"POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\n")
        .await;
    // The same with the body.
    let mut body = zone.raw_connection().await;
    let head = format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    );
    body.send(head.as_bytes()).await;
    let drip = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(100));
        loop {
            every.tick().await;
            let header = loris.0.write_all(b"x").await.and(loris.0.flush().await);
            let more = body.0.write_all(b" ").await.and(body.0.flush().await);
            if header.is_err() && more.is_err() {
                return;
            }
        }
    };
    let ended = async {
        let mut remaining = Vec::new();
        let _ = silent.read_to_end(&mut remaining).await;
        raw.wait_for_close().await;
    };
    within_timeout("the slow clients to be disconnected", async {
        tokio::join!(drip, ended)
    })
    .await;

    // Meanwhile other callers are served, and a stalled body gets 408.
    let mut stalled = zone.raw_connection().await;
    stalled.send(head.as_bytes()).await;
    stalled.send(b"{").await;
    zone.assert_serving().await;
    if let Some(reply) = stalled.reply().await {
        assert_rejected(&reply, 408, INVALID_REQUEST, "a body that stops");
    }
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn non_tls_connections_are_not_served() {
    let zone = ZoneBuilder::new()
        .set("limits.handshake_timeout", "2s")
        .start()
        .await;
    for (name, bytes) in [
        (
            "plain HTTP",
            b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
        ),
        ("rubbish", vec![0xff; 4096]),
        (
            "an SSLv2 hello",
            vec![0x80, 0x2e, 0x01, 0x00, 0x02, 0x00, 0x15],
        ),
        (
            "a record without an end",
            vec![0x16, 0x03, 0x01, 0xff, 0xff, 0x01],
        ),
        ("nothing", Vec::new()),
    ] {
        let mut socket = TcpStream::connect(zone.address).await.unwrap();
        socket.write_all(&bytes).await.unwrap();
        let mut response = Vec::new();
        let _ = within_timeout(name, socket.read_to_end(&mut response)).await;
        let text = String::from_utf8_lossy(&response);
        assert!(
            !text.contains("healthy") && !text.contains("200 OK"),
            "{name}: {text}"
        );
    }
    zone.assert_serving().await;
}
