//! Direct dispatch: a task is claimed by this node in the commit that creates it, and its run starts without polling
//! the queue or reading the task back.

use super::{Run, TextBuffer};
use crate::agent::Turn;
use crate::bus::BusMessage;
use crate::event::Subject;
use crate::fairness::{RunShares, WorkOwner};
use crate::hub::Hub;
use crate::hub::task_change::TaskChange;
use crate::limits::size_of_parts;
use crate::offload::has_fetch_url;
use crate::ports::{StoreError, WorkClaim, WorkItem};
use crate::task::Task;
use interzone_protocol::vocab::{AgentId, Message, TaskState};
use sha2::{Digest, Sha256};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Provides a run slot for this agent and owner on this node, if one is free.
pub type SlotProvider = dyn Fn(&AgentId, &WorkOwner) -> Option<RunSlot> + Send + Sync;

/// Creates a task and resolves to the run that was claimed with it.
pub type RunFuture = Pin<Box<dyn Future<Output = Option<Arc<Run>>> + Send>>;

/// Use of a run slot.
pub enum Dispatch {
    /// A run, created with its task.
    Run(RunFuture),
    /// No run: the agent answered inline. Contains the label of the outcome.
    AnsweredInline(&'static str),
}

/// Permit for one run. The slot is free again when this is dropped, or when the dispatched run has ended.
pub struct RunSlot {
    /// Name of this node.
    pub node: String,
    /// Lease duration.
    pub lease: Duration,
    /// Limits and numbers of runs per owner, without this one.
    pub shares: RunShares,
    /// Spawns the run. The caller does not wait for it and may disconnect: a task that was created and claimed must be
    /// run.
    pub dispatch: Box<dyn FnOnce(Dispatch) + Send>,
}

/// A task that was created with the claim of its run.
pub(super) struct FreshTask {
    task: Task,
    message: Message,
    history: Vec<Message>,
    /// Bus messages about the task since its creation.
    receiver: broadcast::Receiver<BusMessage>,
}

impl Hub {
    /// Enables direct dispatch of new tasks to free run slots, for as long as the provider lives.
    pub fn set_slot_provider(&self, provider: &Arc<SlotProvider>) {
        let slot_provider = self.inner.slot_provider.write();
        *slot_provider.unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(provider));
    }

    /// Acquires a run slot for a task, if one is free on this node for its agent and owner.
    pub(in crate::hub) fn acquire_slot(&self, task: &Task) -> Option<RunSlot> {
        let slot_provider = self.inner.slot_provider.read();
        let slot_provider = slot_provider.unwrap_or_else(PoisonError::into_inner);
        let provider = slot_provider.as_ref().and_then(Weak::upgrade)?;
        drop(slot_provider);
        provider(&task.agent, &self.work_owner(task))
    }

    /// Creates a task and claims work for the slot in one commit. That is the created task, unless another one is
    /// ahead of it in the queue.
    pub(in crate::hub) async fn create_and_claim(
        &self,
        slot: RunSlot,
        change: TaskChange,
    ) -> Result<Task, StoreError> {
        let requested_at = Instant::now();
        let wanted = vec![(change.task.agent.clone(), 1)];
        let claim = self.work_claim(&slot.node, wanted, slot.lease, slot.shares);
        let receiver = self.inner.bus.subscribe(&change.subject());
        let messages = change.restored_messages().filter(|said| is_small(said));
        let (created_tx, created_rx) = oneshot::channel();
        let hub = self.clone();
        let run: RunFuture = Box::pin(async move {
            match change.commit_and_claim(&hub, None, Some(&claim)).await {
                Ok((task, items)) => {
                    // The caller may have disconnected; the task is run nevertheless.
                    let _ = created_tx.send(Ok(task.clone()));
                    let item = items.into_iter().next()?;
                    let messages = messages.filter(|_| item.task_id == task.id);
                    let fresh_task = messages.and_then(|mut messages| {
                        let message = messages.pop()?;
                        Some(FreshTask {
                            task,
                            message,
                            history: messages,
                            receiver,
                        })
                    });
                    Some(Arc::new(Run::new(
                        &hub,
                        item,
                        &claim,
                        requested_at,
                        fresh_task,
                    )))
                }
                Err(error) => {
                    let _ = created_tx.send(Err(error));
                    None
                }
            }
        });
        (slot.dispatch)(Dispatch::Run(run));
        let lost = |_| Err(StoreError::InDoubt("the node is shutting down".to_owned()));
        created_rx.await.unwrap_or_else(lost)
    }
}

/// Maximum bytes of messages that are kept in memory from the commit of a task to the start of its run. Larger ones
/// are read again when memory is available for them.
const MAX_FRESH_TASK_BYTES: usize = 64 * 1024;

fn is_small(messages: &[Message]) -> bool {
    let size = |message: &Message| size_of_parts(message.parts());
    messages.iter().map(size).sum::<usize>() <= MAX_FRESH_TASK_BYTES
}

impl Run {
    pub(super) fn new(
        hub: &Hub,
        item: WorkItem,
        claim: &WorkClaim,
        requested_at: Instant,
        fresh_task: Option<FreshTask>,
    ) -> Self {
        let last_written = fresh_task
            .as_ref()
            .map(|fresh_task| fresh_task.task.clone());
        hub.inner.leases.add_run(item.claim);
        Self {
            hub: hub.clone(),
            work_item: item,
            node: claim.node.clone(),
            lease: hub.lease(claim.lease, requested_at),
            is_settled: AtomicBool::new(false),
            lease_duration: claim.lease,
            cancel_token: CancellationToken::new(),
            text_buffer: Mutex::new(TextBuffer {
                flushed_bytes: 0,
                total_bytes: 0,
                pending: String::new(),
                pending_since: claim.now,
                digest: Sha256::new(),
            }),
            is_first_turn: AtomicBool::new(false),
            message_index: OnceLock::new(),
            no_fetch_urls: AtomicBool::new(false),
            flush_lock: tokio::sync::Mutex::new(()),
            fresh_task: Mutex::new(fresh_task),
            receiver: Mutex::new(None),
            working_pending: AtomicBool::new(false),
            last_written: Mutex::new(last_written),
        }
    }

    /// Returns the turn of a task that was created with this claim. The transition to `Working` is written along with
    /// the first write of the run, or soon by [`Run::mark_working`].
    pub(super) fn fresh_turn(&self) -> Option<Turn> {
        let fresh_task = {
            let mut fresh_task = self
                .fresh_task
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            fresh_task.take()?
        };
        // If the node was suspended in the meantime, the claim may be lost; renew it first then.
        if self
            .lease
            .remaining()
            .is_some_and(|remaining| remaining < self.lease_duration / 2)
        {
            return None;
        }
        let FreshTask {
            mut task,
            message,
            history,
            receiver: news,
        } = fresh_task;
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(news);
        self.working_pending.store(true, Ordering::Relaxed);
        self.is_first_turn.store(true, Ordering::Relaxed);
        let _ = self
            .message_index
            .set(u32::try_from(history.len()).unwrap_or(u32::MAX));
        let has_url = |message: &Message| message.parts().iter().any(has_fetch_url);
        let no_fetch_urls = !has_url(&message) && !history.iter().any(has_url);
        self.no_fetch_urls.store(no_fetch_urls, Ordering::Relaxed);
        task.state = TaskState::Working;
        Some(Turn {
            task,
            message,
            history,
            attempt: self.work_item.attempt,
            cancel_token: self.cancel_token.clone(),
        })
    }

    /// Subscribes to the task's events. Returns true with it if it includes all events since the task's creation.
    pub(super) fn subscribe(&self) -> (broadcast::Receiver<BusMessage>, bool) {
        let receiver = {
            let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.take()
        };
        match receiver {
            Some(receiver) => (receiver, true),
            None => {
                let subject = Subject::Task(self.work_item.task_id.clone());
                (self.hub.inner.bus.subscribe(&subject), false)
            }
        }
    }
}
