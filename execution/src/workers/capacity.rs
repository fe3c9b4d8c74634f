//! Concurrency limits for runs, per agent and per node (semaphores), and the share of each owner. Claimed runs and
//! directly dispatched runs use the same slots.

use super::options::WorkerOptions;
use super::task_runner::TaskRunner;
use futures_util::FutureExt;
use interzone_hub::{Agent, Dispatch, Hub, Run, RunShares, RunSlot, WorkOwner, principal_share};
use interzone_protocol::vocab::AgentId;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Run capacity of a node.
pub(super) struct RunCapacity {
    pub(super) options: Arc<WorkerOptions>,
    pub(super) agents: Vec<AgentCapacity>,
    /// Slots for runs of all agents.
    pub(super) node_slots: Arc<Semaphore>,
    /// Notified when there may be work to claim.
    pub(super) wakeup: Arc<Notify>,
    pub(super) stop: CancellationToken,
    runner: Arc<TaskRunner>,
    /// True if tasks may be waiting for a free slot.
    has_backlog: Arc<AtomicBool>,
    /// Dropping it aborts the runs.
    running: Mutex<JoinSet<()>>,
    /// Number of runs of each owner.
    shares: Arc<Mutex<RunShares>>,
}

/// An agent and its slots.
pub(super) struct AgentCapacity {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) slots: Arc<Semaphore>,
}

/// A node slot and an agent slot.
type RunSlots = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// A run that counts against its owner's share until dropped.
struct CountedRun {
    shares: Arc<Mutex<RunShares>>,
    agent: AgentId,
    owner: WorkOwner,
}

impl CountedRun {
    /// Counts a run, unless its owner's share is used up.
    fn add(shares: &Arc<Mutex<RunShares>>, agent: &AgentId, owner: &WorkOwner) -> Option<Self> {
        let mut counted = lock(shares);
        if !counted.admits(agent, owner) {
            return None;
        }
        counted.add(agent, owner);
        Some(Self {
            shares: shares.clone(),
            agent: agent.clone(),
            owner: owner.clone(),
        })
    }

    /// Moves the run to another owner; returns false if that owner's share is used up.
    fn transfer(&mut self, owner: &WorkOwner) -> bool {
        if self.owner == *owner {
            return true;
        }
        let mut shares = lock(&self.shares);
        // The slot of this run is free for the other owner.
        shares.remove(&self.agent, &self.owner);
        let is_admitted = shares.admits(&self.agent, owner);
        if is_admitted {
            self.owner = owner.clone();
        }
        shares.add(&self.agent, &self.owner);
        is_admitted
    }
}

impl Drop for CountedRun {
    fn drop(&mut self) {
        lock(&self.shares).remove(&self.agent, &self.owner);
    }
}

fn lock(shares: &Mutex<RunShares>) -> MutexGuard<'_, RunShares> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunCapacity {
    pub(super) fn new(
        hub: &Hub,
        options: Arc<WorkerOptions>,
        runner: Arc<TaskRunner>,
        node: Arc<Semaphore>,
        wakeup: Arc<Notify>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        // With several agents, each leaves some of the node's slots to the others.
        let max_slots = match hub.agents().iter().nth(1) {
            Some(_) => principal_share(options.runs),
            None => options.runs,
        };
        let slots_of = |agent: &Arc<dyn Agent>| agent.info().concurrency.clamp(1, max_slots.max(1));
        let capacity = |agent: &Arc<dyn Agent>| AgentCapacity {
            agent: agent.clone(),
            slots: Arc::new(Semaphore::new(slots_of(agent))),
        };
        let slots = hub.agents().iter().map(|agent| {
            let info = agent.info();
            (info.id.clone(), slots_of(agent))
        });
        let shares = RunShares::new(options.runs.max(1), slots);
        Arc::new(Self {
            agents: hub.agents().iter().map(capacity).collect(),
            shares: Arc::new(Mutex::new(shares)),
            options,
            node_slots: node,
            wakeup,
            stop,
            runner,
            has_backlog: Arc::default(),
            running: Mutex::default(),
        })
    }

    /// Returns the ids of the agents.
    pub(super) fn ids(&self) -> impl Iterator<Item = AgentId> {
        self.agents
            .iter()
            .map(|capacity| capacity.agent.info().id.clone())
    }

    fn agent_capacity(&self, agent: &AgentId) -> Option<&AgentCapacity> {
        let mut agents = self.agents.iter();
        agents.find(|capacity| capacity.agent.info().id == *agent)
    }

    /// Returns a copy of the owners' shares and current counts.
    pub(super) fn shares(&self) -> RunShares {
        lock(&self.shares).clone()
    }

    /// Sets the agents that may have queued tasks, so that the next free slot causes a poll: because there was no
    /// slot, or because owners had used up their share at the last poll.
    pub(super) fn set_backlog(&self, agents: &[AgentId], polled: &RunShares) {
        let at_share: Vec<(&AgentId, &WorkOwner)> = self
            .agents
            .iter()
            .map(|capacity| &capacity.agent.info().id)
            .flat_map(|agent| {
                polled
                    .owners_at_limit(agent)
                    .map(move |owner| (agent, owner))
            })
            .collect();
        let has_backlog = !agents.is_empty() || !at_share.is_empty();
        self.has_backlog.store(has_backlog, Ordering::Relaxed);
        // Ordering: either a run that ends now sees the flag, or its freed slot is seen below.
        fence(Ordering::SeqCst);
        // Notifies only if an owner's share admits more than at the poll, so that this terminates.
        if !at_share.is_empty() {
            let current = lock(&self.shares);
            if at_share
                .iter()
                .any(|(agent, owner)| current.admits(agent, owner))
            {
                self.wakeup.notify_one();
            }
        }
        let mut backlog = agents.iter().filter_map(|agent| self.agent_capacity(agent));
        let has_slot = |capacity: &AgentCapacity| capacity.slots.available_permits() > 0;
        if self.node_slots.available_permits() > 0
            && backlog.any(|capacity| has_slot(capacity) && capacity.agent.is_available())
        {
            self.wakeup.notify_one();
        }
    }

    /// Waits for a node slot. Waiters come before `try_acquire`, since the semaphore is fair.
    pub(super) async fn acquire_node(&self) -> Option<OwnedSemaphorePermit> {
        self.node_slots.clone().acquire_owned().await.ok()
    }

    /// Returns a slot for direct dispatch, if one is free and the owner's share admits it.
    pub(super) fn try_acquire(
        self: &Arc<Self>,
        agent: &AgentId,
        owner: &WorkOwner,
    ) -> Option<RunSlot> {
        let capacity = self
            .agent_capacity(agent)
            .filter(|capacity| capacity.agent.is_available());
        let capacity = capacity.filter(|_| !self.stop.is_cancelled())?;
        // The commit may claim a task of another owner, so the new run is not counted in these shares.
        let shares = self.shares();
        if !shares.admits(agent, owner) {
            return None;
        }
        let mut guard = SlotGuard {
            counted: None,
            slots: Some(self.try_slots(capacity, None)?),
            has_backlog: self.has_backlog.clone(),
            wakeup: self.wakeup.clone(),
        };
        guard.counted = Some(CountedRun::add(&self.shares, agent, owner)?);
        let (run_capacity, agent) = (Arc::downgrade(self), capacity.agent.clone());
        let started = Instant::now();
        Some(RunSlot {
            node: self.options.node.clone(),
            lease: self.options.lease,
            shares,
            dispatch: Box::new(move |dispatch: Dispatch| {
                let Some(run_capacity) = run_capacity.upgrade() else {
                    return;
                };
                let runner = run_capacity.runner.clone();
                match dispatch {
                    Dispatch::Run(starting) => run_capacity.spawn(async move {
                        if let Some(run) = starting.await {
                            match guard.count_for(&run.work_item().owner) {
                                true => runner.run(agent, run).await,
                                false => runner.release_unstarted(&run).await,
                            }
                        }
                        drop(guard);
                    }),
                    Dispatch::AnsweredInline(label) => {
                        drop(guard);
                        runner.record_inline_answer(&agent, label, started.elapsed());
                    }
                }
            }),
        })
    }

    /// Dispatches a claimed run, in the reserved slot if there is one. If its slot has been taken since the poll,
    /// it waits for one, and is released if that takes too long or the node shuts down.
    pub(super) fn dispatch(&self, run: Arc<Run>, reserved: Option<OwnedSemaphorePermit>) {
        let Some(capacity) = self.agent_capacity(&run.work_item().agent) else {
            return;
        };
        let (runner, agent) = (self.runner.clone(), capacity.agent.clone());
        let item = run.work_item();
        let Some(counted) = CountedRun::add(&self.shares, &item.agent, &item.owner) else {
            // A directly dispatched run has taken the owner's last slot since the poll. The next poll skips this owner.
            self.spawn(async move { runner.release_unstarted(&run).await });
            return;
        };
        // Acquired synchronously, so that the next poll counts it.
        if let Some(slots) = self.try_slots(capacity, reserved) {
            self.spawn(async move {
                runner.run(agent, run).await;
                drop((counted, slots));
            });
            return;
        }
        let (node, agent_slots) = (self.node_slots.clone(), capacity.slots.clone());
        let (timeout, stop) = (self.options.lease / 3, self.stop.clone());
        self.spawn(async move {
            let _counted = counted;
            // The agent slot first: a run that waits for it must not block a node slot for other agents.
            let slots = async {
                (
                    agent_slots.acquire_owned().await,
                    node.acquire_owned().await,
                )
            };
            let slots = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                places = tokio::time::timeout(timeout, slots) => places.ok(),
            };
            match slots {
                Some((Ok(_agent_slot), Ok(_node_slot))) => runner.run(agent, run).await,
                _ => runner.release_unstarted(&run).await,
            }
        });
    }

    /// Returns free slots, with the reserved node slot if there is one.
    fn try_slots(
        &self,
        capacity: &AgentCapacity,
        reserved: Option<OwnedSemaphorePermit>,
    ) -> Option<RunSlots> {
        let try_acquire = |slots: &Arc<Semaphore>| slots.clone().try_acquire_owned().ok();
        let agent_slot = try_acquire(&capacity.slots)?;
        let node_slot = reserved.or_else(|| try_acquire(&self.node_slots))?;
        Some((node_slot, agent_slot))
    }

    /// Spawns a run that wakes the claimer when it ends, if there may be a backlog.
    fn spawn(&self, run: impl Future<Output = ()> + Send + 'static) {
        let (wakeup, has_backlog) = (self.wakeup.clone(), self.has_backlog.clone());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            if AssertUnwindSafe(run).catch_unwind().await.is_err() {
                tracing::error!("run panicked, task will rerun");
            }
            wake_if_backlog(&has_backlog, &wakeup);
        });
    }

    /// Waits until all runs have ended.
    pub(super) async fn drain(&self) {
        let mut running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *running)
        };
        while running.join_next().await.is_some() {}
        // Slots acquired before the stop may have been used since: waits for all of them.
        let all = u32::try_from(self.options.runs.max(1)).unwrap_or(u32::MAX);
        drop(self.node_slots.acquire_many(all).await);
    }
}

/// Slots of a direct dispatch. Dropping them wakes the claimer if there may be a backlog, also if no run was started.
struct SlotGuard {
    counted: Option<CountedRun>,
    slots: Option<RunSlots>,
    has_backlog: Arc<AtomicBool>,
    wakeup: Arc<Notify>,
}

impl SlotGuard {
    /// Counts the run for this owner; returns false if its share is used up.
    fn count_for(&mut self, owner: &WorkOwner) -> bool {
        let counted = self.counted.as_mut();
        counted.is_some_and(|counted| counted.transfer(owner))
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.counted.take();
        self.slots.take();
        wake_if_backlog(&self.has_backlog, &self.wakeup);
    }
}

fn wake_if_backlog(has_backlog: &AtomicBool, wakeup: &Notify) {
    fence(Ordering::SeqCst);
    if has_backlog.load(Ordering::Relaxed) {
        wakeup.notify_one();
    }
}
