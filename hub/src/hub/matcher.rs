//! Which subscriptions a signal is for, kept in memory and checked against the store at each commit.

use super::{Audience, Emitted};
use crate::ports::{Op, Store, StoreError};
use crate::topic::{Signal, Subscription, TopicTrie};
use interzone_protocol::vocab::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The active subscriptions as they were at some epoch.
#[derive(Default)]
pub(super) struct Matcher {
    known: Mutex<Option<Arc<Known>>>,
    /// The epoch to ask the store about; kept when the subscriptions themselves are doubted.
    doubted: Mutex<Option<Arc<Known>>>,
}

struct Known {
    epoch: u64,
    trie: TopicTrie<SubscriptionId>,
    subscriptions: HashMap<SubscriptionId, Subscription>,
}

impl Matcher {
    /// The operations that publish these signals, and the epoch for which that is right.
    pub(super) async fn publish(
        &self,
        store: &dyn Store,
        now: Timestamp,
        signals: &[Emitted],
    ) -> Result<(u64, Vec<Op>), StoreError> {
        let known = self.known(store).await?;
        let mut ops = Vec::new();
        if known.subscriptions.is_empty() {
            return Ok((known.epoch, ops));
        }
        for emitted in signals {
            match emitted {
                Emitted::Signal(signal, audience) => {
                    ops.extend(known.publish(now, signal, audience));
                }
                Emitted::OfTask(events) => {
                    let audience = events.audience();
                    let signals = events.signals();
                    ops.extend(signals.filter_map(|signal| known.publish(now, &signal, &audience)));
                }
            }
        }
        Ok((known.epoch, ops))
    }

    /// Doubts what is known, because the store said that it has changed.
    pub(super) fn forget(&self) {
        let known = lock(&self.known).take();
        if known.is_some() {
            *lock(&self.doubted) = known;
        }
    }

    async fn known(&self, store: &dyn Store) -> Result<Arc<Known>, StoreError> {
        if let Some(known) = lock(&self.known).clone() {
            return Ok(known);
        }
        let doubted = lock(&self.doubted).clone();
        let epoch = doubted.as_ref().map(|known| known.epoch);
        let fresh = match (store.active_subscriptions(epoch).await?, doubted) {
            (None, Some(still_right)) => still_right,
            (None, None) => Arc::new(Known::new(0, Vec::new())),
            (Some((epoch, subscriptions)), _) => Arc::new(Known::new(epoch, subscriptions)),
        };
        *lock(&self.known) = Some(fresh.clone());
        Ok(fresh)
    }
}

impl Known {
    /// Publishes a signal to those who hear it; one that nobody hears is not kept.
    fn publish(&self, now: Timestamp, signal: &Signal, audience: &Audience) -> Option<Op> {
        let topic = &signal.topic;
        let mut to = self.trie.matches(topic);
        to.retain(|id| {
            self.subscriptions.get(id).is_some_and(|subscription| {
                subscription.is_live(now)
                    && subscription.wants(topic)
                    && audience.includes(subscription.owner.as_str())
            })
        });
        (!to.is_empty()).then(|| Op::Publish {
            signal: Box::new(signal.clone()),
            to,
        })
    }

    fn new(epoch: u64, subscriptions: Vec<Subscription>) -> Self {
        let mut trie = TopicTrie::default();
        for subscription in &subscriptions {
            for pattern in &subscription.patterns {
                trie.insert(pattern, subscription.id.clone());
            }
        }
        let by_id = |subscription: Subscription| (subscription.id.clone(), subscription);
        Self {
            epoch,
            trie,
            subscriptions: subscriptions.into_iter().map(by_id).collect(),
        }
    }
}

impl Audience {
    fn includes(&self, owner: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|name| name == owner),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
