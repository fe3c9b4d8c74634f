//! Wakes: told to ourselves at once, and to the other nodes by `NOTIFY` a few milliseconds later.
//!
//! One connection listens and tells. It is never the one that writes, because a transaction with a
//! `NOTIFY` in it commits alone on the whole server. What is lost while it is down is made up for by
//! [`Wake::Everything`]; whoever waits for wakes looks by itself now and then in any case.

use super::connect::{AbortUnlessKept, Connector};
use super::fault;
use super::session::backoff;
use interzone_hub::Subject;
use interzone_hub::ports::Wake;
use interzone_protocol::vocab::SubscriptionId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;

/// How long wakes are gathered before they are told to the others.
const GATHERING: Duration = Duration::from_millis(4);

/// The server takes less than 8000 bytes at a time.
const LONGEST: usize = 7_900;

/// With more than this many messages, one that says "everything" is kinder.
const MOST: usize = 4;

/// How many wakes a slow receiver may be behind before it must look at everything.
const KEPT: usize = 4_096;

/// How long a message may take, and how often the connection is tried when nothing happens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where wakes come from and go to.
pub(super) struct Wakes {
    local: broadcast::Sender<Wake>,
    pending: Arc<Pending>,
    worker: JoinHandle<()>,
}

#[derive(Default)]
struct Pending {
    batch: Mutex<Batch>,
    changed: Notify,
}

impl Wakes {
    /// Starts listening and telling.
    pub(super) fn start(connector: Connector, schema: &str, tag: u64) -> Self {
        let (local, _) = broadcast::channel(KEPT);
        let pending = Arc::<Pending>::default();
        let line = Line {
            connector,
            channel: format!("interzone_{schema}"),
            tag: format!("{tag:016x}"),
            local: local.clone(),
            pending: Arc::clone(&pending),
        };
        Self {
            local,
            pending,
            worker: tokio::spawn(line.keep_up()),
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.local.subscribe()
    }

    /// Tells everybody.
    pub(super) fn tell(&self, wakes: impl IntoIterator<Item = Wake>) {
        let mut batch = self.pending.lock();
        for wake in wakes {
            batch.add(&wake);
            // Nobody may be waiting here.
            let _ = self.local.send(wake);
        }
        drop(batch);
        self.pending.changed.notify_one();
    }

    pub(super) fn stop(&self) {
        self.worker.abort();
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pending {
    fn lock(&self) -> std::sync::MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection that listens and tells.
struct Line {
    connector: Connector,
    channel: String,
    /// Begins our own messages, which come back to us and are left aside.
    tag: String,
    local: broadcast::Sender<Wake>,
    pending: Arc<Pending>,
}

impl Line {
    async fn keep_up(self) {
        let mut attempt = 0;
        loop {
            if let Err(error) = self.be_connected(&mut attempt).await {
                tracing::warn!(%error, "no wakes from other nodes for now");
            }
            attempt += 1;
            sleep(backoff(attempt)).await;
        }
    }

    async fn be_connected(
        &self,
        attempt: &mut u32,
    ) -> Result<(), interzone_hub::ports::StoreError> {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let opened = self.connector.open(Some(sender)).await;
        let (client, driver) = opened.map_err(|error| fault::cannot_connect(&error))?;
        let _driver = AbortUnlessKept(Some(driver));
        let listen = format!("LISTEN \"{}\"", self.channel);
        let asked = client.batch_execute(&listen).await;
        asked.map_err(|error| fault::answer(&error))?;
        if *attempt > 0 {
            // What happened meanwhile, here or there, was told to nobody.
            self.pending.lock().add(&Wake::Everything);
            self.pending.changed.notify_one();
        }
        let _ = self.local.send(Wake::Everything);
        *attempt = 0;
        loop {
            tokio::select! {
                message = heard.recv() => match message {
                    Some(message) => self.pass_on(&message),
                    None => return Ok(()),
                },
                () = self.pending.changed.notified() => {
                    sleep(GATHERING).await;
                    let messages = std::mem::take(&mut *self.pending.lock()).messages(&self.tag);
                    if messages.is_empty() {
                        continue;
                    }
                    let sql = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message";
                    let values: [&(dyn ToSql + Sync); 2] = [&self.channel, &messages];
                    match timeout(PATIENCE, client.execute(sql, &values)).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return Err(fault::answer(&error)),
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }

    fn pass_on(&self, message: &str) {
        for wake in read(message, &self.tag) {
            let _ = self.local.send(wake);
        }
    }
}

/// Wakes to be told together, each once.
#[derive(Default)]
struct Batch {
    everything: bool,
    plain: BTreeSet<&'static str>,
    subjects: BTreeMap<Subject, u64>,
    signals: BTreeSet<SubscriptionId>,
}

impl Batch {
    fn add(&mut self, wake: &Wake) {
        match wake {
            Wake::Subject(subject, seq) => {
                let known = self.subjects.entry(subject.clone()).or_default();
                *known = (*known).max(*seq);
            }
            Wake::Work => drop(self.plain.insert("w")),
            Wake::Outbox => drop(self.plain.insert("o")),
            Wake::Subscriptions => drop(self.plain.insert("c")),
            Wake::Signals(id) => drop(self.signals.insert(id.clone())),
            Wake::Everything => self.everything = true,
        }
        if self.subjects.len() + self.signals.len() > LONGEST {
            self.everything = true;
        }
        if self.everything {
            *self = Self {
                everything: true,
                ..Self::default()
            };
        }
    }

    /// One line for each, in messages that begin with the tag.
    fn messages(self, tag: &str) -> Vec<String> {
        if self.everything {
            return vec![format!("{tag}\n*")];
        }
        let plain = self.plain.iter().map(|word| (*word).to_owned());
        let subjects = self.subjects.iter();
        let subjects = subjects.map(|(subject, seq)| format!("e{seq} {}", subject.key()));
        let signals = self.signals.iter().map(|id| format!("s{id}"));
        let mut messages: Vec<String> = Vec::new();
        for line in plain.chain(subjects).chain(signals) {
            match messages.last_mut() {
                Some(message) if message.len() + 1 + line.len() <= LONGEST => {
                    message.push('\n');
                    message.push_str(&line);
                }
                _ => messages.push(format!("{tag}\n{line}")),
            }
        }
        if messages.len() > MOST {
            return vec![format!("{tag}\n*")];
        }
        messages
    }
}

/// What a message says, unless it is our own. What cannot be read may be anything.
fn read(message: &str, own: &str) -> Vec<Wake> {
    let mut lines = message.split('\n');
    if lines.next() == Some(own) {
        return Vec::new();
    }
    lines
        .map(|line| read_line(line).unwrap_or(Wake::Everything))
        .collect()
}

fn read_line(line: &str) -> Option<Wake> {
    match line {
        "w" => Some(Wake::Work),
        "o" => Some(Wake::Outbox),
        "c" => Some(Wake::Subscriptions),
        _ => {
            if let Some(id) = line.strip_prefix('s') {
                return SubscriptionId::new(id).ok().map(Wake::Signals);
            }
            let (seq, key) = line.strip_prefix('e')?.split_once(' ')?;
            Some(Wake::Subject(Subject::from_key(key)?, seq.parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::TaskId;

    fn subject(id: &str) -> Subject {
        Subject::Task(TaskId::new(id).unwrap())
    }

    fn batch(wakes: &[Wake]) -> Batch {
        let mut batch = Batch::default();
        wakes.iter().for_each(|wake| batch.add(wake));
        batch
    }

    #[test]
    fn wakes_are_told_once_and_read_back() {
        let signals = Wake::Signals(SubscriptionId::new("s 1").unwrap());
        let wakes = [
            Wake::Outbox,
            Wake::Work,
            Wake::Work,
            Wake::Subscriptions,
            Wake::Subject(subject("a b/c"), 3),
            Wake::Subject(subject("a b/c"), 2),
            signals.clone(),
        ];
        let messages = batch(&wakes).messages("me");
        assert_eq!(messages.len(), 1);
        let read_back = read(&messages[0], "you");
        let expected = [
            Wake::Subscriptions,
            Wake::Outbox,
            Wake::Work,
            Wake::Subject(subject("a b/c"), 3),
            signals,
        ];
        assert_eq!(read_back, expected);
        assert_eq!(read(&messages[0], "me"), []);
    }

    #[test]
    fn messages_stay_within_their_limit() {
        let wake = |n: usize| Wake::Subject(subject(&format!("{n:0>200}")), 1);
        let some: Vec<Wake> = (0..100).map(wake).collect();
        let messages = batch(&some).messages("me");
        assert!(messages.len() > 1 && messages.len() <= MOST);
        assert!(messages.iter().all(|message| message.len() <= LONGEST));
        let read_back: usize = messages.iter().map(|m| read(m, "you").len()).sum();
        assert_eq!(read_back, 100);
        let many: Vec<Wake> = (0..1_000).map(wake).collect();
        assert_eq!(batch(&many).messages("me"), ["me\n*"]);
        let far_too_many: Vec<Wake> = (0..10_000).map(wake).collect();
        assert_eq!(batch(&far_too_many).messages("me"), ["me\n*"]);
        assert!(batch(&[]).messages("me").is_empty());
    }

    #[test]
    fn what_cannot_be_read_may_be_anything() {
        for odd in ["you\n*", "you\n?", "you\ne x", "you\ns"] {
            assert_eq!(read(odd, "me"), [Wake::Everything], "{odd}");
        }
    }
}
