//! Sends as Slack does: each event when its time has come, whether or not those before it are acknowledged,
//! on connections that are kept.

use interzone_bench::connection::Connection;
use rustls::ClientConfig;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Connections at the same time.
const CONNECTIONS: usize = 32;
/// A connection that has rested for so long is not used again: the zone closes one that has never asked
/// anything after ten seconds, and others after 75.
const RESTED: Duration = Duration::from_secs(5);

/// The way to a zone's door. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender(Arc<Kept>);

struct Kept {
    port: u16,
    tls: Arc<ClientConfig>,
    room: Semaphore,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl Sender {
    /// A sender with some connections open.
    pub(crate) async fn open(port: u16, tls: &Arc<ClientConfig>, connections: usize) -> Self {
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push((Connection::open(port, tls).await, Instant::now()));
        }
        Self(Arc::new(Kept {
            port,
            tls: tls.clone(),
            room: Semaphore::new(CONNECTIONS),
            idle: Mutex::new(idle),
        }))
    }

    /// Sends an event, and waits until it is acknowledged.
    pub(crate) async fn send(&self, request: &[u8]) {
        let kept = &*self.0;
        let _room = kept.room.acquire().await.unwrap();
        let idle = || kept.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = idle().pop().filter(|(_, used)| used.elapsed() < RESTED);
        let mut connection = match rested {
            Some((connection, _)) => connection,
            None => Connection::open(kept.port, &kept.tls).await,
        };
        let (status, body) = connection.ask(request).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(body));
        idle().push((connection, Instant::now()));
    }

    /// Sends events at a steady pace. Gives how long each was waited for, from when its time had come; so
    /// whatever holds up the sender counts too.
    pub(crate) async fn pace(
        &self,
        requests: impl Iterator<Item = Vec<u8>>,
        every: Duration,
    ) -> Vec<Duration> {
        let mut waits = Vec::new();
        let mut sent = JoinSet::new();
        let mut due = Instant::now() + every;
        for request in requests {
            sleep_until(due).await;
            let sender = self.clone();
            sent.spawn(async move {
                sender.send(&request).await;
                due.elapsed()
            });
            due += every;
            while let Some(wait) = sent.try_join_next() {
                waits.push(wait.unwrap());
            }
        }
        waits.extend(sent.join_all().await);
        waits.sort_unstable();
        waits
    }
}
