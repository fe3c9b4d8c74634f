//! Topics: subscribe, decide on subscriptions, publish, deliver, acknowledge.

use super::tasks::made_id;
use super::{Audience, Emitted, Hub, ROUNDS, contended};
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::outbox::RetryPolicy;
use crate::ports::{Op, StoreError, SubscriptionQuery};
use crate::topic::{Acked, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState};
use interzone_protocol::vocab::{Json, SignalId, SubscriptionId, Timestamp, Topic, TopicPattern};
use std::time::Duration;

/// A subscription to ask for.
#[derive(Clone, Debug)]
pub struct NewSubscription {
    /// Which topics.
    pub patterns: Vec<TopicPattern>,
    /// Whether somebody must approve it first.
    pub needs_approval: bool,
    /// How signals get there and why they are wanted.
    pub about: Option<Json>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// How many subscriptions it is for.
    pub deliveries: usize,
}

impl Hub {
    /// Asks for a subscription.
    ///
    /// # Errors
    /// It has no patterns or too many, or the caller has too many subscriptions.
    pub async fn subscribe(
        &self,
        caller: &Caller,
        new: NewSubscription,
    ) -> Result<Subscription, HubError> {
        let limits = &self.inner.limits;
        if new.patterns.is_empty() {
            return Err(HubError::Invalid {
                field: "topics",
                reason: "name at least one topic",
            });
        }
        Limits::count(
            "topics of a subscription",
            new.patterns.len(),
            limits.patterns,
        )?;
        limits.about("what is said of the subscription", new.about.as_ref())?;
        let mine = SubscriptionQuery {
            owner: Some(caller.principal.clone()),
            ..Default::default()
        };
        let (_, count) = self.store().subscriptions(&mine).await?;
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        Limits::count("subscriptions", count, limits.subscriptions)?;
        let now = self.now();
        let state = match new.needs_approval {
            true => SubscriptionState::Pending,
            false => SubscriptionState::Active,
        };
        let subscription = Subscription {
            id: made_id(SubscriptionId::new(format!("sub_{}", self.new_id(now))))?,
            owner: caller.principal.clone(),
            patterns: new.patterns,
            allowed: None,
            state,
            about: new.about,
            created_at: now,
            expires_at: new.expires_at,
            revision: 1,
        };
        let op = Op::CreateSubscription(Box::new(subscription.clone()));
        self.write_subscription(now, op).await.map_err(contended)?;
        Ok(subscription)
    }

    /// A subscription.
    ///
    /// # Errors
    /// There is none with this id that the caller may see.
    pub async fn subscription(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        let found = self.store().subscription(id).await?;
        caller.subscription(found.ok_or_else(|| HubError::SubscriptionNotFound(id.clone()))?)
    }

    /// Subscriptions that the caller may see, oldest first, and how many there are in all.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn list_subscriptions(
        &self,
        caller: &Caller,
        query: SubscriptionQuery,
    ) -> Result<(Vec<Subscription>, u64), HubError> {
        let owner = caller.lists().or(query.owner);
        let limit = query.limit.clamp(1, self.inner.limits.page.max(1));
        Ok(self
            .store()
            .subscriptions(&SubscriptionQuery {
                owner,
                limit,
                ..query
            })
            .await?)
    }

    /// Approves a subscription, perhaps for fewer topics or for a shorter time than it asked for.
    ///
    /// # Errors
    /// The caller may not decide, or the subscription does not wait for it.
    pub async fn approve(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        allowed: Option<Vec<TopicPattern>>,
        expires_at: Option<Timestamp>,
    ) -> Result<Subscription, HubError> {
        caller.decide()?;
        let patterns = allowed.as_ref().map_or(0, Vec::len);
        Limits::count(
            "topics of a subscription",
            patterns,
            self.inner.limits.patterns,
        )?;
        self.move_subscription(caller, id, SubscriptionState::Active, |subscription| {
            subscription.allowed.clone_from(&allowed);
            subscription.expires_at = expires_at.or(subscription.expires_at);
        })
        .await
    }

    /// Does not approve a subscription.
    ///
    /// # Errors
    /// As [`Hub::approve`].
    pub async fn deny(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        caller.decide()?;
        self.move_subscription(caller, id, SubscriptionState::Denied, |_| {})
            .await
    }

    /// Takes an approval back.
    ///
    /// # Errors
    /// The caller may not decide, or the subscription is not active.
    pub async fn revoke(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        caller.decide()?;
        self.move_subscription(caller, id, SubscriptionState::Revoked, |_| {})
            .await
    }

    /// Ends a subscription, or some of its topics; it is gone when none is left. Answers what is left
    /// of it.
    ///
    /// # Errors
    /// There is none with this id that the caller may see.
    pub async fn unsubscribe(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        topics: Option<&[TopicPattern]>,
    ) -> Result<Option<Subscription>, HubError> {
        for _ in 0..ROUNDS {
            let mut subscription = self.subscription(caller, id).await?;
            if let Some(topics) = topics {
                subscription
                    .patterns
                    .retain(|pattern| !topics.contains(pattern));
            }
            subscription.revision += 1;
            let left =
                (topics.is_some() && !subscription.patterns.is_empty()).then_some(subscription);
            let op = match left.clone() {
                None => Op::RemoveSubscription(id.clone()),
                Some(left) => Op::UpdateSubscription(Box::new(left)),
            };
            match self.write_subscription(self.now(), op).await {
                Ok(()) => return Ok(left),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// Publishes a signal. It is durable for every subscription it is for when this returns.
    ///
    /// # Errors
    /// It is too large.
    pub async fn publish(
        &self,
        caller: &Caller,
        topic: Topic,
        id: SignalId,
        body: Json,
    ) -> Result<Published, HubError> {
        self.inner.limits.signal(&body)?;
        // What happens to tasks and streams is told by the hub itself, to those it concerns.
        if matches!(topic.segments().next(), Some("task" | "stream")) {
            return Err(HubError::Invalid {
                field: "topic",
                reason: "topics that begin with task or stream are the hub's own",
            });
        }
        let at = self.now();
        let publisher = caller.principal.clone();
        let signal = Signal {
            topic,
            id,
            publisher,
            at,
            body: SignalBody::Sent(body),
        };
        let emitted = vec![Emitted::Signal(signal, Audience::All)];
        let deliveries = self
            .commit(at, None, Vec::new(), emitted)
            .await
            .map_err(contended)?;
        Ok(Published { deliveries })
    }

    /// Signals that are due for a subscription, in their order, counted as one more attempt each.
    /// What is not acknowledged is due again after a while, and given up after too many attempts.
    ///
    /// # Errors
    /// There is no such subscription that the caller may see, or it is not active.
    pub async fn take_signals(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        policy: &RetryPolicy,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, HubError> {
        self.live_subscription(caller, id).await?;
        let now = self.now();
        let random = self.inner.ids.random();
        // The last wait goes for all further attempts, so there need not be one for each.
        let mut waits: Vec<Duration> = (1..policy.attempts.min(64))
            .filter_map(|attempt| policy.wait_after(attempt, random))
            .collect();
        // After the last attempt there is a last wait too, in which an acknowledgement may come.
        waits.push(policy.longest);
        let taken = self.store().claim_signals(id, now, &waits, limit).await?;
        let mut due = Vec::with_capacity(taken.len());
        for delivery in taken {
            if delivery.attempt > policy.attempts {
                self.store().bury_signal(id, delivery.seq, now).await?;
            } else {
                due.push(delivery);
            }
        }
        Ok(due)
    }

    /// Signals of a subscription that are not acknowledged, in their order, from after a number on.
    ///
    /// # Errors
    /// There is no such subscription that the caller may see, or it is not active.
    pub async fn unacked_signals(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, HubError> {
        self.live_subscription(caller, id).await?;
        Ok(self.store().unacked_signals(id, after, limit).await?)
    }

    /// Acknowledges signals, and answers for each in its place; for one that is named twice, the same
    /// both times.
    ///
    /// # Errors
    /// There is no such subscription that the caller may see.
    pub async fn ack(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        signals: &[SignalId],
    ) -> Result<Vec<Acked>, HubError> {
        self.subscription(caller, id).await?;
        let mut once: Vec<SignalId> = signals.to_vec();
        once.sort();
        once.dedup();
        let answers = self.store().ack_signals(id, &once, self.now()).await?;
        let answer = |signal| {
            let place = once.binary_search(signal).ok()?;
            answers.get(place).copied()
        };
        Ok(signals
            .iter()
            .map(|signal| answer(signal).unwrap_or(Acked::Unknown))
            .collect())
    }

    async fn live_subscription(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        let subscription = self.subscription(caller, id).await?;
        if subscription.is_live(self.now()) {
            return Ok(subscription);
        }
        let state = match subscription.state {
            SubscriptionState::Active => SubscriptionState::Expired,
            other => other,
        };
        Err(HubError::SubscriptionNotReady {
            id: id.clone(),
            state,
        })
    }

    async fn move_subscription(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        to: SubscriptionState,
        change: impl Fn(&mut Subscription),
    ) -> Result<Subscription, HubError> {
        self.move_subscription_if(caller, id, to, |_| true, change)
            .await
    }

    /// Moves a subscription to another state, if it may go there and the reason for it still holds.
    pub(super) async fn move_subscription_if(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        to: SubscriptionState,
        still: impl Fn(&Subscription) -> bool,
        change: impl Fn(&mut Subscription),
    ) -> Result<Subscription, HubError> {
        for _ in 0..ROUNDS {
            let mut subscription = self.subscription(caller, id).await?;
            let state = subscription.state;
            if !state.may_become(to) || !still(&subscription) {
                return Err(HubError::SubscriptionNotReady {
                    id: id.clone(),
                    state,
                });
            }
            subscription.state = to;
            subscription.revision += 1;
            change(&mut subscription);
            let op = Op::UpdateSubscription(Box::new(subscription.clone()));
            match self.write_subscription(self.now(), op).await {
                Ok(()) => return Ok(subscription),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }

    async fn write_subscription(&self, at: Timestamp, op: Op) -> Result<(), StoreError> {
        let written = self.commit(at, None, vec![op], Vec::new()).await;
        // What is in memory is older than what was just written.
        self.inner.matcher.forget();
        written.map(|_| ())
    }
}
