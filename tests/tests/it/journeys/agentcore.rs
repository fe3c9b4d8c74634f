//! A zone as AgentCore's runtime sees it: plain HTTP on two ports, calls without a token, signs of life,
//! and the same answers as at the zone's own door.

use super::newcomer::command;
use super::soon;
use super::wire::Reply;
use super::zone::{Setup, Zone, free_port};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;

const SESSION: &str = "x-amzn-bedrock-agentcore-runtime-session-id";
const USER: &str = "x-amzn-bedrock-agentcore-runtime-user-id";

/// The runtime's side.
struct Runtime {
    http: reqwest::Client,
    invocations: String,
    agents: String,
}

impl Runtime {
    fn of(ports: (u16, u16)) -> Self {
        let client = reqwest::Client::builder().no_proxy().build();
        Self {
            http: client.unwrap(),
            invocations: format!("http://127.0.0.1:{}", ports.0),
            agents: format!("http://127.0.0.1:{}", ports.1),
        }
    }

    async fn get(&self, url: String) -> Reply {
        Reply::read(self.http.get(url).send().await.unwrap()).await
    }

    async fn ping(&self) -> Value {
        let reply = self.get(format!("{}/ping", self.invocations)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    async fn invoke(&self, headers: &[(&str, &str)], body: &Value) -> Reply {
        let mut request = self.http.post(format!("{}/invocations", self.invocations));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        Reply::read(request.send().await.unwrap()).await
    }
}

fn execute(id: &str, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": {
        "channel": "C1", "text": text, "bot_token": "xoxb-t"}})
}

fn with_agentcore(setup: Setup) -> (Setup, Runtime) {
    let ports = (free_port(), free_port());
    let setup = setup
        .set("agentcore.enabled", true)
        .set("agentcore.listen", format!("127.0.0.1:{}", ports.0))
        .set("agentcore.agents_listen", format!("127.0.0.1:{}", ports.1));
    (setup, Runtime::of(ports))
}

/// An answer without what differs from task to task.
fn plain(reply: &Reply) -> String {
    let mut body = reply.json();
    body["result"]["task_id"] = json!("t");
    let artifacts = body["result"]["artifacts"].as_array_mut();
    for artifact in artifacts.into_iter().flatten() {
        artifact["artifactId"] = json!("a");
    }
    body.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runtime_is_answered_as_everybody_is() {
    let (setup, runtime) = with_agentcore(Setup::new());
    let zone = setup.start().await;
    let call = execute("r-1", "echo the same");
    let here = runtime.invoke(&[(SESSION, &"s".repeat(40))], &call).await;
    let there = zone.post(&zone.token("anna"), call.to_string()).await;
    assert_eq!(here.status, 200, "{here:?}");
    assert_eq!(here.json()["result"]["status"], "success", "{here:?}");
    assert_eq!(plain(&here), plain(&there));
    assert_eq!(here.header("x-correlation-id"), "s".repeat(40));
    let agents = format!("{}/", runtime.agents);
    let request = runtime
        .http
        .post(agents)
        .header("content-type", "application/json");
    let reply = Reply::read(request.body(call.to_string()).send().await.unwrap()).await;
    assert_eq!(plain(&reply), plain(&there));

    let live = runtime
        .invoke(
            &[("accept", "text/event-stream")],
            &execute("r-2", "echo live"),
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
    // Where they send calls to is a door that is there, by whichever way they ask.
    let url = card.json()["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with('/') && !url.ends_with("//"), "{card:?}");
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "get_agent_card"});
    let card = runtime.invoke(&[], &ask).await;
    let url = card.json()["result"]["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with("/invocations"), "{card:?}");
    let lost = runtime
        .get(format!("{}/jsonrpc", runtime.invocations))
        .await;
    assert_eq!(lost.status, 404, "no other door is here");
    assert!(lost.text.contains("POST /invocations"), "{lost:?}");
    let lost = runtime.get(format!("{}/invocations", runtime.agents)).await;
    assert_eq!(lost.status, 404, "no other door is here");
    assert!(lost.text.contains("POST /\""), "{lost:?}");
    let wrong = runtime
        .get(format!("{}/invocations", runtime.invocations))
        .await;
    assert_eq!(wrong.status, 405);
    let broken = runtime
        .http
        .post(format!("{}/invocations", runtime.invocations));
    let broken = broken.header("content-type", "application/json").body("{");
    let broken = Reply::read(broken.send().await.unwrap()).await;
    assert_eq!((broken.status, broken.code()), (400, -32700));
    // Its callers have the scopes that they were given, and no other.
    let more = json!({"jsonrpc": "2.0", "id": 1, "method": "stream.start", "params": {}});
    assert_eq!(runtime.invoke(&[], &more).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sign_of_life_says_whether_it_works_and_since_when() {
    let (setup, runtime) = with_agentcore(Setup::new());
    let _zone = setup.set("execution.sync_budget", "100ms").start().await;
    let idle = runtime.ping().await;
    assert_eq!(idle["status"], "Healthy", "{idle}");
    assert!(idle["time_of_last_update"].is_i64(), "{idle}");
    assert_eq!(idle.as_object().unwrap().len(), 2, "{idle}");

    let reply = runtime.invoke(&[], &execute("r-1", "wait 60")).await;
    assert_eq!(reply.json()["result"]["status"], "accepted", "{reply:?}");
    let busy = runtime.ping().await;
    assert_eq!(busy["status"], "HealthyBusy", "{busy}");
    assert_eq!(runtime.ping().await, busy, "it does not move by itself");
    let id = reply.json()["result"]["task_id"].take();
    let cancel = json!({"jsonrpc": "2.0", "id": 2, "method": "cancel_task",
        "params": {"task_id": id}});
    let reply = runtime.invoke(&[], &cancel).await;
    assert_eq!(reply.json()["result"]["status"], "canceled", "{reply:?}");
    let idle = soon("the end of the work", async {
        loop {
            let told = runtime.ping().await;
            if told["status"] == "Healthy" {
                return told;
            }
            tokio::task::yield_now().await;
        }
    });
    let idle = idle.await;
    let since = |told: &Value| told["time_of_last_update"].as_i64().unwrap();
    assert!(since(&idle) >= since(&busy), "{idle} {busy}");
    let agents = runtime.get(format!("{}/ping", runtime.agents)).await;
    assert_eq!(agents.json(), idle, "both ports tell the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_apart_if_wanted() {
    let (setup, runtime) = with_agentcore(Setup::new());
    let _zone = setup.set("agentcore.per_user", true).start().await;
    let reply = runtime
        .invoke(&[(USER, "anna")], &execute("r-1", "echo mine"))
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
    // A name that cannot be read is nobody's, not everybody's, and so are two.
    for nobody in [
        &[(USER, "\u{5c71}\u{7530}")][..],
        &[(USER, "")],
        &[(USER, "anna"), (USER, "bert")],
    ] {
        let refused = runtime.invoke(nobody, &ask).await;
        assert_eq!(
            (refused.status, refused.code()),
            (401, -40007),
            "{nobody:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_may_be_wanted_all_the_same() {
    let (setup, runtime) = with_agentcore(Setup::new());
    let zone: Zone = setup.set("agentcore.require_token", true).start().await;
    let call = execute("r-1", "echo hello");
    let refused = runtime.invoke(&[(USER, "anna")], &call).await;
    assert_eq!((refused.status, refused.code()), (401, -40007));
    let bearer = format!("Bearer {}", zone.token("anna"));
    let good = runtime.invoke(&[("authorization", &bearer)], &call).await;
    assert_eq!(good.json()["result"]["status"], "success", "{good:?}");
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_its_container_it_needs_no_certificate() {
    let home = tempfile::tempdir().unwrap();
    let ports = (free_port(), free_port());
    let config = format!(
        "[agentcore]\nlisten = \"127.0.0.1:{}\"\nagents_listen = \"127.0.0.1:{}\"\n",
        ports.0, ports.1
    );
    fs::write(home.path().join("interzone.toml"), config).unwrap();
    let refused = command(home.path(), &["execute"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "it has to be asked for");

    let mut child = command(home.path(), &["execute", "--agentcore"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let _process = Process(child);
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        line
    });
    let line = soon("the line that says it serves", reading).await.unwrap();
    assert!(
        line.contains(&format!("http://127.0.0.1:{}", ports.0)),
        "{line}"
    );
    let runtime = Runtime::of(ports);
    let reply = runtime.invoke(&[], &execute("r-1", "echo hello")).await;
    assert_eq!(reply.json()["result"]["status"], "success", "{reply:?}");
}
