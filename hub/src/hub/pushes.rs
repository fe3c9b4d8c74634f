//! Push subscriptions: who else is told of a task's events.

use super::draft::Draft;
use super::tasks::made_id;
use super::{Hub, ROUNDS, STREAM_CHANNEL, contended};
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::outbox::Carried;
use crate::ports::{Op, StoreError};
use crate::task::Push;
use interzone_protocol::vocab::{Json, SubscriptionId, TaskId};

/// A push subscription to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPush {
    /// Its id; one is made if none is given.
    pub id: Option<SubscriptionId>,
    /// The outbox channel that carries it.
    pub channel: String,
    /// The names of the events it wants; none means all but growing text and status lines.
    pub events: Vec<String>,
    /// Where to and how.
    pub target: Json,
}

/// An event of a task on its way to a push subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The subscription.
    pub push: SubscriptionId,
    /// The outbox channel that carries it.
    pub channel: String,
    /// The number of the event.
    pub seq: Option<u64>,
    /// How far it has come.
    pub carried: Carried,
}

/// Of how many events it is told what became of them.
const LATEST: u64 = 500;

impl Hub {
    /// Adds a push subscription to a task, or puts it in the place of the one with its id.
    ///
    /// # Errors
    /// The task is not the caller's, or has too many.
    pub async fn add_push(
        &self,
        caller: &Caller,
        id: &TaskId,
        push: NewPush,
    ) -> Result<Push, HubError> {
        for _ in 0..ROUNDS {
            let task = self.task(caller, id).await?;
            let known = self.store().pushes(id).await?;
            let replaces = push
                .id
                .as_ref()
                .is_some_and(|id| known.iter().any(|p| p.id == *id));
            let mut draft = Draft::change(task, self.now());
            let added = self.draft_push(caller, &mut draft, push.clone())?;
            if replaces {
                draft.task.pushes = draft.task.pushes.saturating_sub(1);
            }
            let count = usize::try_from(draft.task.pushes).unwrap_or(usize::MAX);
            Limits::count("subscriptions of a task", count, self.inner.limits.pushes)?;
            match draft.write(self, None).await {
                Ok(_) => return Ok(added),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }

    /// The push subscriptions of a task that somebody asked for, oldest first. Those by which an
    /// answer gets to its stream are the hub's own and not shown.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn pushes(&self, caller: &Caller, id: &TaskId) -> Result<Vec<Push>, HubError> {
        let task = self.task(caller, id).await?;
        let mut pushes = self.store().pushes(&task.id).await?;
        pushes.retain(|push| push.channel != STREAM_CHANNEL);
        Ok(pushes)
    }

    /// What became of a task's latest events on their way to its push subscriptions, oldest first. Of
    /// a subscription that was removed nothing is known any more.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        id: &TaskId,
    ) -> Result<Vec<Delivered>, HubError> {
        let task = self.task(caller, id).await?;
        let mut all = Vec::new();
        for push in self.store().pushes(id).await? {
            let first = task.seq.saturating_sub(LATEST);
            let keys: Vec<String> = (first..=task.seq).map(|seq| push.key(id, seq)).collect();
            let carried = self.store().carried(&push.channel, &keys).await?;
            all.extend(carried.into_iter().map(|carried| {
                Delivered {
                    push: push.id.clone(),
                    channel: push.channel.clone(),
                    seq: carried
                        .key
                        .rsplit('/')
                        .next()
                        .and_then(|seq| seq.parse().ok()),
                    carried,
                }
            }));
        }
        all.sort_by_key(|one| (one.carried.created_at, one.seq));
        Ok(all)
    }

    /// Removes a push subscription. Answers whether it was there.
    ///
    /// # Errors
    /// The task is not the caller's.
    pub async fn remove_push(
        &self,
        caller: &Caller,
        id: &TaskId,
        push: &SubscriptionId,
    ) -> Result<bool, HubError> {
        for _ in 0..ROUNDS {
            let task = self.task(caller, id).await?;
            let known = self.pushes(caller, id).await?;
            if !known.iter().any(|known| known.id == *push) {
                return Ok(false);
            }
            let mut draft = Draft::change(task, self.now());
            draft.task.pushes = draft.task.pushes.saturating_sub(1);
            draft.op(Op::RemovePush {
                task_id: id.clone(),
                id: push.clone(),
            });
            match draft.write(self, None).await {
                Ok(_) => return Ok(true),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }

    pub(super) fn draft_push(
        &self,
        caller: &Caller,
        draft: &mut Draft,
        push: NewPush,
    ) -> Result<Push, HubError> {
        let limits = &self.inner.limits;
        limits.about("where a push goes", Some(&push.target))?;
        Limits::count("events of a push", push.events.len(), limits.parts)?;
        let id = match push.id {
            Some(id) => id,
            None => made_id(SubscriptionId::new(self.new_id(draft.at)))?,
        };
        let push = Push {
            id,
            task_id: draft.task.id.clone(),
            owner: caller.principal.clone(),
            channel: push.channel,
            events: push.events,
            target: push.target,
            created_at: draft.at,
        };
        draft.task.pushes += 1;
        draft.op(Op::PutPush(Box::new(push.clone())));
        Ok(push)
    }
}
