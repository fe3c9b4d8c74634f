//! Push subscriptions of tasks.

use super::task_change::TaskChange;
use super::tasks::internal_id;
use super::{Hub, MAX_CAS_RETRIES, STREAM_CHANNEL, map_conflict};
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::outbox::DeliveryStatus;
use crate::ports::{Op, StoreError};
use crate::task::{PushSubscription, SealedSecrets};
use interzone_protocol::vocab::{SubscriptionId, TaskId, Timestamp, VerbatimJson};

/// A push subscription to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPushSubscription {
    /// Subscription id; generated if `None`.
    pub id: Option<SubscriptionId>,
    /// The outbox channel that delivers it.
    pub channel: String,
    /// Event names to deliver; empty for all but text deltas and status lines.
    pub events: Vec<String>,
    /// Name of the format in which events are delivered.
    pub format: String,
    /// Destination and settings.
    pub target: VerbatimJson,
    /// Encrypted token and credentials for the destination.
    pub secrets: Option<SealedSecrets>,
}

/// One page of a task's push subscriptions.
#[derive(Clone, Debug, PartialEq)]
pub struct PushSubscriptionPage {
    /// The subscriptions, oldest first.
    pub subscriptions: Vec<PushSubscription>,
    /// Start of the next page, if there is one.
    pub next: Option<PushCursor>,
}

/// Position in the list of a task's push subscriptions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PushCursor {
    /// Creation time of the last subscription returned.
    pub created_at: Timestamp,
    /// Its id.
    pub id: SubscriptionId,
}

impl PushCursor {
    fn from_subscription(push: &PushSubscription) -> Self {
        Self {
            created_at: push.created_at,
            id: push.id.clone(),
        }
    }

    /// Encodes the cursor as an opaque page token.
    pub fn to_token(&self) -> String {
        format!("{}.{}", self.created_at.as_millis(), self.id)
    }

    /// Parses a page token; `None` if it is invalid.
    pub fn from_token(token: &str) -> Option<Self> {
        let (millis, id) = token.split_once('.')?;
        Some(Self {
            created_at: Timestamp::from_millis(millis.parse().ok()?),
            id: SubscriptionId::new(id).ok()?,
        })
    }
}

/// Maximum length of a subscription id that a caller chooses, in characters.
const MAX_PUSH_ID_CHARS: usize = 128;
/// Maximum length of the name of a format in bytes.
const MAX_FORMAT_BYTES: usize = 64;

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
    /// Adds a push subscription to a task, finished or not, or replaces the one with the same id.
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
            let replaced = existing
                .into_iter()
                .find(|existing| push.id.as_ref() == Some(&existing.id));
            let mut change = TaskChange::update(task, self.now());
            // A replacement keeps its place in the list.
            let created_at = replaced.as_ref().map_or(change.at, |push| push.created_at);
            let added =
                self.put_push_subscription(caller, &mut change, push.clone(), created_at)?;
            if replaced.is_some() {
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

    /// Returns a push subscription of a task.
    ///
    /// # Errors
    /// The task is not the caller's, or has no such subscription.
    pub async fn push_subscription(
        &self,
        caller: &Caller,
        task: &TaskId,
        id: &SubscriptionId,
    ) -> Result<PushSubscription, HubError> {
        let subscriptions = self.push_subscriptions(caller, task).await?;
        let mut subscriptions = subscriptions.into_iter();
        subscriptions
            .find(|push| push.id == *id)
            .ok_or_else(|| HubError::SubscriptionNotFound(id.clone()))
    }

    /// Returns a page of the push subscriptions of a task, oldest first.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn push_subscription_page(
        &self,
        caller: &Caller,
        task: &TaskId,
        after: Option<&PushCursor>,
        limit: usize,
    ) -> Result<PushSubscriptionPage, HubError> {
        // A task has few, so all of them are read.
        let mut subscriptions = self.push_subscriptions(caller, task).await?;
        subscriptions.sort_by_cached_key(PushCursor::from_subscription);
        subscriptions
            .retain(|push| after.is_none_or(|after| PushCursor::from_subscription(push) > *after));
        let limit = limit.max(1);
        let has_more = subscriptions.len() > limit;
        subscriptions.truncate(limit);
        let next = subscriptions
            .last()
            .filter(|_| has_more)
            .map(PushCursor::from_subscription);
        Ok(PushSubscriptionPage {
            subscriptions,
            next,
        })
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
        let created_at = change.at;
        self.put_push_subscription(caller, change, push, created_at)
    }

    fn put_push_subscription(
        &self,
        caller: &Caller,
        change: &mut TaskChange,
        push: NewPushSubscription,
        created_at: Timestamp,
    ) -> Result<PushSubscription, HubError> {
        let limits = &self.inner.limits;
        check_push_id(push.id.as_ref())?;
        limits.check_secrets(push.secrets.as_ref())?;
        if push.format.len() > MAX_FORMAT_BYTES {
            return Err(HubError::TooLarge {
                what: "the format of a push subscription",
                limit: MAX_FORMAT_BYTES,
            });
        }
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
            format: push.format,
            target: push.target,
            secrets: push.secrets,
            created_at,
        };
        change.task.push_count += 1;
        change.push_op(Op::PutPushSubscription(Box::new(push.clone())));
        Ok(push)
    }
}

fn check_push_id(id: Option<&SubscriptionId>) -> Result<(), HubError> {
    if id.is_some_and(|id| id.as_str().chars().count() > MAX_PUSH_ID_CHARS) {
        return Err(HubError::Invalid {
            field: "subscription_id",
            reason: "the id of a push subscription has at most 128 characters; give a shorter one",
        });
    }
    Ok(())
}
