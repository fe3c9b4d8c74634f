//! A zone that rests before it is loaded: one task, housekeeping with that one, then creates.

use crate::Size;
use crate::load;
use crate::zone::{Zone, request, start};
use interzone_bench::bars::bar;
use interzone_bench::tls;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CREATE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks.create","params":{"initialMessage":{"role":"user","parts":[{"type":"TextPart","content":"echo hello"}]},"assignTo":"demo","priority":"NORMAL"}}"#;
const CONNECTIONS: usize = 32;
/// Housekeeping comes once a minute.
const REST: Duration = Duration::from_secs(75);
const WINDOWS: usize = 4;

pub(crate) async fn measure(folder: &Path, size: Size) {
    println!(
        "\n# tasks.create by the demo agent, {CONNECTIONS} connections, with and without a rest after one task"
    );
    let (at_once, rested) = (start(folder).await, start(folder).await);
    let tls = tls::client(folder);
    let create = request("POST", "/jsonrpc", Some(&rested.token), CREATE);
    let open = load::open(rested.server.port, &tls, 1).await;
    drop(load::measure(open, &create, Duration::from_millis(1)).await);
    let fresh = windows(&at_once, &tls, size).await;
    drop(at_once);
    println!("{:>10} s of rest", REST.as_secs());
    // The rest itself is what is measured: nothing else happens meanwhile.
    tokio::time::sleep(REST).await;
    let after = windows(&rested, &tls, size).await;
    println!("| window | processor µs a create, at once | after the rest |\n|---|---:|---:|");
    for (number, (fresh, after)) in fresh.iter().zip(&after).enumerate() {
        println!("| {} | {fresh:.1} | {after:.1} |", number + 1);
    }
    let last = |costs: &[f64]| costs.last().copied().unwrap_or(f64::NAN);
    let first = after.first().copied().unwrap_or(f64::NAN);
    bar(
        "after a rest, the last window by the first",
        last(&after) / first,
        true,
        1.3,
    );
    bar(
        "the last window after a rest by that without",
        last(&after) / last(&fresh),
        true,
        1.3,
    );
}

/// What a create costs the server, window after window.
async fn windows(zone: &Zone, tls: &Arc<rustls::ClientConfig>, size: Size) -> Vec<f64> {
    let create = request("POST", "/jsonrpc", Some(&zone.token), CREATE);
    let mut open = load::open(zone.server.port, tls, CONNECTIONS).await;
    let mut costs = Vec::new();
    for _ in 0..WINDOWS {
        let before = zone.server.processor();
        let (figures, kept) = load::measure(open, &create, size.time).await;
        open = kept;
        let used = zone.server.processor() - before;
        #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
        costs.push(used * 1e6 / figures.answers as f64);
    }
    costs
}
