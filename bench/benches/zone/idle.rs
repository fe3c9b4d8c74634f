//! Idle streams: what each costs while nothing happens, and how soon all hear what does.

use crate::zone::{self, request};
use crate::{Size, bare};
use interzone_bench::bars::bar;
use interzone_bench::connection::Connection;
use interzone_bench::server::Server;
use interzone_bench::tls;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SAY: &str = "heard by all";

/// About what a watcher of the zone is sent, for the bare server to say.
const BARE: &str = r#"id: 2
event: stream.chunk
data: {"jsonrpc":"2.0","method":"stream.chunk","params":{"streamId":"0199f1a2b3c4d5e6f708192a3b4c5d6e","chunk":{"role":"user","parts":[{"type":"TextPart","content":"heard by all"}],"timestamp":"2026-01-01T00:00:00.000Z"},"sequence":1,"isLast":false}}

"#;

pub(crate) async fn measure(folder: &Path, size: Size) {
    let tls = tls::client(folder);
    println!("\n# {} idle streams over TLS", size.streams);
    let limit = bare(folder, 2);
    let open = request("GET", "/", None, "");
    let (each_bare, watchers) = hold(&limit, &tls, &open, size.streams).await;
    println!("{:>10.1} KB each, bare TLS", each_bare / 1e3);
    let say = async {
        let mut connection = Connection::open(limit.port, &tls).await;
        connection.ask(&request("POST", "/tell", None, BARE)).await;
    };
    tell("bare TLS", &limit, watchers, say).await;
    drop(limit);

    let zone = zone::start(folder).await;
    let stream = zone.start_stream(&tls).await;
    let open = request(
        "GET",
        &format!("/streams/{stream}/events"),
        Some(&zone.token),
        "",
    );
    let (each, watchers) = hold(&zone.server, &tls, &open, size.streams).await;
    println!("{:>10.1} KB each, interzone", each / 1e3);
    bar(
        "memory of an idle stream to bare",
        each / each_bare,
        true,
        1.25,
    );

    let say = zone.say(&tls, &stream, SAY);
    let took = tell("interzone", &zone.server, watchers, say).await;
    bar("seconds to tell everybody", took.as_secs_f64(), true, 0.5);
}

/// Has something said, and waits until all have heard it: how long that took.
async fn tell(
    name: &str,
    server: &Server,
    mut watchers: Vec<Connection>,
    say: impl Future<Output = ()>,
) -> Duration {
    watchers.iter_mut().for_each(Connection::forget);
    #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
    let streams = watchers.len() as f64;
    let listening: Vec<_> = watchers
        .into_iter()
        .map(|mut watcher| {
            tokio::spawn(async move {
                while !String::from_utf8_lossy(watcher.read()).contains(SAY) {
                    watcher.more().await;
                }
                (Instant::now(), watcher)
            })
        })
        .collect();
    let before = server.processor();
    let began = Instant::now();
    say.await;
    let said = began.elapsed();
    let mut last = began;
    for watcher in listening {
        last = last.max(watcher.await.unwrap().0);
    }
    let took = last - began;
    let each = (server.processor() - before) * 1e6 / streams;
    println!(
        "{:>10.3} s until the last has heard it, {name} (answered after {:.3} s; {each:.0} µs of processor a stream)",
        took.as_secs_f64(),
        said.as_secs_f64()
    );
    took
}

/// Opens streams and holds them: how much memory the server took for each, in bytes.
async fn hold(
    server: &Server,
    tls: &Arc<rustls::ClientConfig>,
    open: &[u8],
    streams: usize,
) -> (f64, Vec<Connection>) {
    let before = server.resident();
    let mut held = Vec::with_capacity(streams);
    for _ in 0..streams {
        let mut connection = Connection::open(server.port, tls).await;
        connection.send(open).await;
        while !String::from_utf8_lossy(connection.read()).contains("\r\n\r\n") {
            connection.more().await;
        }
        let head = String::from_utf8_lossy(connection.read()).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        held.push(connection);
    }
    let grown = server.resident().saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a size to be read, not counted")]
    let each = grown as f64 / streams as f64;
    (each, held)
}
