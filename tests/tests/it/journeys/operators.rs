//! Operations: certificates, limits, health, metrics, the audit log, the config.

use super::certificates::Authority;
use super::peers::peer_path;
use super::rpc::{self, HttpReply};
use super::zone_process::{TestEnv, ZoneBuilder, binary, free_port, user_message};
use super::{WAIT_TIMEOUT, within_timeout};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[tokio::test(flavor = "multi_thread")]
async fn certificate_change_is_loaded_without_restart() {
    let zone = ZoneBuilder::new()
        .set("tls.reload_interval", "100ms")
        .start()
        .await;
    let current_certificate = async || {
        let raw = zone.raw_connection().await;
        let (_, connection) = raw.0.get_ref();
        connection.peer_certificates().unwrap()[0].to_vec()
    };
    let mut old = zone.raw_connection().await;
    let before = current_certificate().await;
    // An invalid certificate is ignored.
    fs::write(zone.env.path("cert.pem"), "rubbish").unwrap();
    assert_eq!(current_certificate().await, before);
    let pair = zone.env.authority.issue_server_cert();
    fs::write(zone.env.path("key.pem"), pair.key).unwrap();
    fs::write(zone.env.path("cert.pem"), pair.cert).unwrap();
    let changed = async {
        let mut every = tokio::time::interval(Duration::from_millis(50));
        while current_certificate().await == before {
            every.tick().await;
        }
    };
    within_timeout("the new certificate", changed).await;
    // Open connections stay open.
    old.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    assert_eq!(old.reply().await.unwrap().status, 200);
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificate_is_required_when_configured() {
    let world = TestEnv::new().await;
    let callers = Authority::new("callers");
    let strangers = Authority::new("strangers");
    fs::write(world.path("clients.pem"), &callers.pem).unwrap();
    let trusted_cert = callers.issue_client_cert("anna");
    // Every caller needs a certificate, so the test's HTTP client is replaced below.
    let mut zone = ZoneBuilder::new()
        .set("tls.client_ca", "clients.pem")
        .start_in(world)
        .await;
    for certificate in [None, Some(strangers.issue_client_cert("anna"))] {
        let http = rpc::client(&zone.env.authority, certificate.as_ref());
        let answer = http.get(format!("{}/health", zone.url)).send().await;
        assert!(answer.is_err(), "{answer:?}");
    }
    // In TLS 1.3 the rejection arrives after the handshake; the request must fail all the same.
    let tls = rpc::tls_config(&zone.env.authority, None);
    let tcp = TcpStream::connect(zone.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    if let Ok(stream) = TlsConnector::from(tls).connect(name, tcp).await {
        let mut raw = rpc::RawConnection(stream);
        raw.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        assert!(raw.reply().await.is_none(), "served without a certificate");
    }
    zone.http = rpc::client(&zone.env.authority, Some(&trusted_cert));
    zone.assert_serving().await;
    // A certificate is not a token.
    let reply = zone
        .send_call("", "tasks.get", json!({"taskId": "x"}))
        .await;
    assert_eq!((reply.status, reply.code()), (401, -40007));
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_client_gets_429_with_retry_after() {
    let zone = ZoneBuilder::new()
        .set("limits.requests_per_minute", 30)
        .set("limits.burst", 5)
        .start()
        .await;
    let (anna, bert) = (zone.token("anna"), zone.token("bert"));
    let mut limited = None;
    for number in 0..10 {
        let reply = zone
            .send_call(&anna, "tasks.get", json!({"taskId": "x"}))
            .await;
        if reply.status == 429 {
            assert!(number >= 5, "five at once are allowed, not {number}");
            limited = Some(reply);
            break;
        }
        assert_eq!(reply.code(), -40001);
    }
    let reply = limited.expect("ten requests at once exceed the limit");
    assert_eq!(reply.code(), -32003);
    let wait: u64 = reply.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let data = &reply.json()["error"]["data"];
    assert_eq!(
        (&data["retryAfter"], &data["limit"]),
        (&json!(wait), &json!(30)),
        "{data}"
    );
    let reply = zone
        .send_call(&bert, "tasks.get", json!({"taskId": "x"}))
        .await;
    assert_eq!(reply.code(), -40001, "other clients are not limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_discovery_endpoints_respond() {
    let zone = ZoneBuilder::new().start().await;
    zone.assert_serving().await;
    for path in ["/health", "/healthz", "/readyz"] {
        let reply = zone.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert!(reply.json()["status"].is_string(), "{path}: {reply:?}");
    }
    assert_eq!(zone.get("/health").await.json()["status"], "healthy");
    let reply = zone.get("/metrics").await;
    assert_eq!(
        reply.status, 401,
        "metrics need the operator scope: {reply:?}"
    );
    let weak = zone
        .http
        .get(format!("{}/metrics", zone.url))
        .bearer_auth(zone.token("anna"));
    assert_eq!(weak.send().await.unwrap().status(), 403);
    let metrics = zone.metrics().await;
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let counted = metrics
        .lines()
        .any(|line| line.contains("tasks.create") && line.contains("ok") && !line.ends_with(" 0"));
    assert!(counted, "{metrics}");
    let protected = zone
        .get("/.well-known/oauth-protected-resource")
        .await
        .json();
    let servers = protected["authorization_servers"].as_array().unwrap();
    assert!(servers.contains(&json!(zone.env.issuer.url)), "{protected}");
    // With an external issuer, the built-in one is not served.
    assert_eq!(zone.get("/oauth2/jwks").await.status, 404);
    assert_eq!(
        zone.get("/.well-known/oauth-authorization-server")
            .await
            .status,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_records_calls_without_content_or_tokens() {
    let zone = ZoneBuilder::new()
        .set("audit.file", "audit.log")
        .set("log.filter", "debug")
        .start()
        .await;
    let token = zone.token("anna");
    let id = zone
        .create_task(&token, "demo", "echo the-secret-content")
        .await;
    zone.wait_for_task(&token, &id).await;
    let params = json!({"taskId": id, "reason": "the-secret-content"});
    zone.call_error(&token, "tasks.cancel", params).await;
    let forged = format!("{token}x");
    zone.call_error(&forged, "tasks.get", json!({"taskId": id}))
        .await;
    let request = zone
        .http
        .post(format!("{}/jsonrpc", zone.url))
        .header("content-type", "application/json")
        .header("x-correlation-id", "find-me-again")
        .bearer_auth(&token)
        .body(
            json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": id}})
                .to_string(),
        );
    let reply = HttpReply::read(request.send().await.unwrap()).await;
    assert_eq!(reply.header("x-correlation-id"), "find-me-again");

    let path = zone.env.path("audit.log");
    let written = async {
        let mut every = tokio::time::interval(Duration::from_millis(20));
        loop {
            every.tick().await;
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.contains("find-me-again") {
                return text;
            }
        }
    };
    let text = within_timeout("the audit log", written).await;
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let entry_for = |method: &str| {
        let found = lines.iter().find(|line| line["method"] == method);
        found.unwrap_or_else(|| panic!("no {method} in {text}"))
    };
    assert_eq!(entry_for("tasks.create")["who"], "anna");
    assert_eq!(entry_for("tasks.create")["outcome"], "ok");
    assert_eq!(entry_for("tasks.cancel")["code"], -40002);
    assert!(text.contains(&id), "which task");
    let log = zone.log();
    for (name, text) in [("audit", &text), ("log", &log)] {
        assert!(
            !text.contains("the-secret-content"),
            "content in the {name}: {text}"
        );
        for part in token.split('.') {
            assert!(!text.contains(part), "a token in the {name}: {text}");
        }
    }
}

/// Runs `interzone serve execution` with an invalid config; returns the exit code and stderr.
fn run_invalid_config(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("interzone.toml");
    fs::write(&path, text).unwrap();
    let pair = Authority::new("config").issue_server_cert();
    fs::write(folder.path().join("cert.pem"), pair.cert).unwrap();
    fs::write(folder.path().join("key.pem"), pair.key).unwrap();
    let output = Command::new(binary())
        .args(["serve", "execution", "--config"])
        .arg(&path)
        .env("HOME", folder.path())
        // The default port may be in use on this machine.
        .env("INTERZONE__EXECUTION__LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), stderr)
}

#[test]
fn invalid_config_error_names_the_setting() {
    let tls = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    for (config, name) in [
        (format!("{tls}[limits]\nbodies = 1\n"), "bodies"),
        (format!("{tls}[limitz]\nbody = 1\n"), "limitz"),
        (format!("{tls}[limits]\nbody = \"huge\"\n"), "body"),
        (
            format!("{tls}[oauth]\nissuer = \"http://example.com/\"\naudience = \"x\"\n"),
            "issuer",
        ),
        (
            format!("{tls}[[agents]]\nid = \"x\"\nkind = \"magic\"\n"),
            "kind",
        ),
        (tls.replace("cert.pem", "lost.pem"), "lost.pem"),
        (
            format!(
                "{tls}[[agents]]\nid = \"x\"\nkind = \"command\"\ncommand = [\"/nowhere/at-all\"]\n"
            ),
            "/nowhere/at-all",
        ),
        ("[store".to_owned(), "interzone.toml"),
    ] {
        let (code, stderr) = run_invalid_config(&config);
        assert!(code.is_some_and(|code| code != 0), "{name}: {code:?}");
        assert!(stderr.contains(name), "{name}: {stderr}");
        assert!(!stderr.contains("panicked"), "{name}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_runs_on_postgres() {
    let zone = super::nodes::on_postgres(ZoneBuilder::new(), "store")
        .start()
        .await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "demo", "file csv a,b").await;
    let task = tokio::time::timeout(WAIT_TIMEOUT, zone.wait_for_task(&token, &id))
        .await
        .unwrap();
    assert_eq!(task["status"], "COMPLETED");
    assert_eq!(task["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(zone.get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn handwritten_config_starts_zone() {
    let world = TestEnv::new().await;
    fs::copy(peer_path("agent.py"), world.path("agent.py")).unwrap();
    let port = free_port();
    let issuer = &world.issuer.url;
    let text = format!(
        r#"
[store]
url = "sqlite:interzone.db"                 # or postgres://user@host/db
[tls]
cert = "cert.pem"
key = "key.pem"
# client_ca = "clients.pem"                 # ask for client certificates
# trust = ["ca.pem"]                        # more CAs for outgoing connections, beside the system's
[execution]
listen = "127.0.0.1:{port}"
public_url = "https://localhost:{port}"
[oauth]                                     # no issuer = the built-in one
issuer = "{issuer}"
jwks_url = "{issuer}jwks.json"
audience = "https://acp.test"
[egress]
allow = ["127.0.0.1:9955"]
[webhooks]
secret = "s3cret"
[limits]
body = "40MiB"
batch = 1000
requests_per_minute = 0                     # per client; 0 = no limit
[[agents]]
id = "demo"
kind = "demo"
[[agents]]
id = "worker"
kind = "command"
command = ["python3", "agent.py"]
default = true
"#
    );
    let zone = ZoneBuilder::from_toml(&text, port).start_in(world).await;
    let token = zone.token("anna");
    let params = json!({"initialMessage": user_message("echo by the default agent")});
    let made = zone.call(&token, "tasks.create", params).await;
    let id = made["task"]["taskId"].as_str().unwrap();
    let task = zone.wait_for_task(&token, id).await;
    assert_eq!(task["assignedAgent"], "worker", "{task}");
    assert_eq!(
        task["messages"][1]["parts"][0]["content"],
        "by the default agent"
    );
    zone.assert_serving().await;
    // A big file in one message, as the contract allows: 25 MB as base64.
    let content = "A".repeat(25_000_000 / 3 * 4);
    let part = json!({"type": "FilePart", "content": content, "encoding": "base64", "filename": "big.bin"});
    let params = json!({"initialMessage": {"role": "user", "parts": [part]}, "assignTo": "demo"});
    let reply = zone.send_call(&token, "tasks.create", params).await;
    assert!(
        reply.json().get("result").is_some(),
        "{:?}",
        reply.json()["error"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn traceparent_is_continued_in_response() {
    let zone = ZoneBuilder::new().start().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": "x"}});
    let request = zone
        .http
        .post(format!("{}/jsonrpc", zone.url))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
        .bearer_auth(zone.token("anna"))
        .body(body.to_string());
    let reply = HttpReply::read(request.send().await.unwrap()).await;
    let returned: Vec<&str> = reply.header("traceparent").split('-').collect();
    assert_eq!(
        (returned.len(), returned[0], returned[1]),
        (4, "00", trace),
        "{returned:?}"
    );
    assert_ne!(
        returned[2], "b7ad6b7169203331",
        "the zone starts its own span"
    );
}
