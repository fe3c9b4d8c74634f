//! The `zone` dialect: what its methods do with the hub, and how its objects are made of the hub's.

mod came;
mod convert;
mod files;
pub(crate) mod handlers;
mod live;
pub(super) mod params;
mod wait;

pub(crate) use convert::asking_person;
pub(super) use convert::id_text;
pub(crate) use live::{Live, Said};

use super::content::Large;
use interzone_protocol::acp::AgentCard;
use interzone_protocol::zone::{CancelResult, ExecuteResult, FeedbackResult, TaskResult};
use serde::{Serialize, Serializer};

/// What a call answers.
pub(crate) struct Answer {
    told: Told,
    /// What is too large to be written into it.
    pub(super) large: Vec<Large>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Told {
    Execute(Box<ExecuteResult>),
    Task(Box<TaskResult>),
    Cancel(CancelResult),
    Feedback(FeedbackResult),
    Card(Box<AgentCard>),
}

impl Answer {
    fn new(told: Told) -> Self {
        Self {
            told,
            large: Vec::new(),
        }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.told.serialize(serializer)
    }
}
