//! Rows as the pages' script fills them in. They say what a list says, and nothing of what was said.

use super::counts::Counts;
use crate::console::names::Names;
use crate::console::words::{called, stream_called, stream_tone, tone};
use interzone_hub::{Stream, Task};
use interzone_protocol::vocab::StreamState;
use serde::Serialize;

/// A row of a list, as the page's script needs it.
#[derive(Debug, Serialize)]
pub(super) struct Row<'r> {
    id: &'r str,
    state: &'static str,
    tone: &'static str,
    live: bool,
    agent: &'r str,
    owner: String,
    owner_id: &'r str,
    created: String,
    updated: String,
}

/// What is told of a moment.
#[derive(Serialize)]
pub(super) struct Changes<'c> {
    pub(super) tasks: Vec<Row<'c>>,
    pub(super) streams: Vec<Row<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counts: Option<Counts>,
    /// Whether more has changed than is told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
}

impl<'c> Changes<'c> {
    pub(super) fn of(names: &Names, tasks: &'c [Task], streams: &'c [Stream]) -> Self {
        Self {
            tasks: tasks.iter().map(|one| task_row(names, one)).collect(),
            streams: streams.iter().map(|one| stream_row(names, one)).collect(),
            counts: None,
            more: false,
        }
    }
}

fn task_row<'r>(names: &Names, task: &'r Task) -> Row<'r> {
    Row {
        id: task.id.as_str(),
        state: called(task.state),
        tone: tone(task.state),
        live: !task.state.is_terminal(),
        agent: task.agent.as_str(),
        owner: names.called(task.owner.as_str()),
        owner_id: task.owner.as_str(),
        created: task.created_at.to_string(),
        updated: task.updated_at.to_string(),
    }
}

fn stream_row<'r>(names: &Names, stream: &'r Stream) -> Row<'r> {
    Row {
        id: stream.id.as_str(),
        state: stream_called(stream.state),
        tone: stream_tone(stream.state),
        live: stream.state != StreamState::Closed,
        agent: "",
        owner: names.called(stream.owner.as_str()),
        owner_id: stream.owner.as_str(),
        created: stream.created_at.to_string(),
        updated: stream.updated_at.to_string(),
    }
}
