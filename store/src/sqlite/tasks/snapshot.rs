//! Reads a snapshot of a task: the task with its messages and artifacts.

use super::{read_task_row, task_columns};
use crate::codec::{from_json_text, int_from_column, int_to_column};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::inline_rows::split_records;
use crate::sqlite::rows::{all, first, optional_text, text};
use interzone_hub::{Offloaded, SnapshotRendering, Task, TaskSnapshot};
use interzone_protocol::vocab::{Artifact, Message, Part, TaskId};
use rusqlite::{Connection, Row, params};
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
    let sql = concat!(
        "SELECT ",
        task_columns!(),
        ", first_messages FROM tasks WHERE id = ?1"
    );
    let mut budget = TextBudget::new(request.max_bytes);
    let found = first(&snapshot, sql, [id.as_str()], |row| {
        Ok((
            read_task_row(row)?,
            read_inlined_messages(row, &mut budget)?,
        ))
    })?;
    let Some((task, mut messages)) = found else {
        return Ok(None);
    };
    let is_small = task.message_count <= FULL_READ_LIMIT && task.artifact_count <= FULL_READ_LIMIT;
    let from = task.message_count.saturating_sub(request.latest);
    let range = if is_small { 0 } else { from }..task.message_count;
    add_stored_messages(&snapshot, id, range, &mut messages, &mut budget)?;
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

/// Reads a range of messages.
pub(super) fn read_messages(
    connection: &Connection,
    id: &TaskId,
    range: Range<u32>,
) -> SqliteResult<Vec<Offloaded<Message>>> {
    let snapshot = connection.unchecked_transaction()?;
    let sql = "SELECT first_messages FROM tasks WHERE id = ?1";
    let found = first(&snapshot, sql, [id.as_str()], |row| {
        read_inlined_messages(row, &mut TextBudget::unbounded())
    })?;
    let mut messages = found.unwrap_or_default();
    add_stored_messages(
        &snapshot,
        id,
        range,
        &mut messages,
        &mut TextBudget::unbounded(),
    )?;
    snapshot.finish()?;
    Ok(messages)
}

/// Reads the messages inlined into the task row; counts their bytes.
fn read_inlined_messages(
    row: &Row<'_>,
    budget: &mut TextBudget,
) -> SqliteResult<Vec<Offloaded<Message>>> {
    let bodies = optional_text(row, row.as_ref().column_index("first_messages")?)?;
    let bodies = split_records(bodies).filter_map(|body| decode_message(body, budget).transpose());
    bodies.collect()
}

/// Keeps the inlined messages that were requested, and adds those that have rows of their own; counts
/// their bytes.
fn add_stored_messages(
    connection: &Connection,
    id: &TaskId,
    range: Range<u32>,
    messages: &mut Vec<Offloaded<Message>>,
    budget: &mut TextBudget,
) -> SqliteResult<()> {
    let first: u32 = int_from_column("message", int_to_column(messages.len() as u64))?;
    let mut index = 0..first;
    messages.retain(|_| index.next().is_some_and(|place| range.contains(&place)));
    let stored = range.start.max(first)..range.end;
    if stored.is_empty() {
        return Ok(());
    }
    let sql = "SELECT body FROM messages \
        WHERE task_id = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx";
    let values = params![id.as_str(), stored.start, stored.end];
    let read = all(connection, sql, values, |row| {
        decode_message(text(row, 0)?, budget)
    })?;
    messages.extend(read.into_iter().flatten());
    Ok(())
}

/// Decodes a message, unless the budget is exceeded.
fn decode_message(body: &str, budget: &mut TextBudget) -> SqliteResult<Option<Offloaded<Message>>> {
    Ok(match budget.add(body) {
        true => Some(from_json_text("message", body)?),
        false => None,
    })
}

/// Reads all artifacts; counts their bytes.
pub(super) fn read_artifacts(
    connection: &Connection,
    id: &TaskId,
    budget: &mut TextBudget,
) -> SqliteResult<Vec<Offloaded<Artifact>>> {
    let sql = "SELECT body FROM artifacts INDEXED BY sqlite_autoindex_artifacts_1 WHERE task_id = ?1 ORDER BY position";
    let read = all(connection, sql, [id.as_str()], |row| {
        let body = text(row, 0)?;
        Ok(match budget.add(body) {
            true => Some(from_json_text("artifact", body)?),
            false => None,
        })
    })?;
    Ok(read.into_iter().flatten().collect())
}
