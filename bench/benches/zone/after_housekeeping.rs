//! Load after housekeeping: one task, a minute idle with housekeeping, then creates.

use crate::ZoneBenchSize;
use crate::load;
use crate::zone_process::{ZoneProcess, request, start};
use interzone_bench::thresholds::check_threshold;
use interzone_bench::tls;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CREATE: &str = r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks.create","params":{"initialMessage":{"role":"user","parts":[{"type":"TextPart","content":"echo hello"}]},"assignTo":"demo","priority":"NORMAL"}}"#;
const CONNECTIONS: usize = 32;
/// Idle time; housekeeping runs once a minute.
const IDLE_TIME: Duration = Duration::from_secs(75);
const WINDOWS: usize = 4;

pub(crate) async fn measure(folder: &Path, size: ZoneBenchSize) {
    println!(
        "\n# tasks.create by the demo agent, {CONNECTIONS} connections, with and without idle time after one task"
    );
    let (immediate, idled) = (start(folder).await, start(folder).await);
    let tls = tls::client_config(folder);
    let create = request("POST", "/jsonrpc", Some(&idled.token), CREATE);
    let open = load::open(idled.server.port, &tls, 1).await;
    drop(load::measure(open, &create, Duration::from_millis(1)).await);
    let fresh = measure_windows(&immediate, &tls, size).await;
    drop(immediate);
    println!("{:>10} s idle", IDLE_TIME.as_secs());
    // Nothing else runs during the idle time, which is what is measured.
    tokio::time::sleep(IDLE_TIME).await;
    let after = measure_windows(&idled, &tls, size).await;
    println!("| window | CPU µs per create, at once | after idle time |\n|---|---:|---:|");
    for (number, (fresh, after)) in fresh.iter().zip(&after).enumerate() {
        println!("| {} | {fresh:.1} | {after:.1} |", number + 1);
    }
    let last = |costs: &[f64]| costs.last().copied().unwrap_or(f64::NAN);
    let first = after.first().copied().unwrap_or(f64::NAN);
    check_threshold(
        "after idle time, last window to first",
        last(&after) / first,
        true,
        1.3,
    );
    check_threshold(
        "last window after idle time to that without",
        last(&after) / last(&fresh),
        true,
        1.3,
    );
}

/// CPU cost of a create for each time window.
async fn measure_windows(
    zone: &ZoneProcess,
    tls: &Arc<rustls::ClientConfig>,
    size: ZoneBenchSize,
) -> Vec<f64> {
    let create = request("POST", "/jsonrpc", Some(&zone.token), CREATE);
    let mut open = load::open(zone.server.port, tls, CONNECTIONS).await;
    let mut costs = Vec::new();
    for _ in 0..WINDOWS {
        let before = zone.server.cpu_seconds();
        let (stats, connections) = load::measure(open, &create, size.time).await;
        open = connections;
        let used = zone.server.cpu_seconds() - before;
        #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
        costs.push(used * 1e6 / stats.responses as f64);
    }
    costs
}
