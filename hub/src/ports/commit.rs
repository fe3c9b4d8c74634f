//! A commit: all changes of one hub operation, written atomically.

use crate::conversation::ThreadOrigin;
use crate::event::{EventBody, Subject};
use crate::fairness::WorkOwner;
use crate::offload::{Blob, Offloaded};
use crate::outbox::OutboxEntry;
use crate::stream::Stream;
use crate::task::{PushSubscription, Task};
use crate::topic::{Signal, Subscription};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, Message, Priority, SubscriptionId, TaskId, Timestamp,
};
use std::sync::Arc;

/// All changes of one hub operation.
///
/// The preconditions (fence, epoch, revisions, idempotency keys) are checked inside the transaction that writes;
/// if one fails, nothing is written. The operations are applied in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// Unique id of this commit. A store that lost its connection while committing uses it to find out whether
    /// the commit happened.
    pub id: String,
    /// Time of the operation.
    pub at: Timestamp,
    /// The lease that must still be held; else [`Fenced`](super::StoreError::Fenced).
    pub fence: Option<Fence>,
    /// The subscription epoch that signals were matched against; if there is a newer one,
    /// [`StaleSubscriptions`](super::StoreError::StaleSubscriptions).
    pub epoch: Option<u64>,
    /// The operations.
    pub ops: Vec<Op>,
}

/// Fencing token: proves that a worker still holds the task it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task_id: TaskId,
    /// The node that claimed it.
    pub node: String,
    /// The claim number. A later claim has a higher number and invalidates this one. Without a later claim it stays
    /// valid even after its lease has expired, because no other node works on the task.
    pub claim: u64,
}

/// One operation of a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Claims an unused (or expired) idempotency key, or fails with
    /// [`KeyTaken`](super::StoreError::KeyTaken).
    ClaimKey(IdempotencyClaim),
    /// Adds a task. Fails with [`Conflict`](super::StoreError::Conflict) if the id is taken.
    CreateTask(Arc<Task>),
    /// Replaces the task's previous revision (`revision - 1`). Fails with
    /// [`Conflict`](super::StoreError::Conflict) if that is not the stored one.
    UpdateTask(Arc<Task>),
    /// Records the thread and user that a task originates from. A second record for the same task fails with
    /// [`Conflict`](super::StoreError::Conflict).
    RecordThread {
        /// The task.
        task_id: TaskId,
        /// The thread and user.
        origin: Box<ThreadOrigin>,
    },
    /// Adds a message to a task. An index that is taken fails with
    /// [`Conflict`](super::StoreError::Conflict).
    AddMessage {
        /// The task.
        task_id: TaskId,
        /// Index in the history, from zero.
        index: u32,
        /// The message.
        message: Offloaded<Message>,
    },
    /// Replaces the message with this index. If there is none, it fails with
    /// [`Conflict`](super::StoreError::Conflict).
    ReplaceMessage {
        /// The task.
        task_id: TaskId,
        /// Index in the history, from zero.
        index: u32,
        /// The message.
        message: Offloaded<Message>,
    },
    /// Adds an artifact to a task, or replaces the one with the same id.
    PutArtifact {
        /// The task.
        task_id: TaskId,
        /// Its id.
        artifact_id: ArtifactId,
        /// The complete artifact.
        artifact: Offloaded<Artifact>,
    },
    /// Stores a blob unless it exists, and adds a reference from a subject.
    PutBlob {
        /// The referencing subject.
        subject: Subject,
        /// The blob.
        blob: Blob,
    },
    /// Adds a stream. Fails with [`Conflict`](super::StoreError::Conflict) if the id is taken.
    CreateStream(Box<Stream>),
    /// Like [`Op::UpdateTask`], for streams.
    UpdateStream(Box<Stream>),
    /// Appends an event to a log. The holder of the subject's revision assigns the sequence number; a
    /// number that is taken fails with [`Conflict`](super::StoreError::Conflict).
    AppendEvent(EventRow),
    /// Enqueues a task behind those of its owner and priority, or requeues it without lease and attempts, to be
    /// claimed in order of its [turn](crate::next_turn). Invalidates earlier claims. Fails with
    /// [`Conflict`](super::StoreError::Conflict) if there is no such task.
    EnqueueWork {
        /// The task.
        task_id: TaskId,
        /// The agent that is to do it.
        agent: AgentId,
        /// The owner, for fair queueing between owners.
        owner: WorkOwner,
        /// The priority.
        priority: Priority,
        /// Earliest time at which it may be claimed.
        due_at: Timestamp,
    },
    /// Removes a task from the work queue, claimed or not. Invalidates earlier claims.
    DequeueWork(TaskId),
    /// Adds an entry to the outbox, unless its channel has one with the same key, settled or not. A duplicate id
    /// fails with [`Conflict`](super::StoreError::Conflict).
    EnqueueOutbox(Box<OutboxEntry>),
    /// Adds a push subscription, or replaces the one with the same id.
    PutPushSubscription(Box<PushSubscription>),
    /// Removes a push subscription, if it exists.
    RemovePushSubscription {
        /// The task.
        task_id: TaskId,
        /// The subscription.
        id: SubscriptionId,
    },
    /// Adds a subscription and increments the epoch. Fails with
    /// [`Conflict`](super::StoreError::Conflict) if the id is taken.
    CreateSubscription(Box<Subscription>),
    /// Replaces a subscription's previous revision and increments the epoch. Fails with
    /// [`Conflict`](super::StoreError::Conflict) if that is not the stored one.
    UpdateSubscription(Box<Subscription>),
    /// Removes a subscription and its deliveries and increments the epoch. If it does not exist, nothing is removed,
    /// and the epoch may or may not be incremented.
    RemoveSubscription(SubscriptionId),
    /// Stores a signal once and adds a delivery, due at once, for each of these subscriptions that exists, with
    /// that subscription's next sequence number. Duplicate ids count once.
    Publish {
        /// The signal.
        signal: Box<Signal>,
        /// The receiving subscriptions.
        to: Vec<SubscriptionId>,
    },
}

/// An idempotency key to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// The key.
    pub key: String,
    /// The value returned to later claimers.
    pub value: String,
    /// Time after which the key may be claimed again.
    pub expires_at: Timestamp,
}

/// An event to append.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// The subject of the log.
    pub subject: Subject,
    /// Sequence number in the log.
    pub seq: u64,
    /// See [`Event::generation`](crate::Event::generation).
    pub generation: Option<u64>,
    /// Content of the event; its time is that of the commit.
    pub body: EventBody,
}
