//! Topics: subscribe, approve, publish, deliver, acknowledge.

use super::tasks::internal_id;
use super::{Emission, Hub, MAX_CAS_RETRIES, SignalAudience, map_conflict};
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::outbox::RetryPolicy;
use crate::ports::{Op, StoreError, SubscriptionQuery};
use crate::topic::{
    AckOutcome, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState,
};
use interzone_protocol::vocab::{
    SignalId, SubscriptionId, Timestamp, Topic, TopicPattern, VerbatimJson,
};
use std::time::Duration;

/// A subscription to request.
#[derive(Clone, Debug)]
pub struct NewSubscription {
    /// Topic patterns.
    pub patterns: Vec<TopicPattern>,
    /// True if an operator must approve it first.
    pub needs_approval: bool,
    /// Delivery settings and purpose, interpreted by the dialect only.
    pub dialect_data: Option<VerbatimJson>,
    /// Expiry time, if any.
    pub expires_at: Option<Timestamp>,
}

/// Result of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishResult {
    /// Number of subscriptions that it is delivered to.
    pub deliveries: usize,
}

impl Hub {
    /// Requests a subscription.
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
        Limits::check_count(
            "topics of a subscription",
            new.patterns.len(),
            limits.patterns,
        )?;
        limits.check_target(
            "the settings of the subscription",
            new.dialect_data.as_ref(),
        )?;
        let query = SubscriptionQuery {
            owner: Some(caller.principal.clone()),
            ..Default::default()
        };
        let (_, count) = self.store().subscriptions(&query).await?;
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        Limits::check_count("subscriptions", count, limits.subscriptions)?;
        let now = self.now();
        let state = match new.needs_approval {
            true => SubscriptionState::Pending,
            false => SubscriptionState::Active,
        };
        let subscription = Subscription {
            id: internal_id(SubscriptionId::new(format!("sub_{}", self.new_id(now))))?,
            owner: caller.principal.clone(),
            patterns: new.patterns,
            allowed_patterns: None,
            state,
            dialect_data: new.dialect_data,
            created_at: now,
            expires_at: new.expires_at,
            revision: 1,
        };
        let op = Op::CreateSubscription(Box::new(subscription.clone()));
        self.write_subscription(now, op)
            .await
            .map_err(map_conflict)?;
        Ok(subscription)
    }

    /// Returns a subscription.
    ///
    /// # Errors
    /// There is no subscription with this id that the caller may see.
    pub async fn subscription(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        let subscription = self.store().subscription(id).await?;
        caller.authorize_subscription(
            subscription.ok_or_else(|| HubError::SubscriptionNotFound(id.clone()))?,
        )
    }

    /// Lists subscriptions that the caller may see, oldest first, with their total number.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn list_subscriptions(
        &self,
        caller: &Caller,
        query: SubscriptionQuery,
    ) -> Result<(Vec<Subscription>, u64), HubError> {
        let owner = caller.owner_filter().or(query.owner);
        let limit = query.limit.clamp(1, self.inner.limits.page_size.max(1));
        Ok(self
            .store()
            .subscriptions(&SubscriptionQuery {
                owner,
                limit,
                ..query
            })
            .await?)
    }

    /// Approves a subscription, optionally with fewer topics or an earlier expiry than requested.
    ///
    /// # Errors
    /// The caller is not an operator, or the subscription is not pending.
    pub async fn approve(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        allowed: Option<Vec<TopicPattern>>,
        expires_at: Option<Timestamp>,
    ) -> Result<Subscription, HubError> {
        caller.require_operator()?;
        let patterns = allowed.as_ref().map_or(0, Vec::len);
        Limits::check_count(
            "topics of a subscription",
            patterns,
            self.inner.limits.patterns,
        )?;
        self.set_subscription_state(caller, id, SubscriptionState::Active, |subscription| {
            subscription.allowed_patterns.clone_from(&allowed);
            subscription.expires_at = expires_at.or(subscription.expires_at);
        })
        .await
    }

    /// Denies a subscription.
    ///
    /// # Errors
    /// See [`Hub::approve`].
    pub async fn deny(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        caller.require_operator()?;
        self.set_subscription_state(caller, id, SubscriptionState::Denied, |_| {})
            .await
    }

    /// Revokes an approval.
    ///
    /// # Errors
    /// The caller is not an operator, or the subscription is not active.
    pub async fn revoke(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        caller.require_operator()?;
        self.set_subscription_state(caller, id, SubscriptionState::Revoked, |_| {})
            .await
    }

    /// Removes a subscription, or some of its topics; it is removed when no topic remains. Returns the remaining
    /// subscription.
    ///
    /// # Errors
    /// There is no subscription with this id that the caller may see.
    pub async fn unsubscribe(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        topics: Option<&[TopicPattern]>,
    ) -> Result<Option<Subscription>, HubError> {
        for _ in 0..MAX_CAS_RETRIES {
            let mut subscription = self.subscription(caller, id).await?;
            if let Some(topics) = topics {
                subscription
                    .patterns
                    .retain(|pattern| !topics.contains(pattern));
            }
            subscription.revision += 1;
            let remaining =
                (topics.is_some() && !subscription.patterns.is_empty()).then_some(subscription);
            let op = match remaining.clone() {
                None => Op::RemoveSubscription(id.clone()),
                Some(remaining) => Op::UpdateSubscription(Box::new(remaining)),
            };
            match self.write_subscription(self.now(), op).await {
                Ok(()) => return Ok(remaining),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(map_conflict(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// Publishes a signal. It is durable for every matching subscription when this returns.
    ///
    /// # Errors
    /// It is too large.
    pub async fn publish(
        &self,
        caller: &Caller,
        topic: Topic,
        id: SignalId,
        body: VerbatimJson,
    ) -> Result<PublishResult, HubError> {
        self.inner.limits.check_signal(&body)?;
        // Signals about tasks and streams are published by the hub itself, to their owners and participants.
        if matches!(topic.segments().next(), Some("task" | "stream")) {
            return Err(HubError::Invalid {
                field: "topic",
                reason: "topics that begin with task or stream are reserved",
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
        let emissions = vec![Emission::Signal(signal, SignalAudience::All)];
        let deliveries = self
            .commit(at, None, Vec::new(), emissions)
            .await
            .map_err(map_conflict)?;
        Ok(PublishResult { deliveries })
    }

    /// Claims due signals of a subscription, in order; each claim counts as an attempt. Unacknowledged signals are
    /// due again after a delay, and dead-lettered after too many attempts.
    ///
    /// # Errors
    /// There is no such subscription that the caller may see, or it is not active.
    pub async fn claim_signals(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        policy: &RetryPolicy,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, HubError> {
        self.active_subscription(caller, id).await?;
        let now = self.now();
        let random = self.inner.ids.random();
        // The last delay applies to all further attempts, so there need not be one for each.
        let mut delays: Vec<Duration> = (1..policy.max_attempts.min(64))
            .filter_map(|attempt| policy.delay_after(attempt, random))
            .collect();
        // The last attempt has a delay too, in which it may be acknowledged.
        delays.push(policy.max_delay);
        let claimed = self.store().claim_signals(id, now, &delays, limit).await?;
        let mut due = Vec::with_capacity(claimed.len());
        for delivery in claimed {
            if delivery.attempt > policy.max_attempts {
                self.store()
                    .dead_letter_signal(id, delivery.seq, now)
                    .await?;
            } else {
                due.push(delivery);
            }
        }
        Ok(due)
    }

    /// Returns unacknowledged signals of a subscription, in order, after a sequence number.
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
        self.active_subscription(caller, id).await?;
        Ok(self.store().unacked_signals(id, after, limit).await?)
    }

    /// Acknowledges signals and returns one outcome per id, in order; duplicate ids get the same outcome.
    ///
    /// # Errors
    /// There is no such subscription that the caller may see.
    pub async fn ack(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        signals: &[SignalId],
    ) -> Result<Vec<AckOutcome>, HubError> {
        self.subscription(caller, id).await?;
        let mut unique_ids: Vec<SignalId> = signals.to_vec();
        unique_ids.sort();
        unique_ids.dedup();
        let outcomes = self
            .store()
            .ack_signals(id, &unique_ids, self.now())
            .await?;
        let outcome = |signal| {
            let index = unique_ids.binary_search(signal).ok()?;
            outcomes.get(index).copied()
        };
        Ok(signals
            .iter()
            .map(|signal| outcome(signal).unwrap_or(AckOutcome::Unknown))
            .collect())
    }

    async fn active_subscription(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
    ) -> Result<Subscription, HubError> {
        let subscription = self.subscription(caller, id).await?;
        if subscription.is_active(self.now()) {
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

    async fn set_subscription_state(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        to: SubscriptionState,
        change: impl Fn(&mut Subscription),
    ) -> Result<Subscription, HubError> {
        self.set_subscription_state_if(caller, id, to, |_| true, change)
            .await
    }

    /// Changes the state of a subscription, if the transition is allowed and the condition still holds.
    pub(super) async fn set_subscription_state_if(
        &self,
        caller: &Caller,
        id: &SubscriptionId,
        to: SubscriptionState,
        condition: impl Fn(&Subscription) -> bool,
        change: impl Fn(&mut Subscription),
    ) -> Result<Subscription, HubError> {
        for _ in 0..MAX_CAS_RETRIES {
            let mut subscription = self.subscription(caller, id).await?;
            let state = subscription.state;
            if !state.can_become(to) || !condition(&subscription) {
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
                Err(error) => return Err(map_conflict(error)),
            }
        }
        Err(HubError::Contended)
    }

    async fn write_subscription(&self, at: Timestamp, op: Op) -> Result<(), StoreError> {
        let result = self.commit(at, None, vec![op], Vec::new()).await;
        // The cached subscriptions are out of date now.
        self.inner.matcher.invalidate();
        result.map(|_| ())
    }
}
