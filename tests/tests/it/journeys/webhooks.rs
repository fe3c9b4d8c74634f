//! Webhooks as their receiver sees them: signed, in order, tried again with the same body, given up in
//! the end; and never sent where a caller has no business.

use super::peers::run_python;
use super::soon;
use super::web::{Asked, Web, answer};
use super::zone::{Setup, WEBHOOK_SECRET, Zone};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// A receiver that answers its n-th request as `status` says.
async fn receiver(
    status: impl Fn(usize, &Asked) -> u16 + Send + Sync + 'static,
) -> (Web, mpsc::UnboundedReceiver<Asked>) {
    let (tell, told) = mpsc::unbounded_channel();
    let count = AtomicUsize::new(0);
    let web = Web::start(move |asked| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let status = status(number, &asked);
        let _ = tell.send(asked);
        answer(status, "")
    })
    .await;
    (web, told)
}

async fn next(told: &mut mpsc::UnboundedReceiver<Asked>) -> Asked {
    soon("a webhook", told.recv()).await.unwrap()
}

fn body(asked: &Asked) -> Value {
    serde_json::from_slice(&asked.body).unwrap()
}

/// The signature, computed here and not by the product.
fn signature(bytes: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
    mac.update(bytes);
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A task that waits for an answer, so that there is time to subscribe.
async fn asked_task(zone: &Zone, token: &str) -> String {
    let id = zone.create(token, "demo", "ask what?").await;
    zone.watch(token, &format!("tasks/{id}"), None)
        .await
        .until(|event| event.params()["data"]["status"] == "INPUT_REQUIRED")
        .await;
    id
}

async fn subscribe(zone: &Zone, token: &str, id: &str, url: &str, events: Value) -> Value {
    let params = json!({"taskId": id, "callbackUrl": url, "events": events});
    let mut result = zone.call(token, "tasks.subscribe", params).await;
    result["subscription"].take()
}

async fn reply_to(zone: &Zone, token: &str, id: &str) {
    let message = super::zone::said("an answer");
    zone.call(
        token,
        "tasks.send",
        json!({"taskId": id, "message": message}),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_signed_and_come_in_order() {
    let (web, mut told) = receiver(|_, _| 204).await;
    let zone = Setup::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = asked_task(&zone, &token).await;
    let url = format!("http://{}/hook?a=b", web.address);
    let all = json!([
        "STATUS_CHANGE",
        "NEW_MESSAGE",
        "NEW_ARTIFACT",
        "COMPLETED",
        "FAILED"
    ]);
    subscribe(&zone, &token, &id, &url, all).await;
    reply_to(&zone, &token, &id).await;

    let mut seen = Vec::new();
    loop {
        let asked = next(&mut told).await;
        let last = body(&asked)["params"]["event"] == "COMPLETED";
        seen.push(asked);
        if last {
            break;
        }
    }
    let mut events = Vec::new();
    let mut deliveries = Vec::new();
    for asked in &seen {
        assert_eq!(
            (asked.method.as_str(), asked.path.as_str()),
            ("POST", "/hook?a=b")
        );
        assert_eq!(asked.header("content-type"), "application/json");
        let expect = signature(&asked.body);
        assert_eq!(
            asked.header("x-webhook-signature"),
            format!("sha256={expect}")
        );
        assert_eq!(asked.header("x-acp-signature"), expect);
        assert!(
            asked.headers.get("authorization").is_none(),
            "no token leaves"
        );
        deliveries.push(asked.header("x-delivery-id").to_owned());
        let body = body(asked);
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
    let place = |event: &str, status: &str| {
        let found = events
            .iter()
            .position(|e| (e.0.as_str(), e.1.as_str()) == (event, status));
        found.unwrap_or_else(|| panic!("no {event} {status} in {events:?}"))
    };
    assert!(
        place("STATUS_CHANGE", "WORKING") < place("STATUS_CHANGE", "COMPLETED"),
        "{events:?}"
    );
    assert!(
        place("STATUS_CHANGE", "COMPLETED") < place("COMPLETED", "COMPLETED"),
        "{events:?}"
    );
    assert!(
        place("NEW_MESSAGE", "") < place("COMPLETED", "COMPLETED"),
        "{events:?}"
    );

    // The verifier of the ACP SDK is of the same opinion, and can be of another.
    let claims: Vec<Value> = seen
        .iter()
        .flat_map(|asked| {
            let text = std::str::from_utf8(&asked.body).unwrap();
            ["x-webhook-signature", "x-acp-signature"].map(|header| {
                json!({"body": text, "signature": asked.header(header), "secret": WEBHOOK_SECRET})
            })
        })
        .chain([json!({"body": "{}", "signature": seen[0].header("x-acp-signature"), "secret": WEBHOOK_SECRET})])
        .collect();
    let verdicts = run_python(
        "verify.py",
        &[],
        &zone.world.ca(),
        &json!(claims).to_string(),
    )
    .await;
    let verdicts: Vec<bool> = serde_json::from_str(verdicts.lines().last().unwrap()).unwrap();
    let (last, others) = verdicts.split_last().unwrap();
    assert!(
        others.iter().all(|verdict| *verdict) && !last,
        "{verdicts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_is_sent_again_as_it_was() {
    // Two failures, then all is well.
    let (web, mut told) = receiver(|number, _| if number < 2 { 500 } else { 200 }).await;
    let zone = Setup::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = asked_task(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(
        &zone,
        &token,
        &id,
        &url,
        json!(["STATUS_CHANGE", "COMPLETED"]),
    )
    .await;
    reply_to(&zone, &token, &id).await;
    let first = next(&mut told).await;
    for _ in 0..2 {
        let again = next(&mut told).await;
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("x-delivery-id"), first.header("x-delivery-id"));
        assert_eq!(again.header("x-acp-signature"), signature(&again.body));
    }
    // What was behind it waited its turn.
    let mut seen = vec![body(&first)];
    while seen.last().unwrap()["params"]["event"] != "COMPLETED" {
        seen.push(body(&next(&mut told).await));
    }
    let statuses: Vec<&str> = seen
        .iter()
        .map(|body| body["params"]["data"]["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["WORKING", "COMPLETED", "COMPLETED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_survives_a_power_cut() {
    let open = Arc::new(AtomicBool::new(false));
    let is_open = open.clone();
    let (web, mut told) = receiver(move |_, _| {
        if is_open.load(Ordering::SeqCst) {
            200
        } else {
            503
        }
    })
    .await;
    let mut zone = Setup::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = asked_task(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    reply_to(&zone, &token, &id).await;
    let first = next(&mut told).await;
    // Once it knows that this one did not arrive.
    let noted = async {
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
    soon("the attempt to be counted", noted).await;
    zone.kill();
    open.store(true, Ordering::SeqCst);
    zone.begin().await;
    let again = next(&mut told).await;
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("x-delivery-id"), first.header("x-delivery-id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_nobody_takes_is_given_up_and_shown() {
    let (web, mut told) = receiver(|_, _| 500).await;
    let zone = Setup::new()
        .allow(web.address)
        .set("webhooks.attempts", 2)
        .start()
        .await;
    let token = zone.token("anna");
    let id = asked_task(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    reply_to(&zone, &token, &id).await;
    let first = next(&mut told).await;
    let second = next(&mut told).await;
    assert_eq!(
        first.header("x-delivery-id"),
        second.header("x-delivery-id")
    );
    let shown = async {
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
    soon("the dead letter in the metrics", shown).await;
    assert!(told.try_recv().is_err(), "two attempts and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_do_not_follow_redirects() {
    let (inner, mut reached) = receiver(|_, _| 200).await;
    let target = format!("http://{}/inside", inner.address);
    let (tell, mut told) = mpsc::unbounded_channel();
    let web = Web::start(move |asked| {
        let _ = tell.send(asked);
        let mut reply = answer(307, "");
        reply
            .headers_mut()
            .insert("location", target.parse().unwrap());
        reply
    })
    .await;
    let zone = Setup::new()
        .set(
            "egress.allow",
            vec![web.address.to_string(), inner.address.to_string()],
        )
        .set("webhooks.attempts", 2)
        .start()
        .await;
    let token = zone.token("anna");
    let id = asked_task(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    reply_to(&zone, &token, &id).await;
    for _ in 0..2 {
        soon("a try", told.recv()).await.unwrap();
    }
    assert!(reached.try_recv().is_err(), "nobody was sent on");
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_to_private_addresses_are_refused_in_every_spelling() {
    let zone = Setup::new().start().await;
    let token = zone.token("anna");
    let id = zone.create(&token, "demo", "echo x").await;
    for url in [
        // This machine.
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
        // The network around it.
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
        // Those next to it, the cloud's metadata among them.
        "https://169.254.169.254/latest/meta-data/",
        "https://0xa9fea9fe/",
        "https://2852039166/",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        // Everybody, or nobody.
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://[ff02::1]/",
        "https://240.0.0.1/",
        "https://192.0.2.1/",
        "https://198.18.0.1/",
        "https://[2001:db8::1]/",
        "https://192.0.0.1/",
        // No way to send anything.
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
        let (code, data) = zone.refused(&token, "tasks.subscribe", params).await;
        assert_eq!(code, -32602, "{url:?}: {data}");
        assert_eq!(data["field"], "params.callbackUrl", "{url:?}: {data}");
    }
    // One that is as it should be; whether it leads anywhere is not asked at this moment.
    let good = json!({"taskId": id, "callbackUrl": "https://hooks.example.com/acp"});
    zone.call(&token, "tasks.subscribe", good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_on_its_way_at_a_power_cut_comes_again_at_once() {
    // The first one is taken and never answered.
    let (let_go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (tell, mut told) = mpsc::unbounded_channel();
    let first = AtomicBool::new(true);
    let web = Web::start(move |asked| {
        let _ = tell.send(asked);
        if first.swap(false, Ordering::SeqCst) {
            let _ = tokio::task::block_in_place(|| wait.lock().unwrap().recv());
        }
        answer(204, "")
    })
    .await;
    let mut zone = Setup::new().allow(web.address).start().await;
    let token = zone.token("anna");
    let id = asked_task(&zone, &token).await;
    let url = format!("http://{}/hook", web.address);
    subscribe(&zone, &token, &id, &url, json!(["COMPLETED"])).await;
    reply_to(&zone, &token, &id).await;
    let cut = next(&mut told).await;
    zone.kill();
    let restarted = super::tokens::now();
    zone.begin().await;
    let again = next(&mut told).await;
    for name in ["x-delivery-id", "x-event-id", "x-webhook-id"] {
        assert_eq!(again.header(name), cut.header(name), "{name}");
    }
    assert_eq!(again.body, cut.body, "the same bytes");
    assert_eq!(body(&again)["params"]["event"], "COMPLETED");
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
    // A delivery is held for 40 seconds. Nobody waits for that who knows that its holder is gone.
    let sent: i64 = sent.parse().unwrap();
    assert!(
        sent < restarted + 20,
        "restarted at {restarted}, sent at {sent}"
    );
    let_go.send(()).unwrap();
}
