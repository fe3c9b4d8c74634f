//! A task with what hangs on it, read at one moment.

use super::{read_task, task_columns};
use crate::codec::{column, count, from_text};
use crate::sqlite::fault::Outcome;
use crate::sqlite::first::parts;
use crate::sqlite::rows::{all, first, optional_text, text};
use interzone_hub::{Packed, Task, WholeTask, Written};
use interzone_protocol::vocab::{Artifact, Message, Part, TaskId};
use rusqlite::{Connection, Row, params};
use std::ops::Range;

/// The most messages and artifacts of a task that is read whole whatever is asked of it.
const SMALL: u32 = 64;
/// What a task takes in memory besides its texts, and what each message or artifact does.
const HEAD: usize = 1024;
const PART: usize = 512;

/// What was read of a task.
pub(super) struct Read {
    pub(super) task: WholeTask,
    /// About how many bytes it takes, if it is whole and small enough to be kept.
    pub(super) bytes: Option<usize>,
}

/// What is wanted of a task.
pub(super) struct Wanted {
    /// How many of its latest messages.
    pub(super) latest: u32,
    pub(super) artifacts: bool,
    /// The most bytes that their texts may have.
    pub(super) most: usize,
}

/// The length of the texts that were read, and the most that are kept.
pub(super) struct Length {
    bytes: usize,
    most: usize,
}

impl Length {
    const fn new(most: usize) -> Self {
        Self { bytes: 0, most }
    }

    pub(super) const fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    /// Counts a text. Says whether it is kept.
    fn add(&mut self, text: &str) -> bool {
        self.bytes += text.len();
        self.bytes <= self.most
    }
}

/// Reads a task: all of it if it is small, else what is asked for. If that is more than is wanted nothing is kept of
/// it, and its length is answered.
pub(super) fn read(
    connection: &Connection,
    id: &TaskId,
    wanted: &Wanted,
    largest: usize,
) -> Outcome<Option<Result<Read, usize>>> {
    // Several queries see one moment only within a transaction.
    let moment = connection.unchecked_transaction()?;
    let sql = concat!(
        "SELECT ",
        task_columns!(),
        ", first_messages FROM tasks WHERE id = ?1"
    );
    let mut length = Length::new(wanted.most);
    let found = first(&moment, sql, [id.as_str()], |row| {
        Ok((read_task(row)?, first_messages(row, &mut length)?))
    })?;
    let Some((task, mut messages)) = found else {
        return Ok(None);
    };
    let small = task.messages <= SMALL && task.artifacts <= SMALL;
    let from = task.messages.saturating_sub(wanted.latest);
    let range = if small { 0 } else { from }..task.messages;
    add_messages(&moment, id, range, &mut messages, &mut length)?;
    let artifacts = if task.artifacts > 0 && (small || wanted.artifacts) {
        artifacts(&moment, id, &mut length)?
    } else {
        Vec::new()
    };
    moment.finish()?;
    if length.bytes > length.most {
        return Ok(Some(Err(length.bytes)));
    }
    let metadata = task.metadata.as_ref().map_or(0, |data| data.as_str().len());
    let status = task
        .status
        .iter()
        .flat_map(|said| said.without_large().parts());
    let status: usize = status
        .filter_map(Part::content)
        .map(|c| c.as_str().len())
        .sum();
    let texts = length.bytes + metadata + status;
    let parts = messages.len() + artifacts.len() + usize::from(task.status.is_some());
    // Texts are kept by part, with room to spare, and once more if somebody writes the whole down.
    let bytes = HEAD + PART * parts + texts * 5 / 2;
    let whole = WholeTask {
        task,
        messages,
        artifacts,
        written: Written::default(),
    };
    Ok(Some(Ok(Read {
        task: whole,
        bytes: Some(bytes).filter(|bytes| small && *bytes <= largest),
    })))
}

/// A task without what hangs on it.
pub(super) fn head(connection: &Connection, id: &TaskId) -> Outcome<Option<Task>> {
    let sql = concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1");
    first(connection, sql, [id.as_str()], read_task)
}

/// Messages with these places.
pub(super) fn messages(
    connection: &Connection,
    id: &TaskId,
    wanted: Range<u32>,
) -> Outcome<Vec<Packed<Message>>> {
    let moment = connection.unchecked_transaction()?;
    let sql = "SELECT first_messages FROM tasks WHERE id = ?1";
    let found = first(&moment, sql, [id.as_str()], |row| {
        first_messages(row, &mut Length::unbounded())
    })?;
    let mut messages = found.unwrap_or_default();
    add_messages(&moment, id, wanted, &mut messages, &mut Length::unbounded())?;
    moment.finish()?;
    Ok(messages)
}

/// The messages in the task's own row; counts the length of their texts.
fn first_messages(row: &Row<'_>, length: &mut Length) -> Outcome<Vec<Packed<Message>>> {
    let bodies = optional_text(row, row.as_ref().column_index("first_messages")?)?;
    let bodies = parts(bodies).filter_map(|body| a_message(body, length).transpose());
    bodies.collect()
}

/// Of the messages in the task's own row leaves those that are wanted, and adds those that have a row of their own;
/// counts the length of their texts.
fn add_messages(
    connection: &Connection,
    id: &TaskId,
    wanted: Range<u32>,
    messages: &mut Vec<Packed<Message>>,
    length: &mut Length,
) -> Outcome<()> {
    let first: u32 = count("message", column(messages.len() as u64))?;
    let mut place = 0..first;
    messages.retain(|_| place.next().is_some_and(|place| wanted.contains(&place)));
    let rest = wanted.start.max(first)..wanted.end;
    if rest.is_empty() {
        return Ok(());
    }
    let sql = "SELECT body FROM messages \
        WHERE task_id = ?1 AND idx >= ?2 AND idx < ?3 ORDER BY idx";
    let values = params![id.as_str(), rest.start, rest.end];
    let read = all(connection, sql, values, |row| {
        a_message(text(row, 0)?, length)
    })?;
    messages.extend(read.into_iter().flatten());
    Ok(())
}

/// A message, unless the texts have more bytes than are kept.
fn a_message(body: &str, length: &mut Length) -> Outcome<Option<Packed<Message>>> {
    Ok(match length.add(body) {
        true => Some(from_text("message", body)?),
        false => None,
    })
}

/// All artifacts; counts the length of their texts.
pub(super) fn artifacts(
    connection: &Connection,
    id: &TaskId,
    length: &mut Length,
) -> Outcome<Vec<Packed<Artifact>>> {
    let sql = "SELECT body FROM artifacts INDEXED BY sqlite_autoindex_artifacts_1 WHERE task_id = ?1 ORDER BY position";
    let read = all(connection, sql, [id.as_str()], |row| {
        let body = text(row, 0)?;
        Ok(match length.add(body) {
            true => Some(from_text("artifact", body)?),
            false => None,
        })
    })?;
    Ok(read.into_iter().flatten().collect())
}
