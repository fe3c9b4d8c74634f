//! List rows as JSON for the page's script; without message content.

use super::counts::OverviewCounts;
use crate::console::client_names::ClientNames;
use crate::console::format::{state_label, state_tone, stream_label, stream_tone};
use interzone_hub::{Stream, Task};
use interzone_protocol::vocab::StreamState;
use serde::Serialize;

/// A list row for the page's script.
#[derive(Debug, Serialize)]
pub(super) struct LiveRow<'r> {
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

/// Content of one live update.
#[derive(Serialize)]
pub(super) struct LiveChanges<'c> {
    pub(super) tasks: Vec<LiveRow<'c>>,
    pub(super) streams: Vec<LiveRow<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counts: Option<OverviewCounts>,
    /// True if more has changed than is listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
}

impl<'c> LiveChanges<'c> {
    pub(super) fn new(names: &ClientNames, tasks: &'c [Task], streams: &'c [Stream]) -> Self {
        Self {
            tasks: tasks.iter().map(|task| task_row(names, task)).collect(),
            streams: streams
                .iter()
                .map(|stream| stream_row(names, stream))
                .collect(),
            counts: None,
            more: false,
        }
    }
}

fn task_row<'r>(names: &ClientNames, task: &'r Task) -> LiveRow<'r> {
    LiveRow {
        id: task.id.as_str(),
        state: state_label(task.state),
        tone: state_tone(task.state),
        live: !task.state.is_terminal(),
        agent: task.agent.as_str(),
        owner: names.display_name(task.owner.as_str()),
        owner_id: task.owner.as_str(),
        created: task.created_at.to_string(),
        updated: task.updated_at.to_string(),
    }
}

fn stream_row<'r>(names: &ClientNames, stream: &'r Stream) -> LiveRow<'r> {
    LiveRow {
        id: stream.id.as_str(),
        state: stream_label(stream.state),
        tone: stream_tone(stream.state),
        live: stream.state != StreamState::Closed,
        agent: "",
        owner: names.display_name(stream.owner.as_str()),
        owner_id: stream.owner.as_str(),
        created: stream.created_at.to_string(),
        updated: stream.updated_at.to_string(),
    }
}
