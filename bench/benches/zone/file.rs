//! A large generated file: how much memory it costs on its way through the zone, and how much of that is
//! held when it is gone.

use crate::mebibytes;
use crate::zone::{self, Zone, request};
use interzone_bench::bars::bar;
use interzone_bench::connection::Connection;
use interzone_bench::tls;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// The file's size: what the rules let out at most.
const BYTES: usize = 5_000_000;
/// How often the largest need is measured, after one call that warms up.
const ROUNDS: usize = 3;
/// The allocator gives back what is free after some seconds.
const REST: Duration = Duration::from_secs(15);

const EXECUTE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"execute_task","params":{"channel":"files","text":"make it","bot_token":"capability"}}"#;

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
    println!("\n# a generated file of {:.1} MB", size(BYTES) / 1e6);
    ask(folder, &zone).await;
    // The next moment at which it has had time to rest.
    let mut rested = interval_at(Instant::now() + REST, REST);
    rested.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rested.tick().await;
    let idle = zone.server.resident();
    let mut most = 0.0_f64;
    for round in 0..ROUNDS {
        zone.server.forget_most();
        let before = zone.server.resident();
        ask(folder, &zone).await;
        let need = zone.server.most().saturating_sub(before);
        let times = mebibytes(need) * f64::from(1 << 20) / size(BYTES);
        println!(
            "{:>10.1} MiB more at most in round {round}: {times:.2} times the file",
            mebibytes(need)
        );
        most = most.max(times);
        rested.reset();
        rested.tick().await;
    }
    let held = zone.server.resident().saturating_sub(idle);
    println!("{:>10.1} MiB more at rest", mebibytes(held));
    bar("memory of a file, times its size", most, true, 4.0);
    let held = mebibytes(held) * f64::from(1 << 20) / size(BYTES);
    bar("held at rest, times its size", held, true, 0.5);
}

async fn ask(folder: &Path, zone: &Zone) {
    let mut connection = Connection::open(zone.server.port, &tls::client(folder)).await;
    let call = request("POST", "/jsonrpc", Some(&zone.token), EXECUTE);
    let (status, answer) = connection.ask(&call).await;
    assert_eq!(status, 200);
    assert!(answer.len() > BYTES, "{}", String::from_utf8_lossy(answer));
}

/// The agent: makes the same file whatever it is asked, once a line.
pub(crate) fn serve() {
    let mut out = std::io::stdout().lock();
    let content = "QUJD".repeat(BYTES.div_ceil(3));
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(task) = asked
            .pointer("/params/taskId")
            .filter(|_| asked.get("id").is_some())
        else {
            continue;
        };
        let part = json!({"type": "FilePart", "content": content, "encoding": "base64",
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

#[expect(clippy::cast_precision_loss, reason = "a size to be read, not counted")]
fn size(bytes: usize) -> f64 {
    bytes as f64
}
