//! Idle streams: what each costs while nothing happens, and how soon all hear what does.

use crate::load::Connection;
use crate::server::Server;
use crate::zone::{self, request};
use crate::{Size, bar, bare, tls};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const SAY: &str = "heard by all";

pub(crate) async fn measure(folder: &Path, size: Size) {
    let tls = tls::client(folder);
    println!("\n# {} idle streams over TLS", size.streams);
    let limit = bare(folder, 2);
    let open = request("GET", "/", None, "");
    let (each_bare, _) = hold(&limit, &tls, &open, size.streams).await;
    println!("{:>10.1} KB each, bare TLS", each_bare / 1e3);
    drop(limit);

    let zone = zone::start(folder).await;
    let stream = zone.start_stream(&tls).await;
    let open = request(
        "GET",
        &format!("/streams/{stream}/events"),
        Some(&zone.token),
        "",
    );
    let (each, mut watchers) = hold(&zone.server, &tls, &open, size.streams).await;
    println!("{:>10.1} KB each, interzone", each / 1e3);
    bar(
        "memory of an idle stream to bare",
        each / each_bare,
        true,
        1.25,
    );

    watchers.iter_mut().for_each(Connection::forget);
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
    let began = Instant::now();
    zone.say(&tls, &stream, SAY).await;
    let said = began.elapsed();
    let mut last = began;
    for watcher in listening {
        last = last.max(watcher.await.unwrap().0);
    }
    let took = (last - began).as_secs_f64();
    println!(
        "{took:>10.3} s until the last has heard it (it was durable after {:.3} s)",
        said.as_secs_f64()
    );
    bar("seconds to tell everybody", took, true, 0.5);
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
