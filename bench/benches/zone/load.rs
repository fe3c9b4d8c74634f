//! Closed-loop load: keep-alive connections that each send the next request after a response.

use interzone_bench::connection::Connection;
use interzone_bench::thresholds::exceeded_by;
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Result of one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadStats {
    /// Responses per second over all connections.
    pub(crate) rate: f64,
    /// Median latency.
    pub(crate) median: Duration,
    /// 99th percentile of the latency.
    pub(crate) p99: Duration,
    /// Number of responses.
    pub(crate) responses: usize,
}

/// Opens connections.
pub(crate) async fn open(
    port: u16,
    tls: &Arc<ClientConfig>,
    connections: usize,
) -> Vec<Connection> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(port, tls).await);
    }
    open
}

/// Sends requests on these connections for `time` and returns them. Every response must have status 200 and
/// no error.
pub(crate) async fn measure(
    open: Vec<Connection>,
    request: &Arc<[u8]>,
    time: Duration,
) -> (LoadStats, Vec<Connection>) {
    let start = Instant::now();
    let end = start + time;
    let tasks: Vec<_> = open
        .into_iter()
        .map(|mut connection| {
            let request = request.clone();
            tokio::spawn(async move {
                let mut waits = Vec::with_capacity(4096);
                while Instant::now() < end {
                    let sent = Instant::now();
                    let (status, body) = connection.request(&request).await;
                    let is_ok = status == 200 && !contains(body, b"\"error\":{");
                    assert!(is_ok, "{status} {}", String::from_utf8_lossy(body));
                    waits.push(sent.elapsed());
                }
                (waits, connection)
            })
        })
        .collect();
    let (mut waits, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let (connection_waits, connection) = task.await.unwrap();
        waits.extend(connection_waits);
        open.push(connection);
    }
    let took = start.elapsed();
    waits.sort_unstable();
    let percentile = |percent: usize| exceeded_by(&waits, percent).unwrap_or(took);
    let (median, p99) = (percentile(50), percentile(1));
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    let rate = waits.len() as f64 / took.as_secs_f64();
    let responses = waits.len();
    let stats = LoadStats {
        rate,
        median,
        p99,
        responses,
    };
    (stats, open)
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}
