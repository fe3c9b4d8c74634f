//! The bus: carries news to those who watch on this node, and never waits for any of them.
//!
//! It is a shortcut past the log, not a second truth: whoever misses something reads it there.

use crate::event::{Event, Subject};
use crate::ports::Wake;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// The log may have grown.
    Look,
}

/// How far a watcher may fall behind before it has to read the log. Each subject that is watched takes
/// memory for so many, and most are idle.
const BEHIND: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Bus {
    watched: Mutex<HashMap<Subject, broadcast::Sender<News>>>,
}

impl Bus {
    /// Listens to news about a subject from now on.
    pub(crate) fn listen(&self, subject: &Subject) -> broadcast::Receiver<News> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Those whom nobody watches any more go when somebody new comes.
        watched.retain(|_, sender| sender.receiver_count() > 0);
        let sender = watched
            .entry(subject.clone())
            .or_insert_with(|| broadcast::channel(BEHIND).0);
        sender.subscribe()
    }

    /// Tells those who watch a subject.
    pub(crate) fn tell(&self, subject: &Subject, news: News) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(subject) {
            // An error means that nobody listens, which is fine.
            let _ = sender.send(news);
        }
    }

    /// Passes on what a store hints at.
    pub(crate) fn wake(&self, wake: &Wake) {
        match wake {
            Wake::Subject(subject, _) => self.tell(subject, News::Look),
            Wake::Everything => {
                let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.values().for_each(|sender| {
                    let _ = sender.send(News::Look);
                });
            }
            Wake::Work | Wake::Outbox | Wake::Signals(_) | Wake::Subscriptions => {}
        }
    }
}
