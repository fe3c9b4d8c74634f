//! Pairs: that a request was answered, when and how, so that an operator can find it again. What was
//! asked and what was answered have no place here.

use super::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// When it was answered; it came `took` before.
    pub at: Timestamp,
    /// How long it took, kept to the microsecond.
    pub took: Duration,
    /// The request's id as JSON writes it, so that `1` and `"1"` are two; none for a notification.
    pub id: Option<String>,
    /// What was called.
    pub method: String,
    /// Who called: the principal.
    pub who: String,
    /// By which client.
    pub client: String,
    /// The name under which the request is in the logs.
    pub correlation: String,
    /// The task that it was about.
    pub task: Option<TaskId>,
    /// How it went, in a word.
    pub outcome: String,
    /// The error's code, if there was one.
    pub code: Option<i32>,
    /// Where it came from.
    pub address: Option<IpAddr>,
}

impl Pair {
    /// The most bytes that are kept of any of its texts.
    pub const LONGEST: usize = 256;

    /// As much of a text as is kept. What is looked for is cut the same way, so that a long id is found
    /// too.
    pub fn cut(text: &str) -> &str {
        text.get(..text.floor_char_boundary(Self::LONGEST))
            .unwrap_or_default()
    }
}

/// Which pairs to find; those that fit all that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairQuery {
    /// With this id, as JSON writes it.
    pub id: Option<String>,
    /// Under this name.
    pub correlation: Option<String>,
    /// About this task.
    pub task: Option<TaskId>,
    /// Answered at this moment or later.
    pub since: Option<Timestamp>,
    /// At most this many.
    pub limit: usize,
}

/// What was asked and answered.
#[async_trait]
pub trait PairStore: Send + Sync {
    /// Notes pairs, all of them or none.
    async fn note_pairs(&self, pairs: Vec<Pair>) -> Result<(), StoreError>;

    /// Pairs, the newest first; of one moment, the one that was noted last.
    async fn pairs(&self, query: &PairQuery) -> Result<Vec<Pair>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::Pair;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(Pair::cut("short"), "short");
        let long = "é".repeat(200);
        assert_eq!(Pair::cut(&long).len(), 256);
        let odd = format!("x{long}");
        assert_eq!(Pair::cut(&odd).len(), 255);
    }
}
