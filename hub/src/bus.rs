//! The bus: carries news to those who watch on this node, and never waits for any of them.
//!
//! It is a shortcut past the log, not a second truth: whoever misses something reads it there.

use crate::event::{Event, Subject};
use crate::ports::Wake;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// News about a subject.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// An event that is in the log.
    Event(Arc<Event>),
    /// A piece of an answer that will be in the log soon.
    Text {
        run: u64,
        offset: u64,
        delta: Arc<str>,
    },
    /// The log has grown to at least this number.
    Look(u64),
}

/// How far a watcher may fall behind before it has to read the log. Every subject that is watched has
/// room for so much news, so thousands of watched subjects want it small.
const BEHIND: usize = 32;

/// So many subjects are kept without asking whether anybody still watches them.
const FEW: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Bus {
    watched: Mutex<Watched>,
    /// How many pass on what the store hints at.
    fed: AtomicUsize,
}

/// From so many watchers of one subject on, what another node wrote is read once for all of them.
const CROWD: usize = 16;

#[derive(Debug, Default)]
struct Watched {
    channels: HashMap<Subject, Channel>,
    /// When there are so many, those whom nobody watches any more go.
    sweep_at: usize,
}

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<News>,
    /// The highest number of an event that was told, or that watchers were told to look for.
    told: u64,
}

impl Channel {
    fn tell(&mut self, news: News) {
        match &news {
            // Whoever writes an event tells it, and the store's hint may have been faster. Telling twice
            // would wake thousands for nothing. One that a later one has overtaken is in the log, where
            // those who heard the later one look.
            News::Event(event) if event.seq <= self.told => return,
            News::Event(event) => self.told = event.seq,
            News::Look(seq) if *seq != u64::MAX => self.told = self.told.max(*seq),
            News::Look(_) | News::Text { .. } => {}
        }
        // An error means that nobody listens, which is fine.
        let _ = self.sender.send(news);
    }
}

/// As long as it lives, what the store hints at is passed on.
pub(crate) struct Feeding<'b>(&'b Bus);

impl Drop for Feeding<'_> {
    fn drop(&mut self) {
        self.0.fed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bus {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to news about a subject from now on.
    pub(crate) fn listen(&self, subject: &Subject) -> broadcast::Receiver<News> {
        let mut watched = self.watched();
        if let Some(channel) = watched.channels.get(subject) {
            return channel.sender.subscribe();
        }
        // Each sweep waits until the number has doubled, so that all of them together cost little.
        if watched.channels.len() >= watched.sweep_at {
            watched
                .channels
                .retain(|_, channel| channel.sender.receiver_count() > 0);
            watched.sweep_at = watched.channels.len().saturating_mul(2).max(FEW);
        }
        let (sender, receiver) = broadcast::channel(BEHIND);
        let channel = Channel { sender, told: 0 };
        watched.channels.insert(subject.clone(), channel);
        receiver
    }

    /// Whether a subject may have watchers. Whoever comes later reads the log first.
    pub(crate) fn is_watched(&self, subject: &Subject) -> bool {
        self.watched().channels.contains_key(subject)
    }

    /// Tells those who watch a subject.
    pub(crate) fn tell(&self, subject: &Subject, news: News) {
        if let Some(channel) = self.watched().channels.get_mut(subject) {
            channel.tell(news);
        }
    }

    /// Passes on what a store hints at. What this node wrote was told before the store hinted at it,
    /// and is not told again.
    pub(crate) fn wake(&self, wake: &Wake) {
        match wake {
            Wake::Subject(subject, seq) => {
                if let Some(channel) = self.watched().channels.get_mut(subject)
                    && channel.told < *seq
                {
                    channel.tell(News::Look(*seq));
                }
            }
            Wake::Everything => {
                for channel in self.watched().channels.values_mut() {
                    channel.tell(News::Look(u64::MAX));
                }
            }
            Wake::Work | Wake::Outbox | Wake::Signals(_) | Wake::Subscriptions => {}
        }
    }

    /// The number after which a crowd of watchers has to be told more, if this subject has one and it
    /// has not been told up to `seq`. A crowd that was told nothing yet has read the log, most likely up
    /// to the event before; whoever is further behind reads on there.
    pub(crate) fn crowd_behind(&self, subject: &Subject, seq: u64) -> Option<u64> {
        let watched = self.watched();
        let channel = watched.channels.get(subject)?;
        let after = match channel.told {
            0 => seq.checked_sub(1)?,
            told => told,
        };
        (after < seq && channel.sender.receiver_count() >= CROWD).then_some(after)
    }

    /// Says that the store's hints are passed on from now on.
    pub(crate) fn feed(&self) -> Feeding<'_> {
        self.fed.fetch_add(1, Ordering::Relaxed);
        Feeding(self)
    }

    /// Whether somebody passes on what the store hints at.
    pub(crate) fn is_fed(&self) -> bool {
        self.fed.load(Ordering::Relaxed) > 0
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

    fn event(seq: u64) -> News {
        News::Event(Arc::new(Event {
            subject: subject(),
            seq,
            at: Timestamp::from_millis(0),
            body: EventBody::Status {
                text: String::new(),
            },
        }))
    }

    fn heard(receiver: &mut broadcast::Receiver<News>) -> Vec<u64> {
        let next = || match receiver.try_recv().ok()? {
            News::Event(event) => Some(event.seq),
            News::Look(seq) => Some(seq * 100),
            News::Text { .. } => Some(0),
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn an_event_is_told_once_whoever_is_faster() {
        let bus = Bus::default();
        let mut watcher = bus.listen(&subject());
        for seq in [2, 2, 4, 3, 5] {
            bus.tell(&subject(), event(seq));
        }
        bus.wake(&Wake::Subject(subject(), 5));
        assert_eq!(heard(&mut watcher), [2, 4, 5]);
        bus.wake(&Wake::Subject(subject(), 6));
        bus.tell(&subject(), event(6));
        assert_eq!(heard(&mut watcher), [600]);
    }

    #[test]
    fn a_crowd_is_never_sent_to_the_log_for_one_event() {
        let bus = Bus::default();
        let few: Vec<_> = (1..CROWD).map(|_| bus.listen(&subject())).collect();
        assert_eq!(bus.crowd_behind(&subject(), 7), None);
        let _one_more = bus.listen(&subject());
        assert_eq!(bus.crowd_behind(&subject(), 7), Some(6));
        bus.tell(&subject(), event(7));
        assert_eq!(bus.crowd_behind(&subject(), 7), None);
        assert_eq!(bus.crowd_behind(&subject(), 9), Some(7));
        drop(few);
        assert_eq!(bus.crowd_behind(&subject(), 9), None);
    }
}
