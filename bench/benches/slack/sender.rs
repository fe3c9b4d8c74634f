//! Open-loop sender like Slack: each event is sent on schedule, whether or not earlier ones are acknowledged,
//! on keep-alive connections.

use interzone_bench::connection::Connection;
use rustls::ClientConfig;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 32;
/// A connection idle for longer is not reused: the zone closes one without any request after ten seconds,
/// and others after 75.
const MAX_IDLE: Duration = Duration::from_secs(5);

/// Sends events to a zone. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EventSender(Arc<ConnectionPool>);

struct ConnectionPool {
    port: u16,
    tls: Arc<ClientConfig>,
    permits: Semaphore,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl EventSender {
    /// A sender with some connections open.
    pub(crate) async fn open(port: u16, tls: &Arc<ClientConfig>, connections: usize) -> Self {
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push((Connection::open(port, tls).await, Instant::now()));
        }
        Self(Arc::new(ConnectionPool {
            port,
            tls: tls.clone(),
            permits: Semaphore::new(MAX_CONNECTIONS),
            idle: Mutex::new(idle),
        }))
    }

    /// Sends an event, and waits until it is acknowledged.
    pub(crate) async fn send(&self, request: &[u8]) {
        let pool = &*self.0;
        let _permit = pool.permits.acquire().await.unwrap();
        let idle = || pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let reusable = idle().pop().filter(|(_, used)| used.elapsed() < MAX_IDLE);
        let mut connection = match reusable {
            Some((connection, _)) => connection,
            None => Connection::open(pool.port, &pool.tls).await,
        };
        let (status, body) = connection.request(request).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(body));
        idle().push((connection, Instant::now()));
    }

    /// Sends events at a fixed interval. Returns the latency of each, counted from its scheduled time, so that
    /// delays of the sender count too.
    pub(crate) async fn send_at_interval(
        &self,
        requests: impl Iterator<Item = Vec<u8>>,
        interval: Duration,
    ) -> Vec<Duration> {
        let mut waits = Vec::new();
        let mut sent = JoinSet::new();
        let mut due = Instant::now() + interval;
        for request in requests {
            sleep_until(due).await;
            let sender = self.clone();
            sent.spawn(async move {
                sender.send(&request).await;
                due.elapsed()
            });
            due += interval;
            while let Some(wait) = sent.try_join_next() {
                waits.push(wait.unwrap());
            }
        }
        waits.extend(sent.join_all().await);
        waits.sort_unstable();
        waits
    }
}
