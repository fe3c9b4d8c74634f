//! Reads a snapshot of a task: the task with its messages and artifacts.

use super::{read_task_row, task_columns};
use crate::codec::from_json_text;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::rows::{all, first, text};
use interzone_hub::{Offloaded, SnapshotRendering, Task, TaskSnapshot};
use interzone_protocol::vocab::{Artifact, Message, Part, TaskId};
use rusqlite::{Connection, Params, params};
use serde::de::DeserializeOwned;
use std::ops::Range;

/// Tasks with at most this many messages and artifacts are always read completely.
const FULL_READ_LIMIT: u32 = 64;
/// Memory of a task besides its texts, and of each message or artifact.
const TASK_OVERHEAD_BYTES: usize = 1024;
const PART_OVERHEAD_BYTES: usize = 512;

/// A task that was read.
pub(super) struct SnapshotRead {
    pub(super) task: TaskSnapshot,
    /// Estimated memory in bytes, if it is complete and small enough to be cached.
    pub(super) bytes: Option<usize>,
}

/// Requested parts of a task.
pub(super) struct SnapshotRequest {
    /// Number of latest messages.
    pub(super) latest: u32,
    pub(super) artifacts: bool,
    /// Maximum total bytes of the texts.
    pub(super) max_bytes: usize,
}

/// Counts the bytes of texts read, up to a maximum.
pub(super) struct TextBudget {
    bytes: usize,
    max_bytes: usize,
}

impl TextBudget {
    const fn new(max_bytes: usize) -> Self {
        Self {
            bytes: 0,
            max_bytes,
        }
    }

    pub(super) const fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    /// Counts a text. Returns true if it fits.
    fn add(&mut self, text: &str) -> bool {
        self.bytes += text.len();
        self.bytes <= self.max_bytes
    }
}

/// Reads a task: all of it if it is small, else what was requested. If that exceeds the maximum, its size is
/// returned instead.
pub(super) fn read_snapshot(
    connection: &Connection,
    id: &TaskId,
    request: &SnapshotRequest,
    max_cached_bytes: usize,
) -> SqliteResult<Option<Result<SnapshotRead, usize>>> {
    // Several queries read one snapshot only within a transaction.
    let snapshot = connection.unchecked_transaction()?;
    let Some(task) = load_task(&snapshot, id)? else {
        return Ok(None);
    };
    let mut budget = TextBudget::new(request.max_bytes);
    let is_small = task.message_count <= FULL_READ_LIMIT && task.artifact_count <= FULL_READ_LIMIT;
    let from = task.message_count.saturating_sub(request.latest);
    let range = if is_small { 0 } else { from }..task.message_count;
    let messages = read_messages(&snapshot, id, range, &mut budget)?;
    let artifacts = if task.artifact_count > 0 && (is_small || request.artifacts) {
        read_artifacts(&snapshot, id, &mut budget)?
    } else {
        Vec::new()
    };
    snapshot.finish()?;
    if budget.bytes > budget.max_bytes {
        return Ok(Some(Err(budget.bytes)));
    }
    let metadata = task.metadata.as_ref().map_or(0, |data| data.as_str().len());
    let status = task
        .status_message
        .iter()
        .flat_map(|message| message.inline().parts());
    let status: usize = status
        .filter_map(Part::content)
        .map(|c| c.as_str().len())
        .sum();
    let texts = budget.bytes + metadata + status;
    let parts = messages.len() + artifacts.len() + usize::from(task.status_message.is_some());
    // Texts are held per part, with spare capacity, and once more if the snapshot is rendered.
    let bytes = TASK_OVERHEAD_BYTES + PART_OVERHEAD_BYTES * parts + texts * 5 / 2;
    let task_snapshot = TaskSnapshot {
        task,
        messages,
        artifacts,
        rendering: SnapshotRendering::default(),
    };
    Ok(Some(Ok(SnapshotRead {
        task: task_snapshot,
        bytes: Some(bytes).filter(|bytes| is_small && *bytes <= max_cached_bytes),
    })))
}

/// Loads a task without messages and artifacts.
pub(super) fn load_task(connection: &Connection, id: &TaskId) -> SqliteResult<Option<Task>> {
    let sql = concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1");
    first(connection, sql, [id.as_str()], read_task_row)
}

/// Reads a range of messages; counts their bytes.
pub(super) fn read_messages(
    connection: &Connection,
    id: &TaskId,
    range: Range<u32>,
    budget: &mut TextBudget,
) -> SqliteResult<Vec<Offloaded<Message>>> {
    let sql = "SELECT body FROM messages \
        WHERE task_id = ?1 AND position >= ?2 AND position < ?3 ORDER BY position";
    let values = params![id.as_str(), range.start, range.end];
    read_bodies(connection, sql, values, "message", budget)
}

/// Reads all artifacts; counts their bytes.
pub(super) fn read_artifacts(
    connection: &Connection,
    id: &TaskId,
    budget: &mut TextBudget,
) -> SqliteResult<Vec<Offloaded<Artifact>>> {
    let sql = "SELECT body FROM artifacts INDEXED BY sqlite_autoindex_artifacts_1 \
        WHERE task_id = ?1 ORDER BY number";
    read_bodies(connection, sql, params![id.as_str()], "artifact", budget)
}

/// Decodes the bodies that a query selects, until the budget is exceeded; counts all their bytes.
fn read_bodies<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    what: &str,
    budget: &mut TextBudget,
) -> SqliteResult<Vec<T>> {
    let read = all(connection, sql, values, |row| {
        let body = text(row, 0)?;
        Ok(match budget.add(body) {
            true => Some(from_json_text(what, body)?),
            false => None,
        })
    })?;
    Ok(read.into_iter().flatten().collect())
}
