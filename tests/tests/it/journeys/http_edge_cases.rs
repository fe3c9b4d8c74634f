//! Unusual HTTP requests, valid or nearly so, that no ordinary client sends.

use super::rpc::HttpReply;
use super::zone_process::{ZoneBuilder, ZoneProcess};
use serde_json::json;

/// Sends a raw request: its first line, headers and body.
async fn send(zone: &ZoneProcess, line: &str, headers: &str, body: &str) -> HttpReply {
    let mut raw = zone.raw_connection().await;
    raw.send(format!("{line}\r\n{headers}\r\n{body}").as_bytes())
        .await;
    raw.reply().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_http_requests_get_json_rpc_responses() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "demo", "echo hi").await;
    zone.wait_for_task(&token, &id).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": id}});
    let call = call.to_string();
    let length = format!("content-length: {}\r\n", call.len());
    let who = format!("authorization: Bearer {token}\r\n");
    let (host, kind) = ("host: localhost\r\n", "content-type: application/json\r\n");
    let post = "POST /jsonrpc HTTP/1.1";

    // All of these are the same valid call.
    let usual = format!("{host}{kind}{who}");
    let chunked = format!("{:x};a=b\r\n{call}\r\n0\r\n", call.len());
    let plain = format!("{usual}{length}");
    let codings = "transfer-encoding: chunked\r\ntrailer: authorization\r\n";
    for (name, line, headers, body) in [
        ("plain", post, plain.clone(), call.clone()),
        (
            // A trailer is not a header, whatever its name.
            "trailers",
            post,
            format!("{usual}{codings}"),
            format!("{chunked}authorization: Bearer evil\r\n\r\n"),
        ),
        (
            "absolute form",
            "POST https://localhost/jsonrpc HTTP/1.1",
            plain.clone(),
            call.clone(),
        ),
        (
            "no coding",
            post,
            format!("{plain}content-encoding: identity\r\n"),
            call.clone(),
        ),
        (
            "capitals",
            post,
            plain.replace("application/json", "Application/JSON; charset=utf-8"),
            call.clone(),
        ),
        (
            "HTTP/1.0",
            "POST /jsonrpc HTTP/1.0",
            format!("{kind}{who}{length}"),
            call.clone(),
        ),
    ] {
        let reply = send(&zone, line, &headers, &body).await;
        assert_eq!(reply.status, 200, "{name}: {reply:?}");
        let got = &reply.json()["result"]["task"]["taskId"];
        assert_eq!(got, id.as_str(), "{name}: {reply:?}");
    }

    // All of these are rejected.
    let without_host = format!("{kind}{who}{length}");
    for (name, line, headers, status) in [
        ("no host", post, without_host.clone(), 400),
        (
            "two hosts",
            post,
            format!("{host}host: evil.test\r\n{without_host}"),
            400,
        ),
        (
            "no name",
            post,
            format!("host: a b/\\\r\n{without_host}"),
            400,
        ),
        (
            "packed",
            post,
            format!("{plain}content-encoding: gzip\r\n"),
            415,
        ),
        (
            "two kinds",
            post,
            format!("{plain}content-type: text/plain\r\n"),
            415,
        ),
        ("another kind", post, plain.replace("json", "json-rpc"), 415),
        (
            "small letters",
            "post /jsonrpc HTTP/1.1",
            plain.clone(),
            405,
        ),
        ("trace", "TRACE /jsonrpc HTTP/1.1", plain.clone(), 405),
        ("options", "OPTIONS /jsonrpc HTTP/1.1", plain.clone(), 405),
        (
            "a proxy",
            "CONNECT evil.test:443 HTTP/1.1",
            host.to_owned(),
            404,
        ),
        (
            "server-wide options",
            "OPTIONS * HTTP/1.1",
            host.to_owned(),
            404,
        ),
        (
            "another spelling",
            "POST /%6asonrpc HTTP/1.1",
            plain.clone(),
            404,
        ),
        (
            "a way back",
            "POST /a/../jsonrpc HTTP/1.1",
            plain.clone(),
            404,
        ),
        (
            "no text",
            "GET /tasks/%ff%fe/events HTTP/1.1",
            format!("{host}{who}"),
            404,
        ),
        (
            "no text",
            "GET /streams/%ff%fe HTTP/1.1",
            format!("{host}{who}"),
            404,
        ),
    ] {
        let reply = send(&zone, line, &headers, &call).await;
        assert_eq!(reply.status, status, "{name}: {reply:?}");
        assert!(reply.code() < 0, "{name}: {reply:?}");
        assert_eq!(reply.header("content-type"), "application/json", "{name}");
        assert!(!reply.header("x-correlation-id").is_empty(), "{name}");
    }

    // With `Expect: 100-continue`, a body that is too large is rejected before it is sent.
    let large = format!("{usual}content-length: 99999999999\r\nexpect: 100-continue\r\n");
    let reply = send(&zone, post, &large, "").await;
    assert_eq!((reply.status, reply.code()), (413, -32600));
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_last_event_id_replays_from_the_start() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "demo", "echo hi").await;
    let path = format!("{}/tasks/{id}/events", zone.url);
    zone.wait_for_task(&token, &id).await;
    let watch = async |last_event_id: &[u8], query: &str| {
        let request = zone.http.get(format!("{path}{query}")).bearer_auth(&token);
        let request = request.header("last-event-id", last_event_id);
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text
    };
    let all = watch(b"0", "").await;
    assert!(all.starts_with("id: 1\n"), "{all}");
    let huge = "9".repeat(5_000);
    for last_event_id in [
        "garbage",
        "-1",
        "1e3",
        "0x10",
        "1,2",
        "18446744073709551616",
        huge.as_str(),
        "\u{663}",
    ] {
        assert_eq!(
            watch(last_event_id.as_bytes(), "").await,
            all,
            "{last_event_id}"
        );
    }
    assert_eq!(watch(b"\xff\xfe", "?after=-1").await, all);
    // An id beyond the end of the log replays nothing.
    assert_eq!(watch(b"18446744073709551615", "").await, "");
}
