//! Change hints between nodes by LISTEN/NOTIFY. Local subscribers get a hint at once; other nodes get it
//! by `NOTIFY` a few milliseconds later.
//!
//! One dedicated connection listens and notifies. It is never one that writes, because PostgreSQL
//! serializes the commits of transactions that contain a `NOTIFY`. Hints lost while it is down are replaced
//! by `ChangeHint::Everything`; waiters also poll now and then in any case.

use super::connect::{AbortOnDrop, Connector};
use super::error;
use super::tx_runner::RETRY_BACKOFF;
use interzone_hub::Subject;
use interzone_hub::ports::ChangeHint;
use interzone_protocol::vocab::SubscriptionId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;

/// Interval during which hints are coalesced before a `NOTIFY`.
const COALESCE_INTERVAL: Duration = Duration::from_millis(4);

/// Payload limit; the server accepts less than 8000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_900;

/// Maximum messages per batch; above it, one "everything changed" message is sent instead.
const MAX_MESSAGES: usize = 4;

/// Capacity of the local broadcast channel; a receiver that lags further must re-read everything.
const HINT_CHANNEL_CAPACITY: usize = 4_096;

/// Timeout of sending a `NOTIFY`.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes and receives change hints.
pub(super) struct ChangeNotifier {
    local: broadcast::Sender<ChangeHint>,
    pending: Arc<OutgoingHints>,
    worker: JoinHandle<()>,
}

#[derive(Default)]
struct OutgoingHints {
    batch: Mutex<HintBatch>,
    changed: Notify,
}

impl ChangeNotifier {
    /// Starts the task that listens and notifies.
    pub(super) fn start(connector: Connector, schema: &str, tag: u64) -> Self {
        let (local, _) = broadcast::channel(HINT_CHANNEL_CAPACITY);
        let pending = Arc::<OutgoingHints>::default();
        let listen_loop = ListenLoop {
            connector,
            channel: format!("interzone_{schema}"),
            tag: format!("{tag:016x}"),
            local: local.clone(),
            pending: Arc::clone(&pending),
        };
        Self {
            local,
            pending,
            worker: tokio::spawn(listen_loop.run()),
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<ChangeHint> {
        self.local.subscribe()
    }

    /// Publishes hints to local subscribers and to the other nodes.
    pub(super) fn publish(&self, hints: impl IntoIterator<Item = ChangeHint>) {
        let mut batch = self.pending.lock();
        for hint in hints {
            batch.add(&hint);
            // There may be no local subscriber.
            let _ = self.local.send(hint);
        }
        drop(batch);
        self.pending.changed.notify_one();
    }

    pub(super) fn stop(&self) {
        self.worker.abort();
    }
}

impl Drop for ChangeNotifier {
    fn drop(&mut self) {
        self.stop();
    }
}

impl OutgoingHints {
    fn lock(&self) -> std::sync::MutexGuard<'_, HintBatch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The background task with the LISTEN/NOTIFY connection.
struct ListenLoop {
    connector: Connector,
    channel: String,
    /// Prefix of our own messages, which the server sends back to us and which are ignored.
    tag: String,
    local: broadcast::Sender<ChangeHint>,
    pending: Arc<OutgoingHints>,
}

impl ListenLoop {
    async fn run(self) {
        let mut attempt = 0;
        loop {
            if let Err(error) = self.run_connected(&mut attempt).await {
                tracing::warn!(%error, "change notifications from other nodes interrupted");
            }
            attempt += 1;
            sleep(RETRY_BACKOFF.equal_jitter(attempt)).await;
        }
    }

    async fn run_connected(
        &self,
        attempt: &mut u32,
    ) -> Result<(), interzone_hub::ports::StoreError> {
        let (sender, mut notifications) = mpsc::unbounded_channel();
        let opened = self.connector.open(Some(sender)).await;
        let (client, driver) = opened.map_err(|error| error::connect_error(&error))?;
        let _driver = AbortOnDrop(Some(driver));
        let listen = format!("LISTEN \"{}\"", self.channel);
        let listening = client.batch_execute(&listen).await;
        listening.map_err(|error| error::to_store_error(&error))?;
        if *attempt > 0 {
            // Hints in either direction were lost while disconnected.
            self.pending.lock().add(&ChangeHint::Everything);
            self.pending.changed.notify_one();
        }
        let _ = self.local.send(ChangeHint::Everything);
        *attempt = 0;
        loop {
            tokio::select! {
                message = notifications.recv() => match message {
                    Some(message) => self.forward(&message),
                    None => return Ok(()),
                },
                () = self.pending.changed.notified() => {
                    sleep(COALESCE_INTERVAL).await;
                    let messages = std::mem::take(&mut *self.pending.lock()).messages(&self.tag);
                    if messages.is_empty() {
                        continue;
                    }
                    let sql = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message";
                    let values: [&(dyn ToSql + Sync); 2] = [&self.channel, &messages];
                    match timeout(NOTIFY_TIMEOUT, client.execute(sql, &values)).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return Err(error::to_store_error(&error)),
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }

    fn forward(&self, message: &str) {
        for hint in parse_message(message, &self.tag) {
            let _ = self.local.send(hint);
        }
    }
}

/// Hints waiting to be sent, deduplicated.
#[derive(Default)]
struct HintBatch {
    everything: bool,
    simple_codes: BTreeSet<&'static str>,
    subjects: BTreeMap<Subject, u64>,
    signals: BTreeSet<SubscriptionId>,
}

impl HintBatch {
    fn add(&mut self, hint: &ChangeHint) {
        match hint {
            ChangeHint::Subject(subject, seq) => {
                let latest_seq = self.subjects.entry(subject.clone()).or_default();
                *latest_seq = (*latest_seq).max(*seq);
            }
            ChangeHint::Work => drop(self.simple_codes.insert("w")),
            ChangeHint::Outbox => drop(self.simple_codes.insert("o")),
            ChangeHint::Subscriptions => drop(self.simple_codes.insert("c")),
            ChangeHint::Signals(id) => drop(self.signals.insert(id.clone())),
            ChangeHint::Everything => self.everything = true,
        }
        if self.subjects.len() + self.signals.len() > MAX_PAYLOAD_BYTES {
            self.everything = true;
        }
        if self.everything {
            *self = Self {
                everything: true,
                ..Self::default()
            };
        }
    }

    /// Encodes one line per hint, in messages that begin with the tag.
    fn messages(self, tag: &str) -> Vec<String> {
        if self.everything {
            return vec![format!("{tag}\n*")];
        }
        let simple_codes = self.simple_codes.iter().map(|code| (*code).to_owned());
        let subjects = self.subjects.iter();
        let subjects = subjects.map(|(subject, seq)| format!("e{seq} {}", subject.key()));
        let signals = self.signals.iter().map(|id| format!("s{id}"));
        let mut messages: Vec<String> = Vec::new();
        for line in simple_codes.chain(subjects).chain(signals) {
            match messages.last_mut() {
                Some(message) if message.len() + 1 + line.len() <= MAX_PAYLOAD_BYTES => {
                    message.push('\n');
                    message.push_str(&line);
                }
                _ => messages.push(format!("{tag}\n{line}")),
            }
        }
        if messages.len() > MAX_MESSAGES {
            return vec![format!("{tag}\n*")];
        }
        messages
    }
}

/// Parses a message, unless it is our own. An unreadable line becomes `Everything`.
fn parse_message(message: &str, own: &str) -> Vec<ChangeHint> {
    let mut lines = message.split('\n');
    if lines.next() == Some(own) {
        return Vec::new();
    }
    lines
        .map(|line| parse_line(line).unwrap_or(ChangeHint::Everything))
        .collect()
}

fn parse_line(line: &str) -> Option<ChangeHint> {
    match line {
        "w" => Some(ChangeHint::Work),
        "o" => Some(ChangeHint::Outbox),
        "c" => Some(ChangeHint::Subscriptions),
        _ => {
            if let Some(id) = line.strip_prefix('s') {
                return SubscriptionId::new(id).ok().map(ChangeHint::Signals);
            }
            let (seq, key) = line.strip_prefix('e')?.split_once(' ')?;
            Some(ChangeHint::Subject(
                Subject::from_key(key)?,
                seq.parse().ok()?,
            ))
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

    fn batch(hints: &[ChangeHint]) -> HintBatch {
        let mut batch = HintBatch::default();
        hints.iter().for_each(|wake| batch.add(wake));
        batch
    }

    #[test]
    fn duplicate_hints_are_sent_once_and_parsed() {
        let signals = ChangeHint::Signals(SubscriptionId::new("s 1").unwrap());
        let hints = [
            ChangeHint::Outbox,
            ChangeHint::Work,
            ChangeHint::Work,
            ChangeHint::Subscriptions,
            ChangeHint::Subject(subject("a b/c"), 3),
            ChangeHint::Subject(subject("a b/c"), 2),
            signals.clone(),
        ];
        let messages = batch(&hints).messages("me");
        assert_eq!(messages.len(), 1);
        let read_back = parse_message(&messages[0], "you");
        let expected = [
            ChangeHint::Subscriptions,
            ChangeHint::Outbox,
            ChangeHint::Work,
            ChangeHint::Subject(subject("a b/c"), 3),
            signals,
        ];
        assert_eq!(read_back, expected);
        assert_eq!(parse_message(&messages[0], "me"), []);
    }

    #[test]
    fn messages_stay_within_payload_limit() {
        let hint = |n: usize| ChangeHint::Subject(subject(&format!("{n:0>200}")), 1);
        let some: Vec<ChangeHint> = (0..100).map(hint).collect();
        let messages = batch(&some).messages("me");
        assert!(messages.len() > 1 && messages.len() <= MAX_MESSAGES);
        assert!(
            messages
                .iter()
                .all(|message| message.len() <= MAX_PAYLOAD_BYTES)
        );
        let read_back: usize = messages.iter().map(|m| parse_message(m, "you").len()).sum();
        assert_eq!(read_back, 100);
        let many: Vec<ChangeHint> = (0..1_000).map(hint).collect();
        assert_eq!(batch(&many).messages("me"), ["me\n*"]);
        let far_too_many: Vec<ChangeHint> = (0..10_000).map(hint).collect();
        assert_eq!(batch(&far_too_many).messages("me"), ["me\n*"]);
        assert!(batch(&[]).messages("me").is_empty());
    }

    #[test]
    fn unreadable_message_means_everything_changed() {
        for odd in ["you\n*", "you\n?", "you\ne x", "you\ns"] {
            assert_eq!(parse_message(odd, "me"), [ChangeHint::Everything], "{odd}");
        }
    }
}
