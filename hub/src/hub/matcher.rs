//! Matching of signals to subscriptions, from a cached snapshot that is validated by its epoch at each commit.

use super::{Emission, SignalAudience};
use crate::ports::{Op, Store, StoreError};
use crate::topic::{Signal, Subscription, TopicTrie};
use interzone_protocol::vocab::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Cache of the active subscriptions.
#[derive(Default)]
pub(super) struct Matcher {
    current: Mutex<Option<Arc<SubscriptionSnapshot>>>,
    /// Last snapshot after an invalidation: its epoch lets the store answer "unchanged".
    invalidated: Mutex<Option<Arc<SubscriptionSnapshot>>>,
}

struct SubscriptionSnapshot {
    epoch: u64,
    trie: TopicTrie<SubscriptionId>,
    subscriptions: HashMap<SubscriptionId, Subscription>,
}

impl Matcher {
    /// Returns the operations that publish these signals, and the epoch for which they are valid.
    pub(super) async fn publish_ops(
        &self,
        store: &dyn Store,
        now: Timestamp,
        signals: &[Emission],
    ) -> Result<(u64, Vec<Op>), StoreError> {
        let snapshot = self.current_snapshot(store).await?;
        let mut ops = Vec::new();
        if snapshot.subscriptions.is_empty() {
            return Ok((snapshot.epoch, ops));
        }
        for emission in signals {
            match emission {
                Emission::Signal(signal, audience) => {
                    ops.extend(snapshot.publish_op(now, signal, audience));
                }
                Emission::TaskEvents(events) => {
                    let audience = events.audience();
                    let signals = events.signals();
                    ops.extend(
                        signals.filter_map(|signal| snapshot.publish_op(now, &signal, &audience)),
                    );
                }
            }
        }
        Ok((snapshot.epoch, ops))
    }

    /// Invalidates the snapshot, because the store reported a change.
    pub(super) fn invalidate(&self) {
        let snapshot = lock(&self.current).take();
        if snapshot.is_some() {
            *lock(&self.invalidated) = snapshot;
        }
    }

    async fn current_snapshot(
        &self,
        store: &dyn Store,
    ) -> Result<Arc<SubscriptionSnapshot>, StoreError> {
        if let Some(snapshot) = lock(&self.current).clone() {
            return Ok(snapshot);
        }
        let invalidated = lock(&self.invalidated).clone();
        let epoch = invalidated.as_ref().map(|snapshot| snapshot.epoch);
        let snapshot = match (store.active_subscriptions(epoch).await?, invalidated) {
            (None, Some(unchanged)) => unchanged,
            (None, None) => Arc::new(SubscriptionSnapshot::new(0, Vec::new())),
            (Some((epoch, subscriptions)), _) => {
                Arc::new(SubscriptionSnapshot::new(epoch, subscriptions))
            }
        };
        *lock(&self.current) = Some(snapshot.clone());
        Ok(snapshot)
    }
}

impl SubscriptionSnapshot {
    /// Returns the operation that publishes a signal to its receivers; `None` if there are none, since it is not stored
    /// then.
    fn publish_op(&self, now: Timestamp, signal: &Signal, audience: &SignalAudience) -> Option<Op> {
        let topic = &signal.topic;
        let mut to = self.trie.matches(topic);
        to.retain(|id| {
            self.subscriptions.get(id).is_some_and(|subscription| {
                subscription.is_active(now)
                    && subscription.matches(topic)
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

impl SignalAudience {
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
