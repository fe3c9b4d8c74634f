//! The hub: every method authorizes the caller, applies a rule, and commits the consequences.

use crate::agent::Registry;
use crate::bus::{Bus, BusMessage};
use crate::clock::{Clock, IdSource};
use crate::error::HubError;
use crate::event::{Event, Subject};
use crate::fairness::WorkOwner;
use crate::gcra::{Charge, Rate};
use crate::limits::Limits;
use crate::ports::{ChangeHint, Commit, Fence, Op, Store, StoreError, WorkClaim, WorkItem};
use crate::task::Task;
use crate::topic::Signal;
use interzone_protocol::vocab::{Timestamp, Topic};
use std::pin::pin;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

mod feedback;
mod inbox_outbox;
mod matcher;
mod node_leases;
mod push_subscriptions;
mod redact_urls;
mod restore;
mod run;
mod streams;
mod sweep;
mod task_change;
mod tasks;
mod topics;
mod view;
mod watch;

pub use inbox_outbox::NewOutboxEntry;
pub use node_leases::LeasedEntry;
pub use push_subscriptions::{NewPushSubscription, PushCursor, PushDelivery, PushSubscriptionPage};
pub use run::{Dispatch, Run, RunFuture, RunSlot, SlotProvider, TurnStart};
pub use streams::{NewStream, STREAM_CHANNEL};
pub use tasks::{
    BusyPolicy, IdempotencyKey, NewMessage, NewTask, SentMessage, StartedTask, TaskDetail,
    TaskPage, adopt_message,
};
pub use topics::{NewSubscription, PublishResult};
pub use view::TaskView;
pub use watch::{Watch, WatchItem};

use matcher::Matcher;
use node_leases::NodeLeases;

/// Maximum number of retries after a write conflict (optimistic concurrency). In each round at least one writer
/// succeeds, so only one of very many concurrent writers of the same object can exhaust them.
const MAX_CAS_RETRIES: u32 = 64;

/// Number of events read at once for a fan-out. More than a watcher may lag would be of no use.
const FANOUT_PAGE_SIZE: usize = 16;

/// Maximum number of change hints forwarded together.
const HINT_BATCH_LIMIT: usize = 256;

/// Number of messages or artifacts restored from blobs before their size is checked.
const RESTORE_BATCH_SIZE: usize = 4;

/// The domain core shared by all dialects. Cheap to clone: clones share the same hub.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<HubInner>,
}

struct HubInner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    agents: Registry,
    limits: Limits,
    bus: Bus,
    matcher: Matcher,
    leases: NodeLeases,
    /// Provides run slots on this node, if the node runs agents.
    slot_provider: RwLock<Option<Weak<SlotProvider>>>,
    /// Reads the name of the person on whose behalf a task was created.
    person_reader: OnceLock<PersonReader>,
}

/// Reads the name of the person on whose behalf a task was created, if its caller named one.
pub type PersonReader = fn(&Task) -> Option<String>;

impl Hub {
    /// Creates a hub on a store.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
        agents: Registry,
        limits: Limits,
    ) -> Self {
        let (bus, matcher) = (Bus::default(), Matcher::default());
        Self {
            inner: Arc::new(HubInner {
                store,
                clock,
                ids,
                agents,
                limits,
                bus,
                matcher,
                leases: NodeLeases::default(),
                slot_provider: RwLock::default(),
                person_reader: OnceLock::new(),
            }),
        }
    }

    /// Sets the function that finds the person on whose behalf a task was created, so that the people of one caller
    /// share the queue fairly. Only the first call has an effect.
    pub fn set_person_reader(&self, reader: PersonReader) {
        self.inner.person_reader.get_or_init(|| reader);
    }

    /// Returns the owner of a task for fair queueing.
    fn work_owner(&self, task: &Task) -> WorkOwner {
        let reader = self.inner.person_reader.get();
        let person = reader.and_then(|read| read(task));
        WorkOwner::new(task, person.as_deref())
    }

    /// The configured limits.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The agents of this node.
    pub fn agents(&self) -> &Registry {
        &self.inner.agents
    }

    /// The store, for operations without hub rules: depths, checks, dead letters.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Charges a quota.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn charge(&self, key: &str, rate: Rate, cost: u32) -> Result<Charge, HubError> {
        Ok(self.store().charge(key, rate, cost, self.now()).await?)
    }

    /// Forwards the store's change hints to the watchers until canceled, after passing them to `on_changes` in batches.
    /// Run it in the background; without it, watchers learn of other nodes' events only by polling. It receives all
    /// hints from the time of this call on.
    pub fn forward_changes<F: FnMut(&[ChangeHint]) + Send>(
        &self,
        stop: CancellationToken,
        mut on_changes: F,
    ) -> impl Future<Output = ()> + Send + use<F> {
        let (hub, mut hints) = (self.clone(), self.store().subscribe_changes());
        async move {
            let _guard = hub.inner.bus.forwarding();
            let mut stopped = pin!(stop.cancelled());
            let mut batch = Vec::new();
            loop {
                let received = tokio::select! {
                    biased;
                    () = &mut stopped => return,
                    wake = hints.recv() => wake,
                };
                batch.push(match received {
                    Ok(wake) => wake,
                    Err(RecvError::Lagged(_)) => ChangeHint::Everything,
                    Err(RecvError::Closed) => return,
                });
                // Hints arrive in batches; take those already received without waiting.
                while batch.len() < HINT_BATCH_LIMIT {
                    batch.push(match hints.try_recv() {
                        Ok(wake) => wake,
                        Err(TryRecvError::Lagged(_)) => ChangeHint::Everything,
                        Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                    });
                }
                on_changes(&batch);
                for hint in batch.drain(..) {
                    hub.forward_change(&hint).await;
                }
            }
        }
    }

    /// Forwards one hint. For a subject with many watchers the events are read once and published to all; otherwise
    /// each watcher reads for itself.
    async fn forward_change(&self, hint: &ChangeHint) {
        let bus = &self.inner.bus;
        // A later watcher reads the log first.
        if matches!(hint, ChangeHint::Subject(subject, _) if !bus.is_watched(subject)) {
            return;
        }
        if let ChangeHint::Subject(subject, seq) = hint
            && let Some(after) = bus.fanout_after(subject, *seq)
            && let Ok(events) = self.store().events(subject, after, FANOUT_PAGE_SIZE).await
        {
            for event in events {
                bus.publish(subject, BusMessage::Event(Arc::new(event)));
            }
        }
        bus.apply_hint(hint);
    }

    fn new_id(&self, now: Timestamp) -> String {
        self.inner.ids.next(now)
    }

    /// Writes a commit and publishes its events to the watchers. If the subscriptions have changed meanwhile, they are
    /// read and matched again; all other conflicts are returned to the caller. Returns the number of signal
    /// deliveries.
    async fn commit(
        &self,
        at: Timestamp,
        fence: Option<Fence>,
        ops: Vec<Op>,
        signals: Vec<Emission>,
    ) -> Result<usize, StoreError> {
        let result = self.commit_and_claim(at, fence, ops, signals, None).await?;
        Ok(result.deliveries)
    }

    /// Like [`Self::commit`], and claims work in the same commit.
    async fn commit_and_claim(
        &self,
        at: Timestamp,
        fence: Option<Fence>,
        ops: Vec<Op>,
        signals: Vec<Emission>,
        claim: Option<&WorkClaim>,
    ) -> Result<CommitResult, StoreError> {
        for _ in 0..MAX_CAS_RETRIES {
            let (epoch, publish) = self
                .inner
                .matcher
                .publish_ops(self.store().as_ref(), at, &signals)
                .await?;
            let delivered = publish.iter().map(count_deliveries).sum();
            let mut all_ops = ops.clone();
            all_ops.extend(publish);
            let id = self.new_id(at);
            let commit = Commit {
                id,
                at,
                fence: fence.clone(),
                epoch: Some(epoch),
                ops: all_ops,
            };
            let result = match claim {
                Some(claim) => self.store().commit_and_claim(commit, claim).await,
                None => self.store().commit(commit).await.map(|()| Vec::new()),
            };
            match result {
                Err(StoreError::StaleSubscriptions) => self.inner.matcher.invalidate(),
                Err(error) => return Err(error),
                Ok(items) => {
                    self.publish_events(&ops, at);
                    return Ok(CommitResult {
                        deliveries: delivered,
                        claimed: items,
                    });
                }
            }
        }
        Err(StoreError::Conflict)
    }

    /// Publishes the events of a commit to the watchers.
    fn publish_events(&self, ops: &[Op], at: Timestamp) {
        let bus = &self.inner.bus;
        for op in ops {
            // Most events have no watcher, and only those that have need a copy.
            if let Op::AppendEvent(row) = op
                && bus.is_watched(&row.subject)
            {
                let event = Event {
                    subject: row.subject.clone(),
                    seq: row.seq,
                    generation: row.generation,
                    at,
                    body: row.body.clone(),
                };
                bus.publish(&row.subject, BusMessage::Event(Arc::new(event)));
            }
        }
    }
}

/// Result of a commit.
struct CommitResult {
    /// Number of signal deliveries.
    deliveries: usize,
    /// Work that was claimed in the same commit.
    claimed: Vec<WorkItem>,
}

/// Signals to publish with a commit, with their audience.
enum Emission {
    /// A signal.
    Signal(Signal, SignalAudience),
    /// Events of a task, turned into signals only if there are matching subscriptions, which is rare.
    TaskEvents(task_change::TaskSignals),
}

/// Receivers of a signal, in addition to matching its topic.
enum SignalAudience {
    /// All subscribers.
    All,
    /// Only these principals.
    Only(Vec<String>),
}

fn count_deliveries(op: &Op) -> usize {
    match op {
        Op::Publish { to, .. } => to.len(),
        _ => 0,
    }
}

/// Topic of a subject's events of one kind.
fn event_topic(subject: &Subject, name: &str) -> Option<Topic> {
    let (kind, id) = match subject {
        Subject::Task(id) => ("task", id.as_str()),
        Subject::Stream(id) => ("stream", id.as_str()),
    };
    Topic::new(format!("{kind}.{id}.{name}")).ok()
}

/// Maps a write conflict that remains after all retries to a hub error.
fn map_conflict(error: StoreError) -> HubError {
    match error {
        StoreError::Conflict | StoreError::StaleSubscriptions => HubError::Contended,
        StoreError::Fenced => HubError::Stopped,
        other => HubError::Store(other),
    }
}
