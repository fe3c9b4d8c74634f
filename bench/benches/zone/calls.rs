//! Calls: `tasks.get` and a durable `tasks.create` on keep-alive connections, with a token each.

use crate::load::{self, LoadStats};
use crate::zone_process::{ZoneProcess, request};
use crate::{ZoneBenchSize, start_bare};
use interzone_bench::connection::Connection;
use interzone_bench::server::{self, Server};
use interzone_bench::thresholds::{check_threshold, median};
use interzone_bench::tls;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const CONNECTIONS: [usize; 2] = [32, 256];

const CREATE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks.create","params":{"initialMessage":{"role":"user","parts":[{"type":"TextPart","content":"wait 500"}]},"assignTo":"quiet","priority":"NORMAL"}}"#;

/// The call that runs an agent. Its id is not a UUID, so each call creates a task.
const EXECUTE_METHOD: &str = "execute_task";
const IN_FLIGHT: usize = 32;
const EXECUTE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"execute_task","params":{"channel":"C1","text":"echo hello","bot_token":"capability"}}"#;

/// Client-side statistics, and the server's CPU microseconds per response.
type CallMeasurement = (LoadStats, f64);

/// The methods, with the minimum ratio of their rate to the bare server's and to the peer's.
const METHODS: [(&str, f64, f64); 2] = [("tasks.get", 0.7, 50.0), ("tasks.create", 0.25, 25.0)];

/// Name of the ACP Python SDK's server.
const PEER_NAME: &str = "acp-sdk-python";

/// Another build of the zone, measured in turns with this one, because runs differ mostly by the machine.
struct OtherBuild {
    zone: ZoneProcess,
    create: Arc<[u8]>,
    get: Arc<[u8]>,
}

/// A measured server with its request.
struct ServerContender<'s> {
    name: &'static str,
    server: &'s Server,
    request: Arc<[u8]>,
}

pub(crate) async fn measure(
    folder: &Path,
    zone: &ZoneProcess,
    size: ZoneBenchSize,
    only: Option<&str>,
    peer: Option<&str>,
) {
    let tls = tls::client_config(folder);
    let create = request("POST", "/jsonrpc", Some(&zone.token), CREATE);
    let (id, length) = create_task(zone.server.port, &tls, &create).await;
    let get = request("POST", "/jsonrpc", Some(&zone.token), &get_call(&id));
    let bare_server = start_bare(folder, length);
    let python = peer.map(|python| start_peer(folder, python));
    let other_build = match crate::argument("--against") {
        Some(binary) => Some(start_other_build(folder, &tls, Path::new(&binary)).await),
        None => None,
    };

    for (method, min_ratio, min_peer_ratio) in METHODS {
        if only.is_some_and(|only| only != method) {
            continue;
        }
        let zone_request = if method == "tasks.get" { &get } else { &create };
        let mut contenders = vec![
            ServerContender {
                name: "bare TLS",
                server: &bare_server,
                request: zone_request.clone(),
            },
            ServerContender {
                name: "interzone",
                server: &zone.server,
                request: zone_request.clone(),
            },
        ];
        if let Some((python, token)) = &python {
            let request = match method {
                "tasks.get" => {
                    let (id, _) = create_task(
                        python.port,
                        &tls,
                        &request("POST", "/jsonrpc", Some(token), CREATE),
                    )
                    .await;
                    request("POST", "/jsonrpc", Some(token), &get_call(&id))
                }
                _ => request("POST", "/jsonrpc", Some(token), CREATE),
            };
            contenders.push(ServerContender {
                name: PEER_NAME,
                server: python,
                request,
            });
        }
        if let Some(other) = &other_build {
            let other_request = if method == "tasks.get" {
                &other.get
            } else {
                &other.create
            };
            contenders.push(ServerContender {
                name: "the other build",
                server: &other.zone.server,
                request: other_request.clone(),
            });
        }
        for connections in CONNECTIONS {
            if crate::argument("--connections").is_some_and(|only| only != connections.to_string())
            {
                continue;
            }
            println!("\n# {method}, {connections} connections");
            let rounds = rounds(&contenders, &tls, connections, size).await;
            report(&contenders, &rounds);
            let rate = ratio(&rounds, 1, 0, |(figures, _)| figures.rate);
            check_threshold(
                &format!("{method}@{connections}, rate to bare"),
                rate,
                false,
                min_ratio,
            );
            if method == "tasks.get" {
                let p99 = ratio(&rounds, 1, 0, |(figures, _)| figures.p99.as_secs_f64());
                check_threshold(
                    &format!("{method}@{connections}, p99 to bare"),
                    p99,
                    true,
                    2.0,
                );
            }
            if let Some(peer) = contenders
                .iter()
                .position(|contender| contender.name == PEER_NAME)
            {
                let rate = ratio(&rounds, 1, peer, |(figures, _)| figures.rate);
                check_threshold(
                    &format!("{method}@{connections}, rate to the peer"),
                    rate,
                    false,
                    min_peer_ratio,
                );
            }
        }
    }
    if only.is_none_or(|only| only == EXECUTE_METHOD) {
        measure_execute(zone, &create, &tls, size).await;
    }
    if peer.is_none() {
        println!("\nthe peer was skipped, no --peer PYTHON given");
    }
}

async fn start_other_build(
    folder: &Path,
    tls: &Arc<rustls::ClientConfig>,
    binary: &Path,
) -> OtherBuild {
    let zone = crate::zone_process::start_binary(folder, binary, "").await;
    let create = request("POST", "/jsonrpc", Some(&zone.token), CREATE);
    let (id, _) = create_task(zone.server.port, tls, &create).await;
    let get = request("POST", "/jsonrpc", Some(&zone.token), &get_call(&id));
    OtherBuild { zone, create, get }
}

/// From a caller through the zone to the demo agent and back, durably.
async fn measure_execute(
    zone: &ZoneProcess,
    create: &Arc<[u8]>,
    tls: &Arc<rustls::ClientConfig>,
    size: ZoneBenchSize,
) {
    let contender = |name, request| ServerContender {
        name,
        server: &zone.server,
        request,
    };
    let execute = request("POST", "/jsonrpc", Some(&zone.token), EXECUTE);
    let contenders = [
        contender("tasks.create", create.clone()),
        contender(EXECUTE_METHOD, execute),
    ];
    println!("\n# {EXECUTE_METHOD}, {IN_FLIGHT} in flight");
    let rounds = rounds(&contenders, tls, IN_FLIGHT, size).await;
    report(&contenders, &rounds);
    let median_of = |value: fn(&CallMeasurement) -> f64| {
        let ours = rounds.iter().filter_map(|round| round.get(1));
        median(ours.map(value).collect())
    };
    let median_ms = median_of(|(figures, _)| figures.median.as_secs_f64() * 1e3);
    check_threshold(
        &format!("{EXECUTE_METHOD}, median ms"),
        median_ms,
        true,
        3.0,
    );
    let p99 = median_of(|(figures, _)| figures.p99.as_secs_f64() * 1e3);
    check_threshold(&format!("{EXECUTE_METHOD}, p99 ms"), p99, true, 15.0);
    let rate = ratio(&rounds, 1, 0, |(figures, _)| figures.rate);
    check_threshold(
        &format!("{EXECUTE_METHOD}, rate to tasks.create"),
        rate,
        false,
        0.5,
    );
}

/// Measures all contenders in turns, so that a disturbance hits all of them.
async fn rounds(
    contenders: &[ServerContender<'_>],
    tls: &Arc<rustls::ClientConfig>,
    connections: usize,
    size: ZoneBenchSize,
) -> Vec<Vec<CallMeasurement>> {
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let mut round = Vec::new();
        for contender in contenders {
            let run_load = |open, time| load::measure(open, &contender.request, time);
            let open = load::open(contender.server.port, tls, connections).await;
            // Warm-up; it is not counted, and neither are the handshakes.
            let (_, open) = run_load(open, Duration::from_millis(200)).await;
            let before = contender.server.cpu_seconds();
            let (figures, _) = run_load(open, size.time).await;
            let used = contender.server.cpu_seconds() - before;
            #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
            let cpu_per_call = used * 1e6 / figures.responses as f64;
            round.push((figures, cpu_per_call));
        }
        rounds.push(round);
    }
    rounds
}

fn report(contenders: &[ServerContender<'_>], rounds: &[Vec<CallMeasurement>]) {
    println!(
        "| contender | calls/s | ratio | p99 ms | CPU µs per call |\n|---|---:|---:|---:|---:|"
    );
    for (index, contender) in contenders.iter().enumerate() {
        let median_of = |figure: fn(&CallMeasurement) -> f64| {
            median(
                rounds
                    .iter()
                    .filter_map(|round| round.get(index))
                    .map(figure)
                    .collect(),
            )
        };
        println!(
            "| {} | {:.0} | {:.3} | {:.2} | {:.1} |",
            contender.name,
            median_of(|(figures, _)| figures.rate),
            ratio(rounds, index, 0, |(figures, _)| figures.rate),
            median_of(|(figures, _)| figures.p99.as_secs_f64() * 1e3),
            median_of(|(_, each)| *each),
        );
    }
}

/// Median over the rounds of the ratio of one contender's value to another's.
fn ratio(
    rounds: &[Vec<CallMeasurement>],
    one: usize,
    other: usize,
    value: fn(&CallMeasurement) -> f64,
) -> f64 {
    let each = rounds
        .iter()
        .filter_map(|round| Some(value(round.get(one)?) / value(round.get(other)?)));
    median(each.collect())
}

fn get_call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"req-1","method":"tasks.get","params":{{"taskId":"{id}"}}}}"#)
}

/// Creates a task. Returns its id and the approximate length of a `tasks.get` response.
async fn create_task(
    port: u16,
    tls: &Arc<rustls::ClientConfig>,
    request: &[u8],
) -> (String, usize) {
    let mut connection = Connection::open(port, tls).await;
    let (status, body) = connection.request(request).await;
    let text = String::from_utf8_lossy(body).into_owned();
    assert_eq!(status, 200, "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let id = answer
        .pointer("/result/task/taskId")
        .and_then(serde_json::Value::as_str);
    (id.unwrap().to_owned(), text.len())
}

fn start_peer(folder: &Path, python: &str) -> (Server, String) {
    let port = server::free_port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/zone/peer.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .arg(port.to_string())
        .arg(folder.join("cert.pem"))
        .arg(folder.join("key.pem"));
    let mut token = String::new();
    let server = Server::start(command, |line| {
        line.trim().clone_into(&mut token);
        port
    });
    server.wait_until_listening();
    (server, token)
}
