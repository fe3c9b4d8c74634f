//! Webhooks at their receiver: signed, in order, retried with the same body, dead-lettered after the last attempt; and
//! never sent to addresses that a caller may not reach.

use super::mock_server::{MockRequest, MockServer, json_response};
use super::peers::run_python;
use super::within_timeout;
use super::zone_process::{WEBHOOK_SECRET, ZoneBuilder, ZoneProcess};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Starts a receiver that answers its n-th request with the status that `status` returns.
async fn receiver(
    status: impl Fn(usize, &MockRequest) -> u16 + Send + Sync + 'static,
) -> (MockServer, mpsc::UnboundedReceiver<MockRequest>) {
    let (requests_tx, requests_rx) = mpsc::unbounded_channel();
    let count = AtomicUsize::new(0);
    let web = MockServer::start(move |request| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let status = status(number, &request);
        let _ = requests_tx.send(request);
        json_response(status, "")
    })
    .await;
    (web, requests_rx)
}

async fn next_request(requests: &mut mpsc::UnboundedReceiver<MockRequest>) -> MockRequest {
    within_timeout("a webhook", requests.recv()).await.unwrap()
}

fn body_json(request: &MockRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

/// The signature, computed here and not by the product.
fn signature(bytes: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
    mac.update(bytes);
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates a task that waits for input, so that there is time to subscribe.
async fn task_awaiting_input(zone: &ZoneProcess, token: &str) -> String {
    let id = zone.create_task(token, "demo", "ask what?").await;
    zone.watch(token, &format!("tasks/{id}"), None)
        .await
        .until(|event| event.params()["data"]["status"] == "INPUT_REQUIRED")
        .await;
    id
}

async fn subscribe(zone: &ZoneProcess, token: &str, id: &str, url: &str, events: Value) -> Value {
    let params = json!({"taskId": id, "callbackUrl": url, "events": events});
    let mut result = zone.call(token, "tasks.subscribe", params).await;
    result["subscription"].take()
}

async fn answer_task(zone: &ZoneProcess, token: &str, id: &str) {
    let message = super::zone_process::user_message("an answer");
    zone.call(
        token,
        "tasks.send",
        json!({"taskId": id, "message": message}),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_signed_and_delivered_in_order() {
    let (web, mut requests) = receiver(|_, _| 204).await;
    let zone = ZoneBuilder::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = task_awaiting_input(&zone, &token).await;
    let url = format!("http://{}/hook?a=b", web.address);
    let all = json!([
        "STATUS_CHANGE",
        "NEW_MESSAGE",
        "NEW_ARTIFACT",
        "COMPLETED",
        "FAILED"
    ]);
    subscribe(&zone, &token, &id, &url, all).await;
    answer_task(&zone, &token, &id).await;

    let mut received = Vec::new();
    loop {
        let request = next_request(&mut requests).await;
        let last = body_json(&request)["params"]["event"] == "COMPLETED";
        received.push(request);
        if last {
            break;
        }
    }
    let mut events = Vec::new();
    let mut deliveries = Vec::new();
    for request in &received {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/hook?a=b")
        );
        assert_eq!(request.header("content-type"), "application/json");
        let expect = signature(&request.body);
        assert_eq!(
            request.header("x-webhook-signature"),
            format!("sha256={expect}")
        );
        assert_eq!(request.header("x-acp-signature"), expect);
        assert!(
            request.headers.get("authorization").is_none(),
            "no token is sent"
        );
        deliveries.push(request.header("x-delivery-id").to_owned());
        let body = body_json(request);
        assert_eq!(
            (&body["jsonrpc"], &body["method"]),
            (&json!("2.0"), &json!("task.notification"))
        );
        assert!(body.get("id").is_none(), "{body}");
        let params = &body["params"];
        assert_eq!(params["taskId"], id.as_str());
        assert!(
            params["timestamp"].as_str().unwrap().ends_with('Z'),
            "{body}"
        );
        let event = params["event"].as_str().unwrap().to_owned();
        let member = if event == "NEW_MESSAGE" {
            "role"
        } else {
            "taskId"
        };
        assert!(params["data"].get(member).is_some(), "{body}");
        events.push((
            event,
            params["data"]["status"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ));
    }
    let count = deliveries.len();
    deliveries.sort();
    deliveries.dedup();
    assert_eq!(
        deliveries.len(),
        count,
        "each delivery has an id of its own"
    );
    let position_of = |event: &str, status: &str| {
        let found = events
            .iter()
            .position(|e| (e.0.as_str(), e.1.as_str()) == (event, status));
        found.unwrap_or_else(|| panic!("no {event} {status} in {events:?}"))
    };
    assert!(
        position_of("STATUS_CHANGE", "WORKING") < position_of("STATUS_CHANGE", "COMPLETED"),
        "{events:?}"
    );
    assert!(
        position_of("STATUS_CHANGE", "COMPLETED") < position_of("COMPLETED", "COMPLETED"),
        "{events:?}"
    );
    assert!(
        position_of("NEW_MESSAGE", "") < position_of("COMPLETED", "COMPLETED"),
        "{events:?}"
    );

    // The verifier of the ACP SDK accepts these signatures and rejects a wrong one.
    let claims: Vec<Value> = received
        .iter()
        .flat_map(|request| {
            let text = std::str::from_utf8(&request.body).unwrap();
            ["x-webhook-signature", "x-acp-signature"].map(|header| {
                json!({"body": text, "signature": request.header(header), "secret": WEBHOOK_SECRET})
            })
        })
        .chain([json!({"body": "{}", "signature": received[0].header("x-acp-signature"), "secret": WEBHOOK_SECRET})])
        .collect();
    let verdicts = run_python("verify.py", &[], &zone.env.ca(), &json!(claims).to_string()).await;
    let verdicts: Vec<bool> = serde_json::from_str(verdicts.lines().last().unwrap()).unwrap();
    let (last, others) = verdicts.split_last().unwrap();
    assert!(
        others.iter().all(|verdict| *verdict) && !last,
        "{verdicts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_webhook_is_retried_with_the_same_body() {
    // Two failures, then success.
    let (web, mut requests) = receiver(|number, _| if number < 2 { 500 } else { 200 }).await;
    let zone = ZoneBuilder::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = task_awaiting_input(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(
        &zone,
        &token,
        &id,
        &url,
        json!(["STATUS_CHANGE", "COMPLETED"]),
    )
    .await;
    answer_task(&zone, &token, &id).await;
    let first = next_request(&mut requests).await;
    for _ in 0..2 {
        let again = next_request(&mut requests).await;
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("x-delivery-id"), first.header("x-delivery-id"));
        assert_eq!(again.header("x-acp-signature"), signature(&again.body));
    }
    // Later events waited for this one.
    let mut received = vec![body_json(&first)];
    while received.last().unwrap()["params"]["event"] != "COMPLETED" {
        received.push(body_json(&next_request(&mut requests).await));
    }
    let statuses: Vec<&str> = received
        .iter()
        .map(|body| body["params"]["data"]["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["WORKING", "COMPLETED", "COMPLETED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_retried_after_zone_crash() {
    let open = Arc::new(AtomicBool::new(false));
    let is_open = open.clone();
    let (web, mut requests) = receiver(move |_, _| {
        if is_open.load(Ordering::SeqCst) {
            200
        } else {
            503
        }
    })
    .await;
    let mut zone = ZoneBuilder::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = task_awaiting_input(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    answer_task(&zone, &token, &id).await;
    let first = next_request(&mut requests).await;
    // Wait until the zone has recorded the failed attempt.
    let attempt_counted = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(20));
        loop {
            every.tick().await;
            let metrics = zone.metrics().await;
            let mut lines = metrics.lines();
            if lines.any(|line| line.starts_with("interzone_webhook_deliveries_total{")) {
                return;
            }
        }
    };
    within_timeout("the attempt to be counted", attempt_counted).await;
    zone.kill();
    open.store(true, Ordering::SeqCst);
    zone.start().await;
    let again = next_request(&mut requests).await;
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("x-delivery-id"), first.header("x-delivery-id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_dead_lettered_after_last_attempt() {
    let (web, mut requests) = receiver(|_, _| 500).await;
    let zone = ZoneBuilder::new()
        .allow(web.address)
        .set("webhooks.attempts", 2)
        .start()
        .await;
    let token = zone.token("anna");
    let id = task_awaiting_input(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    answer_task(&zone, &token, &id).await;
    let first = next_request(&mut requests).await;
    let second = next_request(&mut requests).await;
    assert_eq!(
        first.header("x-delivery-id"),
        second.header("x-delivery-id")
    );
    let dead_letter_counted = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            every.tick().await;
            let metrics = zone.metrics().await;
            let dead = metrics.lines().find(|line| {
                line.contains("outbox") && line.contains("dead") && !line.starts_with('#')
            });
            if dead.is_some_and(|line| line.ends_with(" 1")) {
                return;
            }
        }
    };
    within_timeout("the dead letter in the metrics", dead_letter_counted).await;
    assert!(requests.try_recv().is_err(), "two attempts and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_do_not_follow_redirects() {
    let (inner, mut reached) = receiver(|_, _| 200).await;
    let target = format!("http://{}/inside", inner.address);
    let (requests_tx, mut requests_rx) = mpsc::unbounded_channel();
    let web = MockServer::start(move |request| {
        let _ = requests_tx.send(request);
        let mut reply = json_response(307, "");
        reply
            .headers_mut()
            .insert("location", target.parse().unwrap());
        reply
    })
    .await;
    let zone = ZoneBuilder::new()
        .set(
            "egress.allow",
            vec![web.address.to_string(), inner.address.to_string()],
        )
        .set("webhooks.attempts", 2)
        .start()
        .await;
    let token = zone.token("anna");
    let id = task_awaiting_input(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    answer_task(&zone, &token, &id).await;
    for _ in 0..2 {
        within_timeout("an attempt", requests_rx.recv())
            .await
            .unwrap();
    }
    assert!(reached.try_recv().is_err(), "the redirect was followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn callback_url_to_private_address_is_rejected() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "demo", "echo x").await;
    for url in [
        // Loopback.
        "https://127.0.0.1/",
        "https://127.0.0.1:8443/jsonrpc",
        "https://127.1/",
        "https://127.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.0x0.0x0.0x1/",
        "https://0177.0.0.1/",
        "https://0177.0.0.01/",
        "https://017700000001/",
        "https://127.255.255.254/",
        "https://0/",
        "https://0.0.0.0/",
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://a.localhost/",
        "https://[::1]/",
        "https://[::]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::127.0.0.1]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:0001::]/",
        "https://\u{2460}27.0.0.1/",
        "https://127\u{3002}0\u{3002}0\u{3002}1/",
        "https://%31%32%37.0.0.1/",
        // Private networks.
        "https://10.0.0.1/",
        "https://10.255.255.255/",
        "https://172.16.0.1/",
        "https://172.31.255.255/",
        "https://192.168.1.1/",
        "https://100.64.0.1/",
        "https://[fc00::1]/",
        "https://[fd12:3456::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[::ffff:192.168.0.1]/",
        "https://[fec0::1]/",
        "https://printer.local/",
        "https://db.internal/",
        "https://metadata.google.internal/",
        // Link-local, including the cloud's metadata service.
        "https://169.254.169.254/latest/meta-data/",
        "https://0xa9fea9fe/",
        "https://2852039166/",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        // Multicast, broadcast and reserved.
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://[ff02::1]/",
        "https://240.0.0.1/",
        "https://192.0.2.1/",
        "https://198.18.0.1/",
        "https://[2001:db8::1]/",
        "https://192.0.0.1/",
        // Unsupported or invalid URLs.
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "//example.com/",
        "example.com",
        "/hook",
        "",
        "https://",
        "https:///hook",
        "https://user:pw@example.com/",
        "https://user@example.com/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://[::1/",
        "not a url",
        "https://example.com/\r\nX-Evil: 1",
        "https://example.com\\@127.0.0.1/",
        "https://127.0.0.1#@example.com/",
    ] {
        let params = json!({"taskId": id, "callbackUrl": url});
        let (code, data) = zone.call_error(&token, "tasks.subscribe", params).await;
        assert_eq!(code, -32602, "{url:?}: {data}");
        assert_eq!(data["field"], "params.callbackUrl", "{url:?}: {data}");
    }
    // A valid URL; it is not resolved when subscribing.
    let good = json!({"taskId": id, "callbackUrl": "https://hooks.example.com/acp"});
    zone.call(&token, "tasks.subscribe", good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_flight_webhook_is_resent_at_once_after_crash() {
    // The first request is received and never answered.
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (requests_tx, mut requests_rx) = mpsc::unbounded_channel();
    let first = AtomicBool::new(true);
    let web = MockServer::start(move |request| {
        let _ = requests_tx.send(request);
        if first.swap(false, Ordering::SeqCst) {
            let _ = tokio::task::block_in_place(|| wait.lock().unwrap().recv());
        }
        json_response(204, "")
    })
    .await;
    let mut zone = ZoneBuilder::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = task_awaiting_input(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    answer_task(&zone, &token, &id).await;
    let interrupted = next_request(&mut requests_rx).await;
    zone.kill();
    let restarted = super::tokens::now();
    zone.start().await;
    let again = next_request(&mut requests_rx).await;
    for name in ["x-delivery-id", "x-event-id", "x-webhook-id"] {
        assert_eq!(again.header(name), interrupted.header(name), "{name}");
    }
    assert_eq!(again.body, interrupted.body, "the same bytes");
    assert_eq!(body_json(&again)["params"]["event"], "COMPLETED");
    let expect = signature(&again.body);
    assert_eq!(
        again.header("x-webhook-signature"),
        format!("sha256={expect}")
    );
    let sent = again.header("x-webhook-timestamp");
    let mut signed = format!("{sent}.").into_bytes();
    signed.extend_from_slice(&again.body);
    assert_eq!(
        again.header("x-webhook-signature-timestamp"),
        format!("sha256={}", signature(&signed))
    );
    // A delivery's lease lasts 40 seconds. The restarted zone does not wait for it, because the lease holder is gone.
    let sent: i64 = sent.parse().unwrap();
    assert!(
        sent < restarted + 20,
        "restarted at {restarted}, sent at {sent}"
    );
    release.send(()).unwrap();
}
