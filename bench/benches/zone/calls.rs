//! Calls: `tasks.get` and a durable `tasks.create` on connections that are kept, a token on each.

use crate::load::{self, Figures};
use crate::zone::{Zone, request};
use crate::{Size, bare};
use interzone_bench::bars::{bar, median};
use interzone_bench::connection::Connection;
use interzone_bench::server::{self, Server};
use interzone_bench::tls;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const CONNECTIONS: [usize; 2] = [32, 256];

const CREATE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks.create","params":{"initialMessage":{"role":"user","parts":[{"type":"TextPart","content":"wait 500"}]},"assignTo":"quiet","priority":"NORMAL"}}"#;

/// The call that goes all the way to an agent and back. Its id is no UUID, so each is a task of its own.
const HOP: &str = "execute_task";
const IN_FLIGHT: usize = 32;
const EXECUTE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"execute_task","params":{"channel":"C1","text":"echo hello","bot_token":"capability"}}"#;

/// What was seen from outside, and the microseconds of processor that each answer cost the server.
type Measured = (Figures, f64);

/// The methods: how much of the bare server's rate, and how many times the peer's, is the bar.
const METHODS: [(&str, f64, f64); 2] = [("tasks.get", 0.7, 50.0), ("tasks.create", 0.25, 25.0)];

/// The server of the ACP Python SDK.
const PEER: &str = "acp-sdk-python";

/// Another build of the zone, asked in turns with this one: what differs between two runs is mostly the machine.
struct Rival {
    zone: Zone,
    create: Arc<[u8]>,
    get: Arc<[u8]>,
}

/// Somebody who is asked.
struct Contender<'s> {
    name: &'static str,
    server: &'s Server,
    request: Arc<[u8]>,
}

pub(crate) async fn measure(
    folder: &Path,
    zone: &Zone,
    size: Size,
    only: Option<&str>,
    peer: Option<&str>,
) {
    let tls = tls::client(folder);
    let create = request("POST", "/jsonrpc", Some(&zone.token), CREATE);
    let (id, length) = created(zone.server.port, &tls, &create).await;
    let get = request("POST", "/jsonrpc", Some(&zone.token), &get_of(&id));
    let limit = bare(folder, length);
    let python = peer.map(|python| start_peer(folder, python));
    let rival = match crate::argument("--against") {
        Some(binary) => Some(start_rival(folder, &tls, Path::new(&binary)).await),
        None => None,
    };

    for (method, least, least_peer) in METHODS {
        if only.is_some_and(|only| only != method) {
            continue;
        }
        let ours = if method == "tasks.get" { &get } else { &create };
        let mut contenders = vec![
            Contender {
                name: "bare TLS",
                server: &limit,
                request: ours.clone(),
            },
            Contender {
                name: "interzone",
                server: &zone.server,
                request: ours.clone(),
            },
        ];
        if let Some((python, token)) = &python {
            let request = match method {
                "tasks.get" => {
                    let (id, _) = created(
                        python.port,
                        &tls,
                        &request("POST", "/jsonrpc", Some(token), CREATE),
                    )
                    .await;
                    request("POST", "/jsonrpc", Some(token), &get_of(&id))
                }
                _ => request("POST", "/jsonrpc", Some(token), CREATE),
            };
            contenders.push(Contender {
                name: PEER,
                server: python,
                request,
            });
        }
        if let Some(rival) = &rival {
            let asked = if method == "tasks.get" {
                &rival.get
            } else {
                &rival.create
            };
            contenders.push(Contender {
                name: "the other build",
                server: &rival.zone.server,
                request: asked.clone(),
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
            bar(
                &format!("{method}@{connections}, rate to bare"),
                rate,
                false,
                least,
            );
            if method == "tasks.get" {
                let p99 = ratio(&rounds, 1, 0, |(figures, _)| figures.p99.as_secs_f64());
                bar(
                    &format!("{method}@{connections}, p99 to bare"),
                    p99,
                    true,
                    2.0,
                );
            }
            if let Some(peer) = contenders.iter().position(|one| one.name == PEER) {
                let rate = ratio(&rounds, 1, peer, |(figures, _)| figures.rate);
                bar(
                    &format!("{method}@{connections}, rate to the peer"),
                    rate,
                    false,
                    least_peer,
                );
            }
        }
    }
    if only.is_none_or(|only| only == HOP) {
        hop(zone, &create, &tls, size).await;
    }
    if peer.is_none() {
        println!("\nthe peer was not measured, for no --peer PYTHON was given");
    }
}

async fn start_rival(folder: &Path, tls: &Arc<rustls::ClientConfig>, binary: &Path) -> Rival {
    let zone = crate::zone::start_binary(folder, binary, "").await;
    let create = request("POST", "/jsonrpc", Some(&zone.token), CREATE);
    let (id, _) = created(zone.server.port, tls, &create).await;
    let get = request("POST", "/jsonrpc", Some(&zone.token), &get_of(&id));
    Rival { zone, create, get }
}

/// From a caller to the zone, to the demo agent and back, durable on the way.
async fn hop(zone: &Zone, create: &Arc<[u8]>, tls: &Arc<rustls::ClientConfig>, size: Size) {
    let contender = |name, request| Contender {
        name,
        server: &zone.server,
        request,
    };
    let asked = request("POST", "/jsonrpc", Some(&zone.token), EXECUTE);
    let contenders = [
        contender("tasks.create", create.clone()),
        contender(HOP, asked),
    ];
    println!("\n# {HOP}, {IN_FLIGHT} in flight");
    let rounds = rounds(&contenders, tls, IN_FLIGHT, size).await;
    report(&contenders, &rounds);
    let waits = |figure: fn(&Measured) -> f64| {
        let ours = rounds.iter().filter_map(|round| round.get(1));
        median(ours.map(figure).collect())
    };
    let half = waits(|(figures, _)| figures.median.as_secs_f64() * 1e3);
    bar(&format!("{HOP}, median ms"), half, true, 3.0);
    let p99 = waits(|(figures, _)| figures.p99.as_secs_f64() * 1e3);
    bar(&format!("{HOP}, p99 ms"), p99, true, 15.0);
    let rate = ratio(&rounds, 1, 0, |(figures, _)| figures.rate);
    bar(&format!("{HOP}, rate to tasks.create"), rate, false, 0.5);
}

/// All contenders in turn, again and again: what disturbs one round disturbs all of them.
async fn rounds(
    contenders: &[Contender<'_>],
    tls: &Arc<rustls::ClientConfig>,
    connections: usize,
    size: Size,
) -> Vec<Vec<Measured>> {
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let mut round = Vec::new();
        for contender in contenders {
            let ask = |open, time| load::measure(open, &contender.request, time);
            let open = load::open(contender.server.port, tls, connections).await;
            // A moment to get warm, which is not counted, and neither are the handshakes.
            let (_, open) = ask(open, Duration::from_millis(200)).await;
            let before = contender.server.processor();
            let (figures, _) = ask(open, size.time).await;
            let used = contender.server.processor() - before;
            #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
            let each = used * 1e6 / figures.answers as f64;
            round.push((figures, each));
        }
        rounds.push(round);
    }
    rounds
}

fn report(contenders: &[Contender<'_>], rounds: &[Vec<Measured>]) {
    println!(
        "| contender | calls a second | ratio | p99 ms | processor µs a call |\n|---|---:|---:|---:|---:|"
    );
    for (place, contender) in contenders.iter().enumerate() {
        let all = |figure: fn(&Measured) -> f64| {
            median(
                rounds
                    .iter()
                    .filter_map(|round| round.get(place))
                    .map(figure)
                    .collect(),
            )
        };
        println!(
            "| {} | {:.0} | {:.3} | {:.2} | {:.1} |",
            contender.name,
            all(|(figures, _)| figures.rate),
            ratio(rounds, place, 0, |(figures, _)| figures.rate),
            all(|(figures, _)| figures.p99.as_secs_f64() * 1e3),
            all(|(_, each)| *each),
        );
    }
}

/// The median over the rounds of one contender's figure by another's.
fn ratio(rounds: &[Vec<Measured>], one: usize, other: usize, figure: fn(&Measured) -> f64) -> f64 {
    let each = rounds
        .iter()
        .filter_map(|round| Some(figure(round.get(one)?) / figure(round.get(other)?)));
    median(each.collect())
}

fn get_of(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"req-1","method":"tasks.get","params":{{"taskId":"{id}"}}}}"#)
}

/// Creates a task: its id, and how long the answer to a `tasks.get` of it is about.
async fn created(port: u16, tls: &Arc<rustls::ClientConfig>, request: &[u8]) -> (String, usize) {
    let mut connection = Connection::open(port, tls).await;
    let (status, body) = connection.ask(request).await;
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
    server.wait_until_it_listens();
    (server, token)
}
