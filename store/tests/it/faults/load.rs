//! Load that faults interrupt: many writers, deliverers, workers and a subscriber concurrently, each reporting
//! what was acknowledged and retrying while the store rejects temporarily.
//!
//! Every commit writes all kinds of data, derived from the task and its revision, so that the verifier knows the
//! expected content ([`text`]).

use super::facts::Fact;
use interzone_hub::ports::{
    Commit, EventRow, Fence, IdempotencyClaim, Op, OutboxClaim, Store, StoreError, WorkClaim,
    WorkItem,
};
use interzone_hub::{
    AckOutcome, Blob, BlobId, DeliveryResult, EventBody, IdSource, Offloaded, OutboxEntry,
    RandomIds, RunShares, Signal, SignalBody, Subject, Subscription, SubscriptionState, Task,
    WorkOwner,
};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, ContextId, DeliveryId, Message, Part, PrincipalId, Priority,
    SignalId, SubscriptionId, TaskId, TaskState, Timestamp, Topic, TopicPattern, VerbatimJson,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Receiver of facts.
pub(crate) type Sink = Arc<dyn Fn(Fact) + Send + Sync>;

/// Error of the load itself.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Subscription that receives every signal and acknowledges none.
pub(crate) const KEEPS: &str = "keeps";
/// Subscription that acknowledges its signals.
pub(crate) const ACKS: &str = "acks";
/// The only outbox channel.
pub(crate) const CHANNEL: &str = "web";
/// Number of revisions of a task before its writer starts another.
const REVISIONS_PER_TASK: u64 = 6;

/// Constant current time: leases of a load never end.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// Longer than any test.
const LEASE: Duration = Duration::from_secs(3_600);

fn much_later() -> Timestamp {
    now().plus(LEASE)
}

/// Text in everything that this revision of a task wrote.
pub(crate) fn text(task: &str, revision: u64) -> String {
    format!("{task}#{revision}")
}

/// The message with that text.
pub(crate) fn message(text: &str) -> Offloaded<Message> {
    Offloaded::offload(Message::user_text(text)).0
}

/// Blob of a task: large enough to fill pages.
pub(crate) fn blob(task: &str) -> Blob {
    let bytes = format!("\"{}\"", task.repeat(800));
    Blob {
        id: BlobId::for_content(bytes.as_bytes()),
        bytes: bytes.into(),
    }
}

/// Retries while the store returns transient errors.
macro_rules! retry_transient {
    ($context:expr, $attempt:expr) => {
        loop {
            match $attempt.await {
                Err(error) if error.is_transient() && $context.is_running() => {
                    $context.report_and_wait(&error).await;
                }
                answer => break answer,
            }
        }
    };
}

/// Running load.
pub(crate) struct Load {
    running: JoinSet<Result<(), Fault>>,
    stopped: Arc<AtomicBool>,
}

impl Load {
    /// Starts the load. Its tasks are named after `name`, which must be new to the store.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        name: &str,
        writers: usize,
        sink: Sink,
    ) -> Result<Self, Fault> {
        let context = LoadContext {
            store,
            sink,
            stopped: Arc::default(),
        };
        for id in [KEEPS, ACKS] {
            let ops = vec![Op::CreateSubscription(Box::new(subscription(id)?))];
            // It may exist already: one database serves several loads.
            if !matches!(
                context.commit(ops, None).await,
                Ok(()) | Err(StoreError::Conflict)
            ) {
                return Err("the subscriptions cannot be made".into());
            }
        }
        let mut running = JoinSet::new();
        let shared = format!("{name}-shared");
        for writer in 0..writers {
            let own = format!("{name}-{writer}");
            running.spawn(write(context.clone(), own, shared.clone()));
        }
        running.spawn(deliver(context.clone()));
        running.spawn(work(context.clone(), name.to_owned()));
        running.spawn(acknowledge(context.clone()));
        Ok(Self {
            running,
            stopped: context.stopped,
        })
    }

    /// Lets all parts finish their current call.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Waits for the end, which follows [`Load::stop`] or a broken invariant.
    pub(crate) async fn end(mut self) -> Result<(), Fault> {
        while let Some(ended) = self.running.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// State shared by the parts of the load.
#[derive(Clone)]
struct LoadContext {
    store: Arc<dyn Store>,
    sink: Sink,
    stopped: Arc<AtomicBool>,
}

impl LoadContext {
    fn is_running(&self) -> bool {
        !self.stopped.load(Ordering::SeqCst)
    }

    fn report(&self, fact: Fact) {
        (self.sink)(fact);
    }

    /// Reports a broken invariant, and ends this part of the load.
    fn report_broken(&self, how: String) -> Fault {
        self.report(Fact::Broken { how: how.clone() });
        how.into()
    }

    /// Reports a transient error, and waits for the next attempt.
    async fn report_and_wait(&self, error: &StoreError) {
        self.report(Fact::Refused {
            why: error.to_string(),
        });
        // Without a pause a store that fails at once would be called in a busy loop.
        let mut pace = tokio::time::interval(Duration::from_millis(2));
        pace.tick().await;
        pace.tick().await;
    }

    /// Commits, retrying transient errors. Every attempt has a new commit id: an error promises that nothing was
    /// written, so the next attempt must not conflict with the last one.
    async fn commit(&self, ops: Vec<Op>, fence: Option<Fence>) -> Result<(), StoreError> {
        retry_transient!(self, {
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

    /// The same with direct dispatch: claims one work item in the commit, and reports it.
    async fn commit_and_claim(&self, ops: Vec<Op>, claim: &WorkClaim) -> Result<(), StoreError> {
        let items = retry_transient!(self, {
            let commit = Commit {
                id: RandomIds.next(now()),
                at: now(),
                fence: None,
                epoch: None,
                ops: ops.clone(),
            };
            self.store.commit_and_claim(commit, claim)
        })?;
        for item in items {
            self.report(Fact::Claimed {
                task: item.task_id.to_string(),
                claim: item.claim,
            });
        }
        Ok(())
    }
}

/// Claim for one work item, with a lease that never ends.
fn single_claim(node: &str) -> Result<WorkClaim, Fault> {
    Ok(WorkClaim {
        node: node.to_owned(),
        wanted: vec![(AgentId::new("agent")?, 1)],
        now: now(),
        lease: LEASE,
        running_claims: Vec::new(),
        shares: RunShares::default(),
    })
}

fn subscription(id: &str) -> Result<Subscription, Fault> {
    Ok(Subscription {
        id: SubscriptionId::new(id)?,
        owner: PrincipalId::new("owner")?,
        patterns: vec![TopicPattern::new("**")?],
        allowed_patterns: None,
        state: SubscriptionState::Active,
        dialect_data: None,
        created_at: now(),
        expires_at: None,
        revision: 1,
    })
}

/// Operations that take a task to this revision.
fn ops_for_revision(id: &str, revision: u64) -> Result<Vec<Op>, Fault> {
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
        status_message: Some(message(&text)),
        created_at: now(),
        status_at: now(),
        updated_at: now(),
        finished_at: None,
        revision,
        seq: revision,
        generation: revision,
        is_direct: false,
        message_count: count,
        artifact_count: 1,
        push_count: 0,
    };
    let artifact_id = ArtifactId::new("a")?;
    let artifact = Artifact::new(artifact_id.clone(), "a").with_part(Part::text(&text));
    let subject = Subject::Task(task_id.clone());
    let entry = OutboxEntry {
        id: DeliveryId::new(&text)?,
        channel: CHANNEL.to_owned(),
        key: text.clone(),
        // Half of the tasks have grouped entries.
        group: id.len().is_multiple_of(2).then(|| id.to_owned()),
        owner: PrincipalId::new("owner")?,
        subject: Some(subject.clone()),
        payload: VerbatimJson::from_value(&text)?,
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
        Op::ClaimKey(IdempotencyClaim {
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
            generation: Some(revision),
            body: EventBody::Status { text },
        }),
        Op::PutArtifact {
            task_id: task_id.clone(),
            artifact_id,
            artifact: Offloaded::offload(artifact).0,
        },
        Op::EnqueueOutbox(Box::new(entry)),
        Op::Publish {
            signal: Box::new(signal),
            to: vec![SubscriptionId::new(KEEPS)?, SubscriptionId::new(ACKS)?],
        },
    ];
    if revision == 1 {
        ops.push(Op::EnqueueWork {
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

/// Writes tasks of its own, and the shared one, which all writers update. Every other task of its own is created
/// with a claim.
async fn write(context: LoadContext, own: String, shared: String) -> Result<(), Fault> {
    let claim = single_claim(&own)?;
    for number in 0_u64.. {
        let id = format!("{own}-{number}");
        for revision in 1..=REVISIONS_PER_TASK {
            if !context.is_running() {
                return Ok(());
            }
            let ops = ops_for_revision(&id, revision)?;
            let written = if revision == 1 && number.is_multiple_of(2) {
                context.commit_and_claim(ops, &claim).await
            } else {
                context.commit(ops, None).await
            };
            match written {
                Ok(()) => context.report(Fact::Wrote {
                    task: id.clone(),
                    revision,
                }),
                Err(error) if error.is_transient() => return Ok(()),
                // No other writer writes this task: it conflicts with an attempt of its own that was reported
                // as failed.
                Err(error) => {
                    return Err(context.report_broken(format!("{id} {revision}: {error:?}")));
                }
            }
            write_shared(&context, &shared).await?;
        }
    }
    Ok(())
}

async fn write_shared(context: &LoadContext, id: &str) -> Result<(), Fault> {
    let task_id = TaskId::new(id)?;
    let revision = match retry_transient!(context, context.store.task(&task_id)) {
        Ok(task) => task.map_or(0, |task| task.revision) + 1,
        Err(error) if error.is_transient() => return Ok(()),
        Err(error) => return Err(context.report_broken(format!("{id}: {error:?}"))),
    };
    match context.commit(ops_for_revision(id, revision)?, None).await {
        Ok(()) => context.report(Fact::Wrote {
            task: id.to_owned(),
            revision,
        }),
        Err(StoreError::Conflict | StoreError::KeyTaken { .. }) => {}
        Err(error) if error.is_transient() => {}
        Err(error) => return Err(context.report_broken(format!("{id} {revision}: {error:?}"))),
    }
    Ok(())
}

/// Delivers due entries, and leaves every third unsettled.
async fn deliver(context: LoadContext) -> Result<(), Fault> {
    let channels = [CHANNEL.to_owned()];
    let mut count = 0_u64;
    while context.is_running() {
        let claimed = retry_transient!(
            context,
            context.store.claim_outbox(&OutboxClaim {
                channels: channels.to_vec(),
                now: now(),
                lease: LEASE,
                limit: 4,
                in_flight: Vec::new(),
            })
        );
        let entries = claimed.unwrap_or_default();
        for entry in &entries {
            count += 1;
            if count.is_multiple_of(3) {
                continue;
            }
            let done = &DeliveryResult::Delivered;
            let settled = retry_transient!(
                context,
                context
                    .store
                    .settle_outbox(&entry.id, entry.attempt, done, now())
            );
            match settled {
                Ok(true) => context.report(Fact::Delivered {
                    key: entry.key.clone(),
                }),
                Ok(false) => return Err(context.report_broken(format!("{} is lost", entry.key))),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => {
                    return Err(context.report_broken(format!("{}: {error:?}", entry.key)));
                }
            }
        }
        if entries.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Claims work, and dequeues every second item under its fence.
async fn work(context: LoadContext, node: String) -> Result<(), Fault> {
    let claim = single_claim(&node)?;
    let mut count = 0_u64;
    while context.is_running() {
        let claimed = retry_transient!(context, context.store.claim_work(&claim));
        let items: Vec<WorkItem> = claimed.unwrap_or_default();
        for item in &items {
            context.report(Fact::Claimed {
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
            let ops = vec![Op::DequeueWork(item.task_id.clone())];
            match context.commit(ops, Some(fence)).await {
                Ok(()) => context.report(Fact::Ended {
                    task: item.task_id.to_string(),
                }),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => {
                    return Err(context.report_broken(format!("{}: {error:?}", item.task_id)));
                }
            }
        }
        if items.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Claims the signals of one subscription and acknowledges them.
async fn acknowledge(context: LoadContext) -> Result<(), Fault> {
    let id = SubscriptionId::new(ACKS)?;
    let waits = [Duration::from_secs(3_600)];
    while context.is_running() {
        let claimed = retry_transient!(context, context.store.claim_signals(&id, now(), &waits, 4));
        let claimed = claimed.unwrap_or_default();
        for delivery in &claimed {
            let signals = [delivery.signal.id.clone()];
            match retry_transient!(context, context.store.ack_signals(&id, &signals, now())) {
                Ok(acked) if acked == [AckOutcome::Acknowledged] => context.report(Fact::Acked {
                    signal: delivery.signal.id.to_string(),
                }),
                // It was just claimed, so it was due: an attempt that was reported as failed has
                // acknowledged it.
                Ok(acked) => return Err(context.report_broken(format!("{:?}: {acked:?}", signals))),
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(context.report_broken(format!("{id}: {error:?}"))),
            }
        }
        if claimed.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
