//! The hub itself: every method decides who may, applies a rule, and commits what follows from it.

use crate::agent::Registry;
use crate::bus::{Bus, News};
use crate::clock::{Clock, IdSource};
use crate::error::HubError;
use crate::event::{Event, Subject};
use crate::fairness::WorkOwner;
use crate::limits::Limits;
use crate::ports::{Commit, Fence, Op, Store, StoreError, Wake, WorkClaim, WorkItem};
use crate::quota::{Charge, Rate};
use crate::task::Task;
use crate::topic::Signal;
use interzone_protocol::vocab::{Timestamp, Topic};
use std::pin::pin;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

mod draft;
mod forget;
mod holdings;
mod mail;
mod matcher;
mod pushes;
mod run;
mod streams;
mod sweep;
mod talks;
mod tasks;
mod topics;
mod unpack;
mod view;
mod watch;

pub use holdings::HeldEntry;
pub use mail::NewEntry;
pub use pushes::{Delivered, NewPush};
pub use run::{Begins, Birth, Desk, Run, Seat, TurnStart};
pub use streams::{NewStream, STREAM_CHANNEL};
pub use tasks::{Begun, NewTask, Once, TaskDetail, TaskPage};
pub use topics::{NewSubscription, Published};
pub use view::TaskView;
pub use watch::{Seen, Watch};

use holdings::Holdings;
use matcher::Matcher;

/// How often a decision is made again because somebody else was faster. Each round, somebody gets
/// on, so this many rounds are lost only by one of very many who write to the same thing at once.
const ROUNDS: u32 = 64;

/// How many events are read at once for a crowd. More than a watcher may fall behind would be of no use.
const CROWD_PAGE: usize = 16;

/// How many hints are passed on together at most.
const GROUP: usize = 256;

/// How many messages or artifacts get their large contents back before their size is looked at.
const UNPACKED_AT_ONCE: usize = 4;

/// The one domain that all dialects share. Cheap to copy: copies are the same hub.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    agents: Registry,
    limits: Limits,
    bus: Bus,
    matcher: Matcher,
    holdings: Holdings,
    /// Who gives tasks to agents on this node, if anybody does.
    desk: RwLock<Option<Weak<Desk>>>,
    /// Reads the name of the person on whose behalf a task was begun.
    person_reader: OnceLock<PersonReader>,
}

/// Reads the name of the person on whose behalf a task was begun, if its caller named one.
pub type PersonReader = fn(&Task) -> Option<String>;

impl Hub {
    /// A hub on a store.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
        agents: Registry,
        limits: Limits,
    ) -> Self {
        let (bus, matcher) = (Bus::default(), Matcher::default());
        Self {
            inner: Arc::new(Inner {
                store,
                clock,
                ids,
                agents,
                limits,
                bus,
                matcher,
                holdings: Holdings::default(),
                desk: RwLock::default(),
                person_reader: OnceLock::new(),
            }),
        }
    }

    /// Sets how the person on whose behalf a task was begun is found, so that the people of one caller take turns in
    /// the queue. The first reader stays.
    pub fn set_person_reader(&self, reader: PersonReader) {
        self.inner.person_reader.get_or_init(|| reader);
    }

    /// Whose a task is in the queue.
    fn work_owner(&self, task: &Task) -> WorkOwner {
        let reader = self.inner.person_reader.get();
        let person = reader.and_then(|read| read(task));
        WorkOwner::new(task, person.as_deref())
    }

    /// How much of everything there may be.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The agents of this node.
    pub fn agents(&self) -> &Registry {
        &self.inner.agents
    }

    /// The store, for what needs no rule: depths, checks, dead letters.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Charges a quota.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn charge(&self, key: &str, rate: Rate, cost: u32) -> Result<Charge, HubError> {
        Ok(self.store().charge(key, rate, cost, self.now()).await?)
    }

    /// Passes the store's hints on to those who watch, until told to stop, and tells them to `also`, first and
    /// by the group. Whoever wires the hub up runs this in the background; without it, watchers learn of other
    /// nodes' events by looking now and then. It hears what is hinted at from the moment on that it is made.
    pub fn pass_on_wakes<F: FnMut(&[Wake]) + Send>(
        &self,
        stop: CancellationToken,
        mut also: F,
    ) -> impl Future<Output = ()> + Send + use<F> {
        let (hub, mut wakes) = (self.clone(), self.store().wakes());
        async move {
            let _feeding = hub.inner.bus.feed();
            let mut stopped = pin!(stop.cancelled());
            let mut group = Vec::new();
            loop {
                let wake = tokio::select! {
                    biased;
                    () = &mut stopped => return,
                    wake = wakes.recv() => wake,
                };
                group.push(match wake {
                    Ok(wake) => wake,
                    Err(RecvError::Lagged(_)) => Wake::Everything,
                    Err(RecvError::Closed) => return,
                });
                // Hints come by the group; those that are there need no waiting.
                while group.len() < GROUP {
                    group.push(match wakes.try_recv() {
                        Ok(wake) => wake,
                        Err(TryRecvError::Lagged(_)) => Wake::Everything,
                        Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                    });
                }
                also(&group);
                for wake in group.drain(..) {
                    hub.pass_on(&wake).await;
                }
            }
        }
    }

    /// Passes on one hint. What many wait for is read once and told to all; otherwise each watcher reads
    /// for itself.
    async fn pass_on(&self, wake: &Wake) {
        let bus = &self.inner.bus;
        // Whoever comes to watch from now on reads the log first.
        if matches!(wake, Wake::Subject(subject, _) if !bus.is_watched(subject)) {
            return;
        }
        if let Wake::Subject(subject, seq) = wake
            && let Some(after) = bus.crowd_behind(subject, *seq)
            && let Ok(events) = self.store().events(subject, after, CROWD_PAGE).await
        {
            for event in events {
                bus.tell(subject, News::Event(Arc::new(event)));
            }
        }
        bus.wake(wake);
    }

    fn new_id(&self, now: Timestamp) -> String {
        self.inner.ids.next(now)
    }

    /// Writes a commit and tells those who watch. Subscriptions that have changed meanwhile are read
    /// and matched again; everything else is for the caller to decide again. Answers how many
    /// deliveries the signals have become.
    async fn commit(
        &self,
        at: Timestamp,
        fence: Option<Fence>,
        ops: Vec<Op>,
        signals: Vec<Emitted>,
    ) -> Result<usize, StoreError> {
        let committed = self.commit_and_claim(at, fence, ops, signals, None).await?;
        Ok(committed.delivered)
    }

    /// The same, and claims in the same commit what is wanted.
    async fn commit_and_claim(
        &self,
        at: Timestamp,
        fence: Option<Fence>,
        ops: Vec<Op>,
        signals: Vec<Emitted>,
        claim: Option<&WorkClaim>,
    ) -> Result<Committed, StoreError> {
        for _ in 0..ROUNDS {
            let (epoch, publish) = self
                .inner
                .matcher
                .publish(self.store().as_ref(), at, &signals)
                .await?;
            let delivered = publish.iter().map(deliveries).sum();
            let mut all = ops.clone();
            all.extend(publish);
            let id = self.new_id(at);
            let commit = Commit {
                id,
                at,
                fence: fence.clone(),
                epoch: Some(epoch),
                ops: all,
            };
            let done = match claim {
                Some(claim) => self.store().commit_and_claim(commit, claim).await,
                None => self.store().commit(commit).await.map(|()| Vec::new()),
            };
            match done {
                Err(StoreError::StaleSubscriptions) => self.inner.matcher.forget(),
                Err(error) => return Err(error),
                Ok(items) => {
                    self.tell(&ops, at);
                    return Ok(Committed { delivered, items });
                }
            }
        }
        Err(StoreError::Conflict)
    }

    /// Tells those who watch of the events that a commit has written.
    fn tell(&self, ops: &[Op], at: Timestamp) {
        let bus = &self.inner.bus;
        for op in ops {
            // Most events have no watcher, and a copy is only for those who have.
            if let Op::AppendEvent(row) = op
                && bus.is_watched(&row.subject)
            {
                let event = Event {
                    subject: row.subject.clone(),
                    seq: row.seq,
                    at,
                    body: row.body.clone(),
                };
                bus.tell(&row.subject, News::Event(Arc::new(event)));
            }
        }
    }
}

/// What came of a commit.
struct Committed {
    /// How many deliveries its signals have become.
    delivered: usize,
    /// What was claimed along with it.
    items: Vec<WorkItem>,
}

/// What goes out on topics along with a commit, and who may hear it.
enum Emitted {
    /// A signal.
    Signal(Signal, Audience),
    /// Events of a task. Mostly nobody listens, so they become signals only for those who do.
    OfTask(draft::TaskEvents),
}

/// Who may hear a signal, on top of matching its topic.
enum Audience {
    /// Everyone.
    All,
    /// Only these.
    Only(Vec<String>),
}

fn deliveries(op: &Op) -> usize {
    match op {
        Op::Publish { to, .. } => to.len(),
        _ => 0,
    }
}

/// The topic of a subject's events of one kind.
fn event_topic(subject: &Subject, name: &str) -> Option<Topic> {
    let (kind, id) = match subject {
        Subject::Task(id) => ("task", id.as_str()),
        Subject::Stream(id) => ("stream", id.as_str()),
    };
    Topic::new(format!("{kind}.{id}.{name}")).ok()
}

/// What a lost race means for the caller once all rounds are over.
fn contended(error: StoreError) -> HubError {
    match error {
        StoreError::Conflict | StoreError::StaleSubscriptions => HubError::Contended,
        StoreError::Fenced => HubError::Stopped,
        other => HubError::Store(other),
    }
}
