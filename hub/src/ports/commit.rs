//! A commit: everything that one decision of the hub changes, written whole or not at all.

use crate::event::{EventBody, Subject};
use crate::fairness::WorkOwner;
use crate::outbox::OutboxEntry;
use crate::packed::{Blob, Packed};
use crate::stream::Stream;
use crate::talk::Asking;
use crate::task::{Push, Task};
use crate::topic::{Signal, Subscription};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, Message, Priority, SubscriptionId, TaskId, Timestamp,
};
use std::sync::Arc;

/// Everything that one decision changes.
///
/// The preconditions (fence, epoch, revisions, claims) are all checked inside the transaction that
/// writes; if one fails, nothing is written. The operations are applied in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// A name for this commit that no other has. A store that lost its connection while
    /// committing uses it to find out whether it did.
    pub id: String,
    /// When the decision was made.
    pub at: Timestamp,
    /// The lease that must still be held; else [`Fenced`](super::StoreError::Fenced).
    pub fence: Option<Fence>,
    /// The epoch of the subscriptions that signals were matched against; if there is a newer one,
    /// [`StaleSubscriptions`](super::StoreError::StaleSubscriptions).
    pub epoch: Option<u64>,
    /// What is written.
    pub ops: Vec<Op>,
}

/// The proof that a worker still holds the task it writes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task_id: TaskId,
    /// The node that claimed it.
    pub node: String,
    /// The number of the claim. A claim made later has a higher one, so this one no longer counts.
    /// It counts for as long as there is none, even if its lease is over: nobody else is at it.
    pub claim: u64,
}

/// One thing to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Takes a key that nobody has taken (or whose taking has expired), or fails with
    /// [`Claimed`](super::StoreError::Claimed).
    Claim(ClaimKey),
    /// Adds a task. Fails with [`Conflict`](super::StoreError::Conflict) if the id is taken.
    CreateTask(Arc<Task>),
    /// Puts a task in the place of its revision before (`revision - 1`). Fails with
    /// [`Conflict`](super::StoreError::Conflict) if that is not the one stored.
    UpdateTask(Arc<Task>),
    /// Notes in which thread a task was asked for, and by whom. A task has one such note: a second one
    /// fails with [`Conflict`](super::StoreError::Conflict).
    NoteQuestion {
        /// The task.
        task_id: TaskId,
        /// Where, and by whom.
        asking: Box<Asking>,
    },
    /// Adds a message to a task. A place that is taken fails with
    /// [`Conflict`](super::StoreError::Conflict).
    AddMessage {
        /// The task.
        task_id: TaskId,
        /// Its place, counted from zero.
        index: u32,
        /// The message.
        message: Packed<Message>,
    },
    /// Puts a message in the place of the one that is there. Where there is none, it fails with
    /// [`Conflict`](super::StoreError::Conflict).
    ReplaceMessage {
        /// The task.
        task_id: TaskId,
        /// Its place, counted from zero.
        index: u32,
        /// The message.
        message: Packed<Message>,
    },
    /// Adds an artifact to a task, or puts it in the place of the one with its id.
    PutArtifact {
        /// The task.
        task_id: TaskId,
        /// Its id.
        artifact_id: ArtifactId,
        /// The artifact, whole.
        artifact: Packed<Artifact>,
    },
    /// Keeps a blob, unless it is kept already, and notes that a subject needs it.
    PutBlob {
        /// Who needs it.
        subject: Subject,
        /// The blob.
        blob: Blob,
    },
    /// Adds a stream. Fails with [`Conflict`](super::StoreError::Conflict) if the id is taken.
    CreateStream(Box<Stream>),
    /// As [`Op::UpdateTask`], for streams.
    UpdateStream(Box<Stream>),
    /// Adds an event to a log. Its number is decided by whoever holds the subject's revision; a
    /// number that is taken fails with [`Conflict`](super::StoreError::Conflict).
    AppendEvent(EventRow),
    /// Puts a task into the queue behind those of its owner and priority, or back there with no lease and no
    /// attempts, so that it is claimed when its [turn](crate::next_turn) comes. Claims made before no longer count. Fails with
    /// [`Conflict`](super::StoreError::Conflict) if there is no such task.
    QueueWork {
        /// The task.
        task_id: TaskId,
        /// Who is to do it.
        agent: AgentId,
        /// Whose it is: owners take turns.
        owner: WorkOwner,
        /// How soon.
        priority: Priority,
        /// Not before this moment.
        due_at: Timestamp,
    },
    /// Takes a task out of the queue, whoever has it. Claims made before no longer count.
    EndWork(TaskId),
    /// Adds an entry to the outbox, unless its channel has one with its key, settled or not. An id
    /// that another entry has fails with [`Conflict`](super::StoreError::Conflict).
    Enqueue(Box<OutboxEntry>),
    /// Adds a push subscription, or puts it in the place of the one with its id.
    PutPush(Box<Push>),
    /// Removes a push subscription, if it is there.
    RemovePush {
        /// The task.
        task_id: TaskId,
        /// The subscription.
        id: SubscriptionId,
    },
    /// Adds a subscription, and raises the epoch. Fails with
    /// [`Conflict`](super::StoreError::Conflict) if the id is taken.
    CreateSubscription(Box<Subscription>),
    /// Puts a subscription in the place of its revision before, and raises the epoch. Fails with
    /// [`Conflict`](super::StoreError::Conflict) if that is not the one stored.
    UpdateSubscription(Box<Subscription>),
    /// Removes a subscription and its deliveries, and raises the epoch. If it is not there, nothing
    /// is removed, and the epoch may rise or not.
    RemoveSubscription(SubscriptionId),
    /// Keeps a signal once, and adds a delivery for each of these subscriptions that exists, due at
    /// once, under that subscription's next number. One that is named twice counts once.
    Publish {
        /// The signal.
        signal: Box<Signal>,
        /// For whom.
        to: Vec<SubscriptionId>,
    },
}

/// A key to take, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimKey {
    /// The key.
    pub key: String,
    /// What to tell those who come later.
    pub value: String,
    /// When it may be taken again.
    pub expires_at: Timestamp,
}

/// An event to write.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Whose log.
    pub subject: Subject,
    /// Its number there.
    pub seq: u64,
    /// What happened; when is the commit's moment.
    pub body: EventBody,
}
