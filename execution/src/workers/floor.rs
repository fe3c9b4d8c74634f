//! Where agents work: how many seats each has, who sits on them, and how they are taken. Runs that were
//! found in the queue and runs that begin with their task share the same seats.

use super::attend::Attendant;
use super::options::WorkerOptions;
use futures_util::FutureExt;
use interzone_hub::{Agent, Begins, Hub, Run, RunShares, Seat, WorkOwner, principal_share};
use interzone_protocol::vocab::AgentId;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All seats of a node.
pub(super) struct Floor {
    pub(super) options: Arc<WorkerOptions>,
    pub(super) agents: Vec<Seats>,
    /// Room for runs of any agent.
    pub(super) node: Arc<Semaphore>,
    /// Rings when there may be work to look for.
    pub(super) bell: Arc<Notify>,
    pub(super) stop: CancellationToken,
    attendant: Arc<Attendant>,
    /// Whether something may wait for a seat to be free.
    hungry: Arc<AtomicBool>,
    /// Dropping it cuts off who works.
    running: Mutex<JoinSet<()>>,
    /// How many runs each owner has.
    shares: Arc<Mutex<RunShares>>,
}

/// An agent and its room for runs.
pub(super) struct Seats {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) free: Arc<Semaphore>,
}

/// A seat on the node and one of the agent's.
type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// One run that counts against the share of its owner, until this is dropped.
struct CountedRun {
    shares: Arc<Mutex<RunShares>>,
    agent: AgentId,
    owner: WorkOwner,
}

impl CountedRun {
    /// Counts a run, unless its owner has its share.
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

    /// Counts it for another owner instead; answers whether that one's share admits it.
    fn transfer(&mut self, owner: &WorkOwner) -> bool {
        if self.owner == *owner {
            return true;
        }
        let mut shares = lock(&self.shares);
        if !shares.admits(&self.agent, owner) {
            return false;
        }
        shares.remove(&self.agent, &self.owner);
        shares.add(&self.agent, owner);
        self.owner = owner.clone();
        true
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

impl Floor {
    pub(super) fn new(
        hub: &Hub,
        options: Arc<WorkerOptions>,
        attendant: Arc<Attendant>,
        node: Arc<Semaphore>,
        bell: Arc<Notify>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        // An agent leaves some runs of the node to the others, however many it may have.
        let most = match hub.agents().iter().nth(1) {
            Some(_) => principal_share(options.runs),
            None => options.runs,
        };
        let slots_of = |agent: &Arc<dyn Agent>| agent.info().concurrency.clamp(1, most.max(1));
        let seats = |agent: &Arc<dyn Agent>| Seats {
            agent: agent.clone(),
            free: Arc::new(Semaphore::new(slots_of(agent))),
        };
        let slots = hub.agents().iter().map(|agent| {
            let info = agent.info();
            (info.id.clone(), slots_of(agent))
        });
        let shares = RunShares::new(options.runs.max(1), slots);
        Arc::new(Self {
            agents: hub.agents().iter().map(seats).collect(),
            shares: Arc::new(Mutex::new(shares)),
            options,
            node,
            bell,
            stop,
            attendant,
            hungry: Arc::default(),
            running: Mutex::default(),
        })
    }

    /// Whoever works here.
    pub(super) fn ids(&self) -> impl Iterator<Item = AgentId> {
        self.agents
            .iter()
            .map(|seats| seats.agent.info().id.clone())
    }

    fn seats(&self, agent: &AgentId) -> Option<&Seats> {
        let mut agents = self.agents.iter();
        agents.find(|seats| seats.agent.info().id == *agent)
    }

    /// How many runs each owner may have, and has now.
    pub(super) fn shares(&self) -> RunShares {
        lock(&self.shares).clone()
    }

    /// Says for which agents something may wait, so that it is looked for when a seat is free: because there was no
    /// seat for it, or because owners had their share when it was looked for.
    pub(super) fn more_waits(&self, left: &[AgentId], looked: &RunShares) {
        let at_share: Vec<(&AgentId, &WorkOwner)> = self
            .agents
            .iter()
            .map(|seats| &seats.agent.info().id)
            .flat_map(|agent| looked.at_share(agent).map(move |owner| (agent, owner)))
            .collect();
        let waits = !left.is_empty() || !at_share.is_empty();
        self.hungry.store(waits, Ordering::Relaxed);
        // Either whoever gets up now sees it, or the seat is seen here.
        fence(Ordering::SeqCst);
        // An owner is told of once its share admits more than it did, so that this ends.
        if !at_share.is_empty() {
            let now = lock(&self.shares);
            if at_share
                .iter()
                .any(|(agent, owner)| now.admits(agent, owner))
            {
                self.bell.notify_one();
            }
        }
        let mut left = left.iter().filter_map(|agent| self.seats(agent));
        let free = |seats: &Seats| seats.free.available_permits() > 0;
        if self.node.available_permits() > 0
            && left.any(|seats| free(seats) && seats.agent.is_available())
        {
            self.bell.notify_one();
        }
    }

    /// A place on the node, once one is free. Whoever waits for it comes before those who only take what
    /// is free at the moment.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.node.clone().acquire_owned().await.ok()
    }

    /// A seat for a run that begins with its task, if one is free and its owner's share admits it.
    pub(super) fn seat(self: &Arc<Self>, agent: &AgentId, owner: &WorkOwner) -> Option<Seat> {
        let seats = self.seats(agent).filter(|seats| seats.agent.is_available());
        let seats = seats.filter(|_| !self.stop.is_cancelled())?;
        // What is claimed with the task may be another owner's, so the task's own run is not counted in these.
        let shares = self.shares();
        if !shares.admits(agent, owner) {
            return None;
        }
        let mut places = Kept {
            counted: None,
            places: Some(self.places(seats, None)?),
            hungry: self.hungry.clone(),
            bell: self.bell.clone(),
        };
        places.counted = Some(CountedRun::add(&self.shares, agent, owner)?);
        let (floor, agent) = (Arc::downgrade(self), seats.agent.clone());
        let taken = Instant::now();
        Some(Seat {
            node: self.options.node.clone(),
            lease: self.options.lease,
            shares,
            begin: Box::new(move |begins: Begins| {
                let Some(floor) = floor.upgrade() else {
                    return;
                };
                let attendant = floor.attendant.clone();
                match begins {
                    Begins::Run(birth) => floor.work(async move {
                        if let Some(run) = birth.await {
                            match places.count_for(&run.item().owner) {
                                true => attendant.attend(agent, run).await,
                                false => attendant.leave(&run).await,
                            }
                        }
                        drop(places);
                    }),
                    Begins::Answered(word) => {
                        drop(places);
                        attendant.answered(&agent, word, taken.elapsed());
                    }
                }
            }),
        })
    }

    /// Has a run that was found in the queue attended, at the place that was kept for it if there is one.
    /// Others may have taken the seat that was free when it was looked for; then it waits for one, and
    /// goes back if that takes too long or the node leaves.
    pub(super) fn take(&self, run: Arc<Run>, kept: Option<OwnedSemaphorePermit>) {
        let Some(seats) = self.seats(&run.item().agent) else {
            return;
        };
        let (attendant, agent) = (self.attendant.clone(), seats.agent.clone());
        let item = run.item();
        let Some(counted) = CountedRun::add(&self.shares, &item.agent, &item.owner) else {
            // A run that began with its task since the look has the owner's last slot. The next look passes it over.
            self.work(async move { attendant.leave(&run).await });
            return;
        };
        // At once, so that the next look counts it.
        if let Some(places) = self.places(seats, kept) {
            self.work(async move {
                attendant.attend(agent, run).await;
                drop((counted, places));
            });
            return;
        }
        let (node, own) = (self.node.clone(), seats.free.clone());
        let (patience, stop) = (self.options.lease / 3, self.stop.clone());
        self.work(async move {
            let _counted = counted;
            // The agent's own seat first: who waits for that must not keep a place from other agents.
            let places = async { (own.acquire_owned().await, node.acquire_owned().await) };
            let places = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                places = tokio::time::timeout(patience, places) => places.ok(),
            };
            match places {
                Some((Ok(_own), Ok(_node))) => attendant.attend(agent, run).await,
                _ => attendant.leave(&run).await,
            }
        });
    }

    /// A seat, if one is free; at this place on the node if one was kept.
    fn places(&self, seats: &Seats, kept: Option<OwnedSemaphorePermit>) -> Option<Places> {
        let free = |room: &Arc<Semaphore>| room.clone().try_acquire_owned().ok();
        let own = free(&seats.free)?;
        let node = kept.or_else(|| free(&self.node))?;
        Some((node, own))
    }

    /// Begins work that ends with a look for more, if more may wait.
    fn work(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (bell, hungry) = (self.bell.clone(), self.hungry.clone());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                tracing::error!("the worker of a run panicked; its task is run again");
            }
            ring_if(&hungry, &bell);
        });
    }

    /// Waits until nobody sits here any more.
    pub(super) async fn empty(&self) {
        let mut running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *running)
        };
        while running.join_next().await.is_some() {}
        // Who had a seat when it was time to stop may have sat down since.
        let all = u32::try_from(self.options.runs.max(1)).unwrap_or(u32::MAX);
        drop(self.node.acquire_many(all).await);
    }
}

/// Rings if something may wait for the seat that is free by now.
/// Places that are given back with a look for more, also if nothing came to be begun on them.
struct Kept {
    counted: Option<CountedRun>,
    places: Option<Places>,
    hungry: Arc<AtomicBool>,
    bell: Arc<Notify>,
}

impl Kept {
    /// Counts the run for this owner; answers whether its share admits it.
    fn count_for(&mut self, owner: &WorkOwner) -> bool {
        let counted = self.counted.as_mut();
        counted.is_some_and(|counted| counted.transfer(owner))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.counted.take();
        self.places.take();
        ring_if(&self.hungry, &self.bell);
    }
}

fn ring_if(hungry: &AtomicBool, bell: &Notify) {
    fence(Ordering::SeqCst);
    if hungry.load(Ordering::Relaxed) {
        bell.notify_one();
    }
}
