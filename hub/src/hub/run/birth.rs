//! Runs that begin with their task: claimed in the commit that makes it, so that nobody has to look for
//! it, and given to the agent without reading what was just written.

use super::{Growing, Run};
use crate::agent::Turn;
use crate::bus::News;
use crate::event::Subject;
use crate::fairness::{RunShares, WorkOwner};
use crate::hub::Hub;
use crate::hub::draft::Draft;
use crate::limits::size_of_parts;
use crate::packed::has_address;
use crate::ports::{StoreError, WorkClaim, WorkItem};
use crate::task::Task;
use interzone_protocol::vocab::{AgentId, Message, TaskState};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Gives a run slot of this agent on this node to this owner, if there is one for it.
pub type Desk = dyn Fn(&AgentId, &WorkOwner) -> Option<Seat> + Send + Sync;

/// A task on its way into the store, and the run that begins with it.
pub type Birth = Pin<Box<dyn Future<Output = Option<Arc<Run>>> + Send>>;

/// What begins on a seat.
pub enum Begins {
    /// A run, with its task.
    Run(Birth),
    /// Nothing any more: the agent had its answer at hand, of which this is the word.
    Answered(&'static str),
}

/// Room for one run. It is free again when this is dropped, or when what was begun has ended.
pub struct Seat {
    /// The name of this node.
    pub node: String,
    /// How long a claim lasts.
    pub lease: Duration,
    /// How many runs each owner may have, and has beside this one.
    pub shares: RunShares,
    /// Waits for the run, and attends it if there is one. Whoever asks does not wait for that, and may go:
    /// a task that is made and claimed must be begun.
    pub begin: Box<dyn FnOnce(Begins) + Send>,
}

/// What is known of a task that was made a moment ago.
pub(super) struct Newborn {
    task: Task,
    message: Message,
    history: Vec<Message>,
    /// All that has happened to it since.
    news: broadcast::Receiver<News>,
}

impl Hub {
    /// Lets tasks that somebody waits for be begun at once where there is a seat. It counts for as long
    /// as the desk lives.
    pub fn begin_at(&self, desk: &Arc<Desk>) {
        let kept = self.inner.desk.write();
        *kept.unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(desk));
    }

    /// A seat for a task, if there is one on this node for its agent and its owner.
    pub(in crate::hub) fn seat(&self, task: &Task) -> Option<Seat> {
        let kept = self.inner.desk.read();
        let kept = kept.unwrap_or_else(PoisonError::into_inner);
        let desk = kept.as_ref().and_then(Weak::upgrade)?;
        drop(kept);
        desk(&task.agent, &self.work_owner(task))
    }

    /// Makes a task and claims it for a seat. What the seat gets is the task that was made, unless another
    /// was before it.
    pub(in crate::hub) async fn create_at(
        &self,
        seat: Seat,
        draft: Draft,
    ) -> Result<Task, StoreError> {
        let asked = Instant::now();
        let wanted = vec![(draft.task.agent.clone(), 1)];
        let claim = self.work_claim(&seat.node, wanted, seat.lease, seat.shares);
        let news = self.inner.bus.listen(&draft.subject());
        let said = draft.said().filter(|said| is_small(said));
        let (tell, told) = oneshot::channel();
        let hub = self.clone();
        let birth: Birth = Box::pin(async move {
            match draft.write_and_claim(&hub, None, Some(&claim)).await {
                Ok((task, items)) => {
                    // Whoever asked may have gone; the task is begun all the same.
                    let _ = tell.send(Ok(task.clone()));
                    let item = items.into_iter().next()?;
                    let newborn = said.filter(|_| item.task_id == task.id);
                    let newborn = newborn.and_then(|mut said| {
                        let message = said.pop()?;
                        Some(Newborn {
                            task,
                            message,
                            history: said,
                            news,
                        })
                    });
                    Some(Arc::new(Run::new(&hub, item, &claim, asked, newborn)))
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    None
                }
            }
        });
        (seat.begin)(Begins::Run(birth));
        let lost = |_| Err(StoreError::InDoubt("the node is leaving".to_owned()));
        told.await.unwrap_or_else(lost)
    }
}

/// The most bytes of messages that are kept in memory from the commit of a task to the beginning of its run. Larger ones
/// are read again when there is memory for them.
const NEWBORN_BYTES: usize = 64 * 1024;

fn is_small(messages: &[Message]) -> bool {
    let size = |message: &Message| size_of_parts(message.parts());
    messages.iter().map(size).sum::<usize>() <= NEWBORN_BYTES
}

impl Run {
    pub(super) fn new(
        hub: &Hub,
        item: WorkItem,
        claim: &WorkClaim,
        asked: Instant,
        newborn: Option<Newborn>,
    ) -> Self {
        let known = newborn.as_ref().map(|newborn| newborn.task.clone());
        hub.inner.holdings.begin_run(item.claim);
        Self {
            hub: hub.clone(),
            item,
            node: claim.node.clone(),
            lease: hub.lease(claim.lease, asked),
            settled: AtomicBool::new(false),
            length: claim.lease,
            stop: CancellationToken::new(),
            text: Mutex::new(Growing {
                written: 0,
                length: 0,
                waiting: String::new(),
                since: claim.now,
            }),
            asked: OnceLock::new(),
            no_address: AtomicBool::new(false),
            writing: tokio::sync::Mutex::new(()),
            newborn: Mutex::new(newborn),
            news: Mutex::new(None),
            unmoved: AtomicBool::new(false),
            known: Mutex::new(known),
        }
    }

    /// The turn of a task that was made with this claim, a moment ago. That it is being worked at is
    /// written along with whatever the run writes first, or soon by [`Run::settle_in`].
    pub(super) fn newborn_turn(&self) -> Option<Turn> {
        let newborn = {
            let mut newborn = self.newborn.lock().unwrap_or_else(PoisonError::into_inner);
            newborn.take()?
        };
        // If the node was suspended meanwhile, another may have the claim by now. Then it is renewed first.
        if self.lease.left().is_some_and(|left| left < self.length / 2) {
            return None;
        }
        let Newborn {
            mut task,
            message,
            history,
            news,
        } = newborn;
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(news);
        self.unmoved.store(true, Ordering::Relaxed);
        let _ = self
            .asked
            .set(u32::try_from(history.len()).unwrap_or(u32::MAX));
        let addressed = |said: &Message| said.parts().iter().any(has_address);
        let none = !addressed(&message) && !history.iter().any(addressed);
        self.no_address.store(none, Ordering::Relaxed);
        task.state = TaskState::Working;
        Some(Turn {
            task,
            message,
            history,
            attempt: self.item.attempt,
            stop: self.stop.clone(),
        })
    }

    /// What happens to the task: from its beginning on if it began with this claim, and whether that is so.
    pub(super) fn listen(&self) -> (broadcast::Receiver<News>, bool) {
        let kept = {
            let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
            news.take()
        };
        match kept {
            Some(news) => (news, true),
            None => {
                let subject = Subject::Task(self.item.task_id.clone());
                (self.hub.inner.bus.listen(&subject), false)
            }
        }
    }
}
