//! Push subscriptions of tasks.

use super::task_change::TaskChange;
use super::tasks::internal_id;
use super::{Hub, MAX_CAS_RETRIES, STREAM_CHANNEL, map_conflict};
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::outbox::DeliveryStatus;
use crate::ports::{Op, StoreError};
use crate::task::PushSubscription;
use interzone_protocol::vocab::{SubscriptionId, TaskId, VerbatimJson};

/// A push subscription to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPushSubscription {
    /// Subscription id; generated if `None`.
    pub id: Option<SubscriptionId>,
    /// The outbox channel that delivers it.
    pub channel: String,
    /// Event names to deliver; empty for all but text deltas and status lines.
    pub events: Vec<String>,
    /// Destination and settings.
    pub target: VerbatimJson,
}

/// Delivery of a task event to a push subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct PushDelivery {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// The outbox channel that delivers it.
    pub channel: String,
    /// Sequence number of the event.
    pub seq: Option<u64>,
    /// Delivery status.
    pub status: DeliveryStatus,
}

/// Maximum number of latest events whose delivery status is reported.
const MAX_STATUS_EVENTS: u64 = 500;

impl Hub {
    /// Adds a push subscription to a task, or replaces the one with the same id.
    ///
    /// # Errors
    /// The task is not the caller's, or has too many push subscriptions.
    pub async fn add_push_subscription(
        &self,
        caller: &Caller,
        id: &TaskId,
        push: NewPushSubscription,
    ) -> Result<PushSubscription, HubError> {
        for _ in 0..MAX_CAS_RETRIES {
            let task = self.task(caller, id).await?;
            let existing = self.store().push_subscriptions(id).await?;
            let replaces = push
                .id
                .as_ref()
                .is_some_and(|id| existing.iter().any(|p| p.id == *id));
            let mut change = TaskChange::update(task, self.now());
            let added = self.attach_push_subscription(caller, &mut change, push.clone())?;
            if replaces {
                change.task.push_count = change.task.push_count.saturating_sub(1);
            }
            let count = usize::try_from(change.task.push_count).unwrap_or(usize::MAX);
            Limits::check_count(
                "subscriptions of a task",
                count,
                self.inner.limits.push_subscriptions,
            )?;
            match change.commit(self, None).await {
                Ok(_) => return Ok(added),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(map_conflict(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// The push subscriptions of a task, oldest first, without the internal ones that deliver answers to streams.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn push_subscriptions(
        &self,
        caller: &Caller,
        id: &TaskId,
    ) -> Result<Vec<PushSubscription>, HubError> {
        let task = self.task(caller, id).await?;
        let mut subscriptions = self.store().push_subscriptions(&task.id).await?;
        subscriptions.retain(|push| push.channel != STREAM_CHANNEL);
        Ok(subscriptions)
    }

    /// Delivery status of a task's latest events per push subscription, oldest first. Deliveries of removed
    /// subscriptions are not included.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn push_deliveries(
        &self,
        caller: &Caller,
        id: &TaskId,
    ) -> Result<Vec<PushDelivery>, HubError> {
        let task = self.task(caller, id).await?;
        let mut deliveries = Vec::new();
        for push in self.store().push_subscriptions(id).await? {
            let first = task.seq.saturating_sub(MAX_STATUS_EVENTS);
            let keys: Vec<String> = (first..=task.seq)
                .map(|seq| push.outbox_key(id, seq))
                .collect();
            let statuses = self.store().delivery_statuses(&push.channel, &keys).await?;
            deliveries.extend(statuses.into_iter().map(|status| {
                PushDelivery {
                    subscription_id: push.id.clone(),
                    channel: push.channel.clone(),
                    seq: status
                        .key
                        .rsplit('/')
                        .next()
                        .and_then(|seq| seq.parse().ok()),
                    status,
                }
            }));
        }
        deliveries.sort_by_key(|delivery| (delivery.status.created_at, delivery.seq));
        Ok(deliveries)
    }

    /// Removes a push subscription. Returns whether it existed.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn remove_push_subscription(
        &self,
        caller: &Caller,
        id: &TaskId,
        push: &SubscriptionId,
    ) -> Result<bool, HubError> {
        for _ in 0..MAX_CAS_RETRIES {
            let task = self.task(caller, id).await?;
            let existing = self.push_subscriptions(caller, id).await?;
            if !existing.iter().any(|subscription| subscription.id == *push) {
                return Ok(false);
            }
            let mut change = TaskChange::update(task, self.now());
            change.task.push_count = change.task.push_count.saturating_sub(1);
            change.push_op(Op::RemovePushSubscription {
                task_id: id.clone(),
                id: push.clone(),
            });
            match change.commit(self, None).await {
                Ok(_) => return Ok(true),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(map_conflict(error)),
            }
        }
        Err(HubError::Contended)
    }

    pub(super) fn attach_push_subscription(
        &self,
        caller: &Caller,
        change: &mut TaskChange,
        push: NewPushSubscription,
    ) -> Result<PushSubscription, HubError> {
        let limits = &self.inner.limits;
        limits.check_target("the target of a push subscription", Some(&push.target))?;
        Limits::check_count(
            "events of a push subscription",
            push.events.len(),
            limits.parts,
        )?;
        let id = match push.id {
            Some(id) => id,
            None => internal_id(SubscriptionId::new(self.new_id(change.at)))?,
        };
        let push = PushSubscription {
            id,
            task_id: change.task.id.clone(),
            owner: caller.principal.clone(),
            channel: push.channel,
            events: push.events,
            target: push.target,
            created_at: change.at,
        };
        change.task.push_count += 1;
        change.push_op(Op::PutPushSubscription(Box::new(push.clone())));
        Ok(push)
    }
}
