//! In-process event bus: delivers messages to the watchers on this node without ever waiting for them.
//!
//! It is an optimization over reading the log: a watcher that misses a message reads it from the log.

use crate::event::{Event, Subject};
use crate::ports::ChangeHint;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Message about a subject.
#[derive(Clone, Debug)]
pub(crate) enum BusMessage {
    /// An event that is stored in the log.
    Event(Arc<Event>),
    /// A piece of an answer that will be stored in the log soon.
    TextDelta {
        run: u64,
        offset: u64,
        delta: Arc<str>,
    },
    /// The log has reached at least this sequence number.
    LogAdvanced(u64),
}

/// Broadcast capacity per subject: how far a watcher may lag before it has to read the log. Each watched
/// subject allocates this many slots, so it is small to allow for thousands of subjects.
const CHANNEL_CAPACITY: usize = 32;

/// Number of channels below which unused ones are not swept.
const SWEEP_MIN: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Bus {
    channels: Mutex<Channels>,
    /// Number of active forwarders of the store's change hints.
    forwarders: AtomicUsize,
}

/// Watchers of one subject from which on events of another node are read once and fanned out to all.
const FANOUT_THRESHOLD: usize = 16;

#[derive(Debug, Default)]
struct Channels {
    by_subject: HashMap<Subject, SubjectChannel>,
    /// Number of channels at which those without receivers are removed.
    sweep_at: usize,
}

#[derive(Debug)]
struct SubjectChannel {
    sender: broadcast::Sender<BusMessage>,
    /// Highest sequence number that was published or announced to the watchers.
    last_seq: u64,
}

impl SubjectChannel {
    fn publish(&mut self, message: BusMessage) {
        match &message {
            // The writer of an event publishes it, and the store's hint may have arrived first. Publishing
            // twice would wake thousands of watchers for nothing. An event that a later one has overtaken is in
            // the log, where receivers of the later one read it.
            BusMessage::Event(event) if event.seq <= self.last_seq => return,
            BusMessage::Event(event) => self.last_seq = event.seq,
            BusMessage::LogAdvanced(seq) if *seq != u64::MAX => {
                self.last_seq = self.last_seq.max(*seq)
            }
            BusMessage::LogAdvanced(_) | BusMessage::TextDelta { .. } => {}
        }
        // An error means that there are no receivers, which is fine.
        let _ = self.sender.send(message);
    }
}

/// Guard: while it lives, the store's change hints are forwarded to the bus.
pub(crate) struct ForwardingGuard<'b>(&'b Bus);

impl Drop for ForwardingGuard<'_> {
    fn drop(&mut self) {
        self.0.forwarders.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bus {
    fn lock_channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to messages about a subject from now on.
    pub(crate) fn subscribe(&self, subject: &Subject) -> broadcast::Receiver<BusMessage> {
        let mut channels = self.lock_channels();
        if let Some(channel) = channels.by_subject.get(subject) {
            return channel.sender.subscribe();
        }
        // Each sweep waits until the number has doubled, which keeps the amortized cost constant.
        if channels.by_subject.len() >= channels.sweep_at {
            channels
                .by_subject
                .retain(|_, channel| channel.sender.receiver_count() > 0);
            channels.sweep_at = channels.by_subject.len().saturating_mul(2).max(SWEEP_MIN);
        }
        let (sender, receiver) = broadcast::channel(CHANNEL_CAPACITY);
        let channel = SubjectChannel {
            sender,
            last_seq: 0,
        };
        channels.by_subject.insert(subject.clone(), channel);
        receiver
    }

    /// Returns true if a subject may have watchers. A later watcher reads the log first.
    pub(crate) fn is_watched(&self, subject: &Subject) -> bool {
        self.lock_channels().by_subject.contains_key(subject)
    }

    /// Publishes a message to the watchers of a subject.
    pub(crate) fn publish(&self, subject: &Subject, message: BusMessage) {
        if let Some(channel) = self.lock_channels().by_subject.get_mut(subject) {
            channel.publish(message);
        }
    }

    /// Applies a change hint of the store. Events of this node were published before the store's hint and
    /// are not announced again.
    pub(crate) fn apply_hint(&self, hint: &ChangeHint) {
        match hint {
            ChangeHint::Subject(subject, seq) => {
                if let Some(channel) = self.lock_channels().by_subject.get_mut(subject)
                    && channel.last_seq < *seq
                {
                    channel.publish(BusMessage::LogAdvanced(*seq));
                }
            }
            ChangeHint::Everything => {
                for channel in self.lock_channels().by_subject.values_mut() {
                    channel.publish(BusMessage::LogAdvanced(u64::MAX));
                }
            }
            ChangeHint::Work
            | ChangeHint::Outbox
            | ChangeHint::Signals(_)
            | ChangeHint::Subscriptions => {}
        }
    }

    /// Returns the sequence number after which events must be fanned out, if the subject has at least
    /// [`FANOUT_THRESHOLD`] watchers and they have not been given the events up to `seq`. Watchers that have
    /// been given nothing yet have read the log, most likely up to the previous event; those further behind
    /// continue there.
    pub(crate) fn fanout_after(&self, subject: &Subject, seq: u64) -> Option<u64> {
        let channels = self.lock_channels();
        let channel = channels.by_subject.get(subject)?;
        let after = match channel.last_seq {
            0 => seq.checked_sub(1)?,
            last_seq => last_seq,
        };
        (after < seq && channel.sender.receiver_count() >= FANOUT_THRESHOLD).then_some(after)
    }

    /// Marks the store's change hints as forwarded for the lifetime of the guard.
    pub(crate) fn forwarding(&self) -> ForwardingGuard<'_> {
        self.forwarders.fetch_add(1, Ordering::Relaxed);
        ForwardingGuard(self)
    }

    /// Returns true if the store's change hints are being forwarded.
    pub(crate) fn is_forwarding(&self) -> bool {
        self.forwarders.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventBody;
    use interzone_protocol::vocab::{TaskId, Timestamp};

    fn subject() -> Subject {
        Subject::Task(TaskId::new("t").unwrap())
    }

    fn event(seq: u64) -> BusMessage {
        BusMessage::Event(Arc::new(Event {
            subject: subject(),
            seq,
            generation: None,
            at: Timestamp::from_millis(0),
            body: EventBody::Status {
                text: String::new(),
            },
        }))
    }

    fn drain_seqs(receiver: &mut broadcast::Receiver<BusMessage>) -> Vec<u64> {
        let next = || match receiver.try_recv().ok()? {
            BusMessage::Event(event) => Some(event.seq),
            BusMessage::LogAdvanced(seq) => Some(seq * 100),
            BusMessage::TextDelta { .. } => Some(0),
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn event_and_its_hint_are_published_once() {
        let bus = Bus::default();
        let mut watcher = bus.subscribe(&subject());
        for seq in [2, 2, 4, 3, 5] {
            bus.publish(&subject(), event(seq));
        }
        bus.apply_hint(&ChangeHint::Subject(subject(), 5));
        assert_eq!(drain_seqs(&mut watcher), [2, 4, 5]);
        bus.apply_hint(&ChangeHint::Subject(subject(), 6));
        bus.publish(&subject(), event(6));
        assert_eq!(drain_seqs(&mut watcher), [600]);
    }

    #[test]
    fn fanout_starts_at_threshold_and_skips_published_events() {
        let bus = Bus::default();
        let below_threshold: Vec<_> = (1..FANOUT_THRESHOLD)
            .map(|_| bus.subscribe(&subject()))
            .collect();
        assert_eq!(bus.fanout_after(&subject(), 7), None);
        let _threshold_watcher = bus.subscribe(&subject());
        assert_eq!(bus.fanout_after(&subject(), 7), Some(6));
        bus.publish(&subject(), event(7));
        assert_eq!(bus.fanout_after(&subject(), 7), None);
        assert_eq!(bus.fanout_after(&subject(), 9), Some(7));
        drop(below_threshold);
        assert_eq!(bus.fanout_after(&subject(), 9), None);
    }
}
