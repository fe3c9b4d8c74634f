//! Idle streams: memory of each, and fan-out latency of an event.

use crate::zone_process::{self, request};
use crate::{ZoneBenchSize, start_bare};
use interzone_bench::connection::Connection;
use interzone_bench::server::Server;
use interzone_bench::thresholds::check_threshold;
use interzone_bench::tls;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MESSAGE_TEXT: &str = "hello to all";

/// Event that the bare server sends, like one of the zone.
const BARE_EVENT: &str = r#"id: 2
event: stream.chunk
data: {"jsonrpc":"2.0","method":"stream.chunk","params":{"streamId":"0199f1a2b3c4d5e6f708192a3b4c5d6e","chunk":{"role":"user","parts":[{"type":"TextPart","content":"hello to all"}],"timestamp":"2026-01-01T00:00:00.000Z"},"sequence":1,"isLast":false}}

"#;

pub(crate) async fn measure(folder: &Path, size: ZoneBenchSize) {
    let tls = tls::client_config(folder);
    println!("\n# {} idle streams over TLS", size.streams);
    let bare_server = start_bare(folder, 2);
    let open = request("GET", "/", None, "");
    let (each_bare, watchers) = open_streams(&bare_server, &tls, &open, size.streams).await;
    println!("{:>10.1} KB each, bare TLS", each_bare / 1e3);
    let broadcast = async {
        let mut connection = Connection::open(bare_server.port, &tls).await;
        connection
            .request(&request("POST", "/broadcast", None, BARE_EVENT))
            .await;
    };
    measure_fanout("bare TLS", &bare_server, watchers, broadcast).await;
    drop(bare_server);

    let zone = zone_process::start(folder).await;
    let stream = zone.start_stream(&tls).await;
    let open = request(
        "GET",
        &format!("/streams/{stream}/events"),
        Some(&zone.token),
        "",
    );
    let (each, watchers) = open_streams(&zone.server, &tls, &open, size.streams).await;
    println!("{:>10.1} KB each, interzone", each / 1e3);
    check_threshold(
        "memory of an idle stream to bare",
        each / each_bare,
        true,
        1.25,
    );

    let broadcast = zone.send_chunk(&tls, &stream, MESSAGE_TEXT);
    let took = measure_fanout("interzone", &zone.server, watchers, broadcast).await;
    check_threshold(
        "seconds until all watchers have it",
        took.as_secs_f64(),
        true,
        0.5,
    );
}

/// Broadcasts an event and waits until all watchers have received it. Returns the time taken.
async fn measure_fanout(
    name: &str,
    server: &Server,
    mut watchers: Vec<Connection>,
    broadcast: impl Future<Output = ()>,
) -> Duration {
    watchers.iter_mut().for_each(Connection::clear);
    #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
    let streams = watchers.len() as f64;
    let receivers: Vec<_> = watchers
        .into_iter()
        .map(|mut watcher| {
            tokio::spawn(async move {
                while !String::from_utf8_lossy(watcher.buffered()).contains(MESSAGE_TEXT) {
                    watcher.read_more().await;
                }
                (Instant::now(), watcher)
            })
        })
        .collect();
    let before = server.cpu_seconds();
    let start = Instant::now();
    broadcast.await;
    let answered = start.elapsed();
    let mut last = start;
    for watcher in receivers {
        last = last.max(watcher.await.unwrap().0);
    }
    let took = last - start;
    let cpu_per_stream = (server.cpu_seconds() - before) * 1e6 / streams;
    println!(
        "{:>10.3} s until the last watcher has it, {name} (answered after {:.3} s; {cpu_per_stream:.0} µs CPU per stream)",
        took.as_secs_f64(),
        answered.as_secs_f64()
    );
    took
}

/// Opens streams and returns the server's memory for each, in bytes.
async fn open_streams(
    server: &Server,
    tls: &Arc<rustls::ClientConfig>,
    open: &[u8],
    streams: usize,
) -> (f64, Vec<Connection>) {
    let before = server.resident_bytes();
    let mut connections = Vec::with_capacity(streams);
    for _ in 0..streams {
        let mut connection = Connection::open(server.port, tls).await;
        connection.send(open).await;
        while !String::from_utf8_lossy(connection.buffered()).contains("\r\n\r\n") {
            connection.read_more().await;
        }
        let head = String::from_utf8_lossy(connection.buffered()).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        connections.push(connection);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a size to be read, not counted")]
    let each = grown as f64 / streams as f64;
    (each, connections)
}
