//! What a writer says was acknowledged, as values and as lines.

use std::fmt;

/// Something that the store answered `Ok` to, or refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fact {
    /// A task stands at this revision at least, with all that belongs to it.
    Wrote { task: String, revision: u64 },
    /// An entry of the outbox arrived.
    Delivered { key: String },
    /// A signal was acknowledged.
    Acked { signal: String },
    /// Work was claimed, under this number.
    Claimed { task: String, claim: u64 },
    /// Work was ended.
    Ended { task: String },
    /// A write was refused for now, for this reason.
    Refused { why: String },
    /// What must never happen has happened.
    Broken { how: String },
    /// It has come to its end by itself.
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
