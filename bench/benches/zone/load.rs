//! The load: connections that are kept, each asking again as soon as it has its answer.

use interzone_bench::bars::exceeded_by;
use interzone_bench::connection::Connection;
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What one measurement gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Answers a second, over all connections.
    pub(crate) rate: f64,
    /// The wait that one in two exceeds.
    pub(crate) median: Duration,
    /// The wait that one in a hundred exceeds.
    pub(crate) p99: Duration,
    /// How many answers there were.
    pub(crate) answers: usize,
}

/// Opens so many connections.
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

/// Asks on these connections for so long, and gives them back. Every answer must have status 200 and no
/// error in it.
pub(crate) async fn measure(
    open: Vec<Connection>,
    request: &Arc<[u8]>,
    time: Duration,
) -> (Figures, Vec<Connection>) {
    let began = Instant::now();
    let over = began + time;
    let tasks: Vec<_> = open
        .into_iter()
        .map(|mut connection| {
            let request = request.clone();
            tokio::spawn(async move {
                let mut waits = Vec::with_capacity(4096);
                while Instant::now() < over {
                    let asked = Instant::now();
                    let (status, body) = connection.ask(&request).await;
                    let fine = status == 200 && !contains(body, b"\"error\":{");
                    assert!(fine, "{status} {}", String::from_utf8_lossy(body));
                    waits.push(asked.elapsed());
                }
                (waits, connection)
            })
        })
        .collect();
    let (mut waits, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let (more, connection) = task.await.unwrap();
        waits.extend(more);
        open.push(connection);
    }
    let took = began.elapsed();
    waits.sort_unstable();
    let by = |percent: usize| exceeded_by(&waits, percent).unwrap_or(took);
    let (median, p99) = (by(50), by(1));
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    let rate = waits.len() as f64 / took.as_secs_f64();
    let answers = waits.len();
    let figures = Figures {
        rate,
        median,
        p99,
        answers,
    };
    (figures, open)
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}
