//! The `zone` dialect: handlers, and conversion between its objects and the hub's.

mod convert;
pub(crate) mod handlers;
mod outcome;
pub(super) mod params;
mod reply_files;
mod stream;
mod waiter;

pub(super) use convert::loggable_id;
pub(crate) use convert::task_person;
pub(crate) use stream::{ExecuteStream, StreamItem};

use super::body::SplicedText;
use interzone_protocol::acp::AgentCard;
use interzone_protocol::zone::{CancelResult, ExecuteResult, FeedbackResult, TaskResult};
use serde::{Serialize, Serializer};

/// Reply of a zone call.
pub(crate) struct ZoneReply {
    result: ZoneResult,
    /// Texts that are spliced in when the body is sent.
    pub(super) spliced: Vec<SplicedText>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ZoneResult {
    Execute(Box<ExecuteResult>),
    Task(Box<TaskResult>),
    Cancel(CancelResult),
    Feedback(FeedbackResult),
    Card(Box<AgentCard>),
}

impl ZoneReply {
    fn new(result: ZoneResult) -> Self {
        Self {
            result,
            spliced: Vec::new(),
        }
    }
}

impl Serialize for ZoneReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.result.serialize(serializer)
    }
}
