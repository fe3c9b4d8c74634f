//! A large file: how much memory it costs on its way through the zone, out of an agent and in with a
//! question, and how much of that is held when it is gone.

use crate::mebibytes;
use crate::zone::{self, Zone, request};
use interzone_bench::bars::bar;
use interzone_bench::connection::Connection;
use interzone_bench::tls;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// The file's size: what the rules let out at most.
const BYTES: usize = 5_000_000;
/// How often the largest need is measured, after one call that warms up.
const ROUNDS: usize = 3;
/// The allocator gives back what is free after some seconds.
const REST: Duration = Duration::from_secs(15);

pub(crate) async fn measure(folder: &Path) {
    let agent = std::env::current_exe().unwrap();
    let zone = zone::start_with(
        folder,
        &format!(
            "[[agents]]\nid = \"maker\"\nkind = \"command\"\ncommand = [\"{}\", \"--agent\"]\n\
             [execution.channels]\nfiles = \"maker\"\n",
            agent.display()
        ),
    )
    .await;
    // Something small first, so that what is needed once does not count as what a file needs.
    ask(folder, &zone, "demo", None).await;
    let made = weigh(folder, &zone, "generated", "files", None).await;
    bar(
        "memory of a generated file, times its size",
        made.0,
        true,
        4.0,
    );
    bar("held of it at rest, times its size", made.1, true, 0.5);
    let sent = weigh(folder, &zone, "attached", "demo", Some(0)).await;
    bar(
        "memory of an attached file, times its size",
        sent.0,
        true,
        4.0,
    );
    bar("held of it at rest, times its size", sent.1, true, 0.5);
}

/// Has files made or sent, another each time: the most that one needed, and what is held when all are
/// gone, both in sizes of the file.
async fn weigh(
    folder: &Path,
    zone: &Zone,
    name: &str,
    channel: &str,
    mut attached: Option<usize>,
) -> (f64, f64) {
    println!("\n# a file of {:.1} MB that is {name}", size(BYTES) / 1e6);
    // The next moment at which it has had time to rest.
    let mut rested: Interval = interval_at(Instant::now() + REST, REST);
    rested.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rested.tick().await;
    let idle = zone.server.resident();
    let mut most = 0.0_f64;
    for round in 0..=ROUNDS {
        zone.server.forget_most();
        let before = zone.server.resident();
        let began = Instant::now();
        ask(folder, zone, channel, attached).await;
        let took = began.elapsed();
        let need = zone.server.most().saturating_sub(before);
        println!(
            "{:>10.1} MiB more at most in round {round}: {:.2} times the file; {:.0} ms",
            mebibytes(need),
            times(need),
            took.as_secs_f64() * 1e3
        );
        if round > 0 {
            most = most.max(times(need));
        }
        attached = attached.map(|attached| attached + 1);
        rested.reset();
        rested.tick().await;
    }
    let held = zone.server.resident().saturating_sub(idle);
    println!("{:>10.1} MiB more at rest", mebibytes(held));
    (most, times(held))
}

/// Asks on a channel, with an attachment of its own if it has a number.
async fn ask(folder: &Path, zone: &Zone, channel: &str, attached: Option<usize>) {
    let attachments = attached.map(|number| {
        json!([{"id": "F1", "name": "large.txt", "mimetype": "text/plain", "size": BYTES,
            "content_base64": content(number)}])
    });
    let params = json!({"channel": channel, "text": "make it", "bot_token": "capability",
        "attachments": attachments});
    let body = json!({"jsonrpc": "2.0", "id": "req-1", "method": "execute_task", "params": params})
        .to_string();
    let mut connection = Connection::open(zone.server.port, &tls::client(folder)).await;
    let call: Arc<[u8]> = request("POST", "/jsonrpc", Some(&zone.token), &body);
    let (status, answer) = connection.ask(&call).await;
    let start = answer.get(..answer.len().min(500)).unwrap();
    let start = String::from_utf8_lossy(start);
    assert_eq!(status, 200, "{start}");
    assert!(start.contains("\"success\""), "{start}");
    assert!(!start.contains("\"skipped\""), "{start}");
    assert_eq!(answer.len() > BYTES, channel == "files", "{start}");
}

/// A file of plain text in base64, another for each number below 26.
fn content(number: usize) -> String {
    let letter = ('A'..='Z').nth(number).unwrap();
    format!("QUJ{letter}") + &"QUJD".repeat(BYTES / 3)
}

/// The agent: makes a file whatever it is asked, once a line, and another each time.
pub(crate) fn serve() {
    let mut out = std::io::stdout().lock();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(task) = asked
            .pointer("/params/taskId")
            .filter(|_| asked.get("id").is_some())
        else {
            continue;
        };
        let part = json!({"type": "FilePart", "content": content(number), "encoding": "base64",
            "mimeType": "text/plain", "filename": "large.txt"});
        let artifact = json!({"artifactId": "large", "name": "large.txt", "parts": [part]});
        let made = json!({"jsonrpc": "2.0", "method": "agent.artifact",
            "params": {"taskId": task, "artifact": artifact, "lastChunk": true}});
        let message = json!({"role": "agent", "parts": [{"type": "TextPart", "content": "here"}]});
        let done = json!({"jsonrpc": "2.0", "id": asked.get("id"),
            "result": {"state": "completed", "message": message}});
        writeln!(out, "{made}\n{done}").unwrap();
        out.flush().unwrap();
    }
}

/// So many bytes, in sizes of the file.
fn times(bytes: u64) -> f64 {
    mebibytes(bytes) * f64::from(1 << 20) / size(BYTES)
}

#[expect(clippy::cast_precision_loss, reason = "a size to be read, not counted")]
fn size(bytes: usize) -> f64 {
    bytes as f64
}
