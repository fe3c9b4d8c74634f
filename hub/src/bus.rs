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

#[derive(Debug, Default)]
struct Watched {
    senders: HashMap<Subject, broadcast::Sender<News>>,
    /// When there are so many, those whom nobody watches any more go.
    sweep_at: usize,
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
        if let Some(sender) = watched.senders.get(subject) {
            return sender.subscribe();
        }
        // Each sweep waits until the number has doubled, so that all of them together cost little.
        if watched.senders.len() >= watched.sweep_at {
            watched
                .senders
                .retain(|_, sender| sender.receiver_count() > 0);
            watched.sweep_at = watched.senders.len().saturating_mul(2).max(FEW);
        }
        let (sender, receiver) = broadcast::channel(BEHIND);
        watched.senders.insert(subject.clone(), sender);
        receiver
    }

    /// Tells those who watch a subject.
    pub(crate) fn tell(&self, subject: &Subject, news: News) {
        let sender = self.watched().senders.get(subject).cloned();
        if let Some(sender) = sender {
            // An error means that nobody listens, which is fine.
            let _ = sender.send(news);
        }
    }

    /// Passes on what a store hints at.
    pub(crate) fn wake(&self, wake: &Wake) {
        match wake {
            Wake::Subject(subject, seq) => self.tell(subject, News::Look(*seq)),
            Wake::Everything => {
                for sender in self.watched().senders.values() {
                    let _ = sender.send(News::Look(u64::MAX));
                }
            }
            Wake::Work | Wake::Outbox | Wake::Signals(_) | Wake::Subscriptions => {}
        }
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
