//! The load that faults interrupt: many writers, carriers, workers and a subscriber at once, each
//! saying what was acknowledged, each going on by itself when the store refuses for a while.
//!
//! Every commit writes something of everything, all of it decided by the task and its revision, so
//! that whoever looks afterwards knows what must be there ([`text`]).

use super::facts::Fact;
use interzone_hub::ports::{
    ClaimKey, Commit, EventRow, Fence, Op, OutboxClaim, Store, StoreError, WorkClaim, WorkItem,
};
use interzone_hub::{
    Acked, Blob, BlobId, EventBody, IdSource, OutboxEntry, Packed, RandomIds, RunShares,
    Settlement, Signal, SignalBody, Subject, Subscription, SubscriptionState, Task, WorkOwner,
};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, ContextId, DeliveryId, Json, Message, Part, PrincipalId,
    Priority, SignalId, SubscriptionId, TaskId, TaskState, Timestamp, Topic, TopicPattern,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Where facts go.
pub(crate) type Sink = Arc<dyn Fn(Fact) + Send + Sync>;

/// What goes wrong in the load itself.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A subscription that gets every signal and acknowledges none.
pub(crate) const KEEPS: &str = "keeps";
/// A subscription that acknowledges what it gets.
pub(crate) const ACKS: &str = "acks";
/// The one channel of the outbox.
pub(crate) const CHANNEL: &str = "web";
/// How many revisions a task gets before its writer begins another.
const LENGTH: u64 = 6;

/// The present moment, always: leases and holds of a load never end.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

fn much_later() -> Timestamp {
    now().after(LONG)
}

/// What stands in everything that revision `revision` of a task wrote.
pub(crate) fn text(task: &str, revision: u64) -> String {
    format!("{task}#{revision}")
}

/// The message with that text.
pub(crate) fn message(text: &str) -> Packed<Message> {
    Packed::pack(Message::user_text(text)).0
}

/// The blob of a task: large enough to fill pages.
pub(crate) fn blob(task: &str) -> Blob {
    let bytes = format!("\"{}\"", task.repeat(800));
    Blob {
        id: BlobId::of(bytes.as_bytes()),
        bytes: bytes.into(),
    }
}

/// Tries until the store does not refuse for the moment.
macro_rules! patiently {
    ($hand:expr, $attempt:expr) => {
        loop {
            match $attempt.await {
                Err(error) if error.is_transient() && $hand.goes_on() => {
                    $hand.refused(&error).await;
                }
                answer => break answer,
            }
        }
    };
}

/// A load that is running.
pub(crate) struct Load {
    running: JoinSet<Result<(), Fault>>,
    stopped: Arc<AtomicBool>,
}

impl Load {
    /// Starts the load. Its tasks are called after `name`, which must be new to the store.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        name: &str,
        writers: usize,
        tell: Sink,
    ) -> Result<Self, Fault> {
        let hand = Hand {
            store,
            tell,
            stopped: Arc::default(),
        };
        for id in [KEEPS, ACKS] {
            let ops = vec![Op::CreateSubscription(Box::new(subscription(id)?))];
            // It may be there already: the same database serves for several loads.
            if !matches!(
                hand.commit(ops, None).await,
                Ok(()) | Err(StoreError::Conflict)
            ) {
                return Err("the subscriptions cannot be made".into());
            }
        }
        let mut running = JoinSet::new();
        let shared = format!("{name}-shared");
        for writer in 0..writers {
            let own = format!("{name}-{writer}");
            running.spawn(write(hand.clone(), own, shared.clone()));
        }
        running.spawn(carry(hand.clone()));
        running.spawn(work(hand.clone(), name.to_owned()));
        running.spawn(listen(hand.clone()));
        Ok(Self {
            running,
            stopped: hand.stopped,
        })
    }

    /// Lets everybody finish what is begun.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Waits for the end, which comes after [`Load::stop`] or when something is broken.
    pub(crate) async fn end(mut self) -> Result<(), Fault> {
        while let Some(ended) = self.running.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// What each part of the load holds.
#[derive(Clone)]
struct Hand {
    store: Arc<dyn Store>,
    tell: Sink,
    stopped: Arc<AtomicBool>,
}

impl Hand {
    fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }

    fn say(&self, fact: Fact) {
        (self.tell)(fact);
    }

    /// Says what is broken, and ends this part of the load.
    fn broken(&self, how: String) -> Fault {
        self.say(Fact::Broken { how: how.clone() });
        how.into()
    }

    /// Notes that the store refuses for the moment, and waits for the next.
    async fn refused(&self, error: &StoreError) {
        self.say(Fact::Refused {
            why: error.to_string(),
        });
        // A store that fails at once would be asked without end.
        let mut pace = tokio::time::interval(Duration::from_millis(2));
        pace.tick().await;
        pace.tick().await;
    }

    /// Commits, again and again while the store refuses. Every attempt has a name of its own: an
    /// error promises that nothing was written, so the next attempt must not meet the last one.
    async fn commit(&self, ops: Vec<Op>, fence: Option<Fence>) -> Result<(), StoreError> {
        patiently!(self, {
            let commit = Commit {
                id: RandomIds.next(now()),
                at: now(),
                fence: fence.clone(),
                epoch: None,
                ops: ops.clone(),
            };
            self.store.commit(commit)
        })
    }

    /// The same for a task that is begun as it is made: claims one piece of work along with it, and says
    /// which.
    async fn commit_and_claim(&self, ops: Vec<Op>, wish: &WorkClaim) -> Result<(), StoreError> {
        let items = patiently!(self, {
            let commit = Commit {
                id: RandomIds.next(now()),
                at: now(),
                fence: None,
                epoch: None,
                ops: ops.clone(),
            };
            self.store.commit_and_claim(commit, wish)
        })?;
        for item in items {
            self.say(Fact::Claimed {
                task: item.task_id.to_string(),
                claim: item.claim,
            });
        }
        Ok(())
    }
}

/// A wish for one piece of work, which is never over.
fn one_for(node: &str) -> Result<WorkClaim, Fault> {
    Ok(WorkClaim {
        node: node.to_owned(),
        wanted: vec![(AgentId::new("agent")?, 1)],
        now: now(),
        lease: LONG,
        running: Vec::new(),
        shares: RunShares::default(),
    })
}

fn subscription(id: &str) -> Result<Subscription, Fault> {
    Ok(Subscription {
        id: SubscriptionId::new(id)?,
        owner: PrincipalId::new("owner")?,
        patterns: vec![TopicPattern::new("**")?],
        allowed: None,
        state: SubscriptionState::Active,
        about: None,
        created_at: now(),
        expires_at: None,
        revision: 1,
    })
}

/// Everything that takes a task to this revision.
fn step(id: &str, revision: u64) -> Result<Vec<Op>, Fault> {
    let task_id = TaskId::new(id)?;
    let text = text(id, revision);
    let count = u32::try_from(revision)?;
    let task = Task {
        id: task_id.clone(),
        context_id: ContextId::new("context")?,
        owner: PrincipalId::new("owner")?,
        agent: AgentId::new("agent")?,
        state: TaskState::Working,
        priority: Priority::Normal,
        metadata: None,
        status: Some(message(&text)),
        created_at: now(),
        updated_at: now(),
        finished_at: None,
        revision,
        seq: revision,
        messages: count,
        artifacts: 1,
        pushes: 0,
    };
    let artifact_id = ArtifactId::new("a")?;
    let artifact = Artifact::new(artifact_id.clone(), "a").with_part(Part::text(&text));
    let subject = Subject::Task(task_id.clone());
    let entry = OutboxEntry {
        id: DeliveryId::new(&text)?,
        channel: CHANNEL.to_owned(),
        key: text.clone(),
        // Half of the tasks want their entries one after another.
        group: id.len().is_multiple_of(2).then(|| id.to_owned()),
        owner: PrincipalId::new("owner")?,
        subject: Some(subject.clone()),
        payload: Json::of(&text)?,
        created_at: now(),
        due_at: now(),
        attempt: 0,
        error: None,
    };
    let signal = Signal {
        topic: Topic::new("a.b")?,
        id: SignalId::new(&text)?,
        publisher: PrincipalId::new("owner")?,
        at: now(),
        body: SignalBody::Event(subject.clone(), revision),
    };
    let mut ops = vec![
        Op::Claim(ClaimKey {
            key: text.clone(),
            value: revision.to_string(),
            expires_at: much_later(),
        }),
        if revision == 1 {
            Op::CreateTask(Arc::new(task))
        } else {
            Op::UpdateTask(Arc::new(task))
        },
        Op::AddMessage {
            task_id: task_id.clone(),
            index: count - 1,
            message: message(&text),
        },
        Op::AppendEvent(EventRow {
            subject: subject.clone(),
            seq: revision,
            body: EventBody::Status { text },
        }),
        Op::PutArtifact {
            task_id: task_id.clone(),
            artifact_id,
            artifact: Packed::pack(artifact).0,
        },
        Op::Enqueue(Box::new(entry)),
        Op::Publish {
            signal: Box::new(signal),
            to: vec![SubscriptionId::new(KEEPS)?, SubscriptionId::new(ACKS)?],
        },
    ];
    if revision == 1 {
        ops.push(Op::QueueWork {
            task_id,
            agent: AgentId::new("agent")?,
            owner: WorkOwner {
                principal: PrincipalId::new("owner")?,
                group: 0,
            },
            priority: Priority::Normal,
            due_at: now(),
        });
        ops.push(Op::PutBlob {
            subject,
            blob: blob(id),
        });
    }
    Ok(ops)
}

/// Writes tasks of its own, which nobody else touches, and the shared one, which everybody does.
/// Every other task of its own is claimed for as it is made.
async fn write(hand: Hand, own: String, shared: String) -> Result<(), Fault> {
    let wish = one_for(&own)?;
    for number in 0_u64.. {
        let id = format!("{own}-{number}");
        for revision in 1..=LENGTH {
            if !hand.goes_on() {
                return Ok(());
            }
            let ops = step(&id, revision)?;
            let written = if revision == 1 && number.is_multiple_of(2) {
                hand.commit_and_claim(ops, &wish).await
            } else {
                hand.commit(ops, None).await
            };
            match written {
                Ok(()) => hand.say(Fact::Wrote {
                    task: id.clone(),
                    revision,
                }),
                Err(error) if error.is_transient() => return Ok(()),
                // Nobody else writes this task: it met an attempt of its own that was said to
                // have failed.
                Err(error) => return Err(hand.broken(format!("{id} {revision}: {error:?}"))),
            }
            write_shared(&hand, &shared).await?;
        }
    }
    Ok(())
}

async fn write_shared(hand: &Hand, id: &str) -> Result<(), Fault> {
    let task_id = TaskId::new(id)?;
    let revision = match patiently!(hand, hand.store.task(&task_id)) {
        Ok(task) => task.map_or(0, |task| task.revision) + 1,
        Err(error) if error.is_transient() => return Ok(()),
        Err(error) => return Err(hand.broken(format!("{id}: {error:?}"))),
    };
    match hand.commit(step(id, revision)?, None).await {
        Ok(()) => hand.say(Fact::Wrote {
            task: id.to_owned(),
            revision,
        }),
        Err(StoreError::Conflict | StoreError::Claimed { .. }) => {}
        Err(error) if error.is_transient() => {}
        Err(error) => return Err(hand.broken(format!("{id} {revision}: {error:?}"))),
    }
    Ok(())
}

/// Carries what is due, and forgets to settle every third.
async fn carry(hand: Hand) -> Result<(), Fault> {
    let channels = [CHANNEL.to_owned()];
    let mut count = 0_u64;
    while hand.goes_on() {
        let claimed = patiently!(
            hand,
            hand.store.claim_outbox(&OutboxClaim {
                channels: channels.to_vec(),
                now: now(),
                hold: LONG,
                limit: 4,
                carrying: Vec::new(),
            })
        );
        let entries = claimed.unwrap_or_default();
        for entry in &entries {
            count += 1;
            if count.is_multiple_of(3) {
                continue;
            }
            let done = &Settlement::Delivered;
            let settled = patiently!(
                hand,
                hand.store
                    .settle_outbox(&entry.id, entry.attempt, done, now())
            );
            match settled {
                Ok(true) => hand.say(Fact::Delivered {
                    key: entry.key.clone(),
                }),
                Ok(false) => return Err(hand.broken(format!("{} is lost", entry.key))),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(hand.broken(format!("{}: {error:?}", entry.key))),
            }
        }
        if entries.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Claims work, and ends every second piece of it under its fence.
async fn work(hand: Hand, node: String) -> Result<(), Fault> {
    let wish = one_for(&node)?;
    let mut count = 0_u64;
    while hand.goes_on() {
        let claimed = patiently!(hand, hand.store.claim_work(&wish));
        let items: Vec<WorkItem> = claimed.unwrap_or_default();
        for item in &items {
            hand.say(Fact::Claimed {
                task: item.task_id.to_string(),
                claim: item.claim,
            });
            count += 1;
            if count.is_multiple_of(2) {
                continue;
            }
            let fence = Fence {
                task_id: item.task_id.clone(),
                node: node.clone(),
                claim: item.claim,
            };
            let ops = vec![Op::EndWork(item.task_id.clone())];
            match hand.commit(ops, Some(fence)).await {
                Ok(()) => hand.say(Fact::Ended {
                    task: item.task_id.to_string(),
                }),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(hand.broken(format!("{}: {error:?}", item.task_id))),
            }
        }
        if items.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Claims the signals of one subscription and acknowledges them.
async fn listen(hand: Hand) -> Result<(), Fault> {
    let id = SubscriptionId::new(ACKS)?;
    let waits = [Duration::from_secs(3_600)];
    while hand.goes_on() {
        let claimed = patiently!(hand, hand.store.claim_signals(&id, now(), &waits, 4));
        let claimed = claimed.unwrap_or_default();
        for delivery in &claimed {
            let signals = [delivery.signal.id.clone()];
            match patiently!(hand, hand.store.ack_signals(&id, &signals, now())) {
                Ok(acked) if acked == [Acked::Now] => hand.say(Fact::Acked {
                    signal: delivery.signal.id.to_string(),
                }),
                // It was just claimed, so it was due: an attempt that was said to have failed
                // has acknowledged it.
                Ok(acked) => return Err(hand.broken(format!("{:?}: {acked:?}", signals))),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(hand.broken(format!("{id}: {error:?}"))),
            }
        }
        if claimed.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
