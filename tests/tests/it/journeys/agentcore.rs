//! A zone in AgentCore's runtime: plain HTTP on two ports, calls without a token, health pings, and the same answers as
//! at the zone's own endpoint.

use super::cli::interzone_command;
use super::rpc::HttpReply;
use super::within_timeout;
use super::zone_process::{ZoneBuilder, ZoneProcess, free_port};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;

const SESSION: &str = "x-amzn-bedrock-agentcore-runtime-session-id";
const USER: &str = "x-amzn-bedrock-agentcore-runtime-user-id";

/// Client in the role of the AgentCore runtime.
struct RuntimeClient {
    http: reqwest::Client,
    invocations: String,
    agents: String,
}

impl RuntimeClient {
    fn new(ports: (u16, u16)) -> Self {
        let client = reqwest::Client::builder().no_proxy().build();
        Self {
            http: client.unwrap(),
            invocations: format!("http://127.0.0.1:{}", ports.0),
            agents: format!("http://127.0.0.1:{}", ports.1),
        }
    }

    async fn get(&self, url: String) -> HttpReply {
        HttpReply::read(self.http.get(url).send().await.unwrap()).await
    }

    async fn ping(&self) -> Value {
        let reply = self.get(format!("{}/ping", self.invocations)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    async fn invoke(&self, headers: &[(&str, &str)], body: &Value) -> HttpReply {
        let mut request = self.http.post(format!("{}/invocations", self.invocations));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        HttpReply::read(request.send().await.unwrap()).await
    }
}

fn execute_task_request(id: &str, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": {
        "channel": "C1", "text": text, "bot_token": "xoxb-t"}})
}

fn with_agentcore(setup: ZoneBuilder) -> (ZoneBuilder, RuntimeClient) {
    let ports = (free_port(), free_port());
    let setup = setup
        .set("agentcore.enabled", true)
        .set("agentcore.listen", format!("127.0.0.1:{}", ports.0))
        .set("agentcore.agents_listen", format!("127.0.0.1:{}", ports.1));
    (setup, RuntimeClient::new(ports))
}

/// Returns a response without the ids that differ from task to task.
fn without_ids(reply: &HttpReply) -> String {
    let mut body = reply.json();
    body["result"]["task_id"] = json!("t");
    let artifacts = body["result"]["artifacts"].as_array_mut();
    for artifact in artifacts.into_iter().flatten() {
        artifact["artifactId"] = json!("a");
    }
    body.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_gets_the_same_answers_as_callers() {
    let (setup, runtime) = with_agentcore(ZoneBuilder::new());
    let zone = setup.start().await;
    let call = execute_task_request("r-1", "echo the same");
    let here = runtime.invoke(&[(SESSION, &"s".repeat(40))], &call).await;
    let there = zone.post(&zone.token("anna"), call.to_string()).await;
    assert_eq!(here.status, 200, "{here:?}");
    assert_eq!(here.json()["result"]["status"], "success", "{here:?}");
    assert_eq!(without_ids(&here), without_ids(&there));
    assert_eq!(here.header("x-correlation-id"), "s".repeat(40));
    let agents = format!("{}/", runtime.agents);
    let request = runtime
        .http
        .post(agents)
        .header("content-type", "application/json");
    let reply = HttpReply::read(request.body(call.to_string()).send().await.unwrap()).await;
    assert_eq!(without_ids(&reply), without_ids(&there));

    let live = runtime
        .invoke(
            &[("accept", "text/event-stream")],
            &execute_task_request("r-2", "echo live"),
        )
        .await;
    assert!(
        live.header("content-type").starts_with("text/event-stream"),
        "{live:?}"
    );
    assert!(live.text.contains("\"id\":\"r-2\""), "{live:?}");

    let card = runtime
        .get(format!("{}/.well-known/agent-card.json", runtime.agents))
        .await;
    assert_eq!(card.json()["name"], "Interzone", "{card:?}");
    // The URL in the card is an existing endpoint, on either port.
    let url = card.json()["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with('/') && !url.ends_with("//"), "{card:?}");
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "get_agent_card"});
    let card = runtime.invoke(&[], &ask).await;
    let url = card.json()["result"]["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with("/invocations"), "{card:?}");
    let lost = runtime
        .get(format!("{}/jsonrpc", runtime.invocations))
        .await;
    assert_eq!(lost.status, 404, "this port has no other route");
    assert!(lost.text.contains("POST /invocations"), "{lost:?}");
    let lost = runtime.get(format!("{}/invocations", runtime.agents)).await;
    assert_eq!(lost.status, 404, "this port has no other route");
    assert!(lost.text.contains("POST /\""), "{lost:?}");
    let wrong = runtime
        .get(format!("{}/invocations", runtime.invocations))
        .await;
    assert_eq!(wrong.status, 405);
    let broken = runtime
        .http
        .post(format!("{}/invocations", runtime.invocations));
    let broken = broken.header("content-type", "application/json").body("{");
    let broken = HttpReply::read(broken.send().await.unwrap()).await;
    assert_eq!((broken.status, broken.code()), (400, -32700));
    // Callers by the runtime have the configured scopes only.
    let more = json!({"jsonrpc": "2.0", "id": 1, "method": "stream.start", "params": {}});
    assert_eq!(runtime.invoke(&[], &more).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn ping_reports_busy_state_and_last_change() {
    let (setup, runtime) = with_agentcore(ZoneBuilder::new());
    let _zone = setup.set("execution.sync_budget", "100ms").start().await;
    let idle = runtime.ping().await;
    assert_eq!(idle["status"], "Healthy", "{idle}");
    assert!(idle["time_of_last_update"].is_i64(), "{idle}");
    assert_eq!(idle.as_object().unwrap().len(), 2, "{idle}");

    let reply = runtime
        .invoke(&[], &execute_task_request("r-1", "wait 60"))
        .await;
    assert_eq!(reply.json()["result"]["status"], "accepted", "{reply:?}");
    let busy = runtime.ping().await;
    assert_eq!(busy["status"], "HealthyBusy", "{busy}");
    assert_eq!(
        runtime.ping().await,
        busy,
        "the time is that of the last change"
    );
    let id = reply.json()["result"]["task_id"].take();
    let cancel = json!({"jsonrpc": "2.0", "id": 2, "method": "cancel_task",
        "params": {"task_id": id}});
    let reply = runtime.invoke(&[], &cancel).await;
    assert_eq!(reply.json()["result"]["status"], "canceled", "{reply:?}");
    let idle = within_timeout("the task to end", async {
        loop {
            let ping = runtime.ping().await;
            if ping["status"] == "Healthy" {
                return ping;
            }
            tokio::task::yield_now().await;
        }
    });
    let idle = idle.await;
    let since = |ping: &Value| ping["time_of_last_update"].as_i64().unwrap();
    assert!(since(&idle) >= since(&busy), "{idle} {busy}");
    let agents = runtime.get(format!("{}/ping", runtime.agents)).await;
    assert_eq!(agents.json(), idle, "both ports report the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_isolated_when_per_user_is_set() {
    let (setup, runtime) = with_agentcore(ZoneBuilder::new());
    let _zone = setup.set("agentcore.per_user", true).start().await;
    let reply = runtime
        .invoke(&[(USER, "anna")], &execute_task_request("r-1", "echo mine"))
        .await;
    let id = reply.json()["result"]["task_id"].take();
    let ask = json!({"jsonrpc": "2.0", "id": 2, "method": "get_task_result",
        "params": {"task_id": id}});
    let own = runtime.invoke(&[(USER, "anna")], &ask).await;
    assert_eq!(own.json()["result"]["status"], "completed", "{own:?}");
    for other in [&[(USER, "bert")][..], &[]] {
        let foreign = runtime.invoke(other, &ask).await;
        assert_eq!(
            foreign.json()["error"]["data"]["error_code"],
            "task_not_found"
        );
    }
    // An unreadable, empty or repeated user header is rejected, not taken for the shared caller.
    for invalid in [
        &[(USER, "\u{5c71}\u{7530}")][..],
        &[(USER, "")],
        &[(USER, "anna"), (USER, "bert")],
    ] {
        let refused = runtime.invoke(invalid, &ask).await;
        assert_eq!(
            (refused.status, refused.code()),
            (401, -40007),
            "{invalid:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_calls_can_require_a_token() {
    let (setup, runtime) = with_agentcore(ZoneBuilder::new());
    let zone: ZoneProcess = setup.set("agentcore.require_token", true).start().await;
    let call = execute_task_request("r-1", "echo hello");
    let refused = runtime.invoke(&[(USER, "anna")], &call).await;
    assert_eq!((refused.status, refused.code()), (401, -40007));
    let bearer = format!("Bearer {}", zone.token("anna"));
    let good = runtime.invoke(&[("authorization", &bearer)], &call).await;
    assert_eq!(good.json()["result"]["status"], "success", "{good:?}");
}

struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agentcore_mode_needs_no_certificate() {
    let home = tempfile::tempdir().unwrap();
    let ports = (free_port(), free_port());
    let config = format!(
        "[agentcore]\nlisten = \"127.0.0.1:{}\"\nagents_listen = \"127.0.0.1:{}\"\n",
        ports.0, ports.1
    );
    fs::write(home.path().join("interzone.toml"), config).unwrap();
    let refused = interzone_command(home.path(), &["serve", "execution"])
        .output()
        .unwrap();
    assert_eq!(
        refused.status.code(),
        Some(2),
        "agentcore mode needs its flag"
    );

    let mut child = interzone_command(home.path(), &["serve", "execution", "--agentcore"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let _process = ChildGuard(child);
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        line
    });
    let line = within_timeout("the startup line", reading).await.unwrap();
    assert!(
        line.contains(&format!("http://127.0.0.1:{}", ports.0)),
        "{line}"
    );
    let runtime = RuntimeClient::new(ports);
    let reply = runtime
        .invoke(&[], &execute_task_request("r-1", "echo hello"))
        .await;
    assert_eq!(reply.json()["result"]["status"], "success", "{reply:?}");
}
