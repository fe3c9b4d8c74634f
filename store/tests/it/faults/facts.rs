//! Facts that a writer reports as acknowledged, as values and as lines.

use std::fmt;

/// Result of one store call: acknowledged or rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fact {
    /// A task has at least this revision, with all that belongs to it.
    Wrote { task: String, revision: u64 },
    /// An outbox entry was delivered.
    Delivered { key: String },
    /// A signal was acknowledged.
    Acked { signal: String },
    /// Work was claimed, under this number.
    Claimed { task: String, claim: u64 },
    /// Work was dequeued.
    Ended { task: String },
    /// A write was rejected temporarily, for this reason.
    Refused { why: String },
    /// An invariant is violated.
    Broken { how: String },
    /// The writer ended by itself.
    Done,
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |text: &str| text.replace('\n', " ");
        match self {
            Self::Wrote { task, revision } => write!(f, "wrote {revision} {task}"),
            Self::Delivered { key } => write!(f, "delivered {key}"),
            Self::Acked { signal } => write!(f, "acked {signal}"),
            Self::Claimed { task, claim } => write!(f, "claimed {claim} {task}"),
            Self::Ended { task } => write!(f, "ended {task}"),
            Self::Refused { why } => write!(f, "refused {}", one_line(why)),
            Self::Broken { how } => write!(f, "broken {}", one_line(how)),
            Self::Done => write!(f, "done"),
        }
    }
}
