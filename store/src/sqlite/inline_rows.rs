//! Inlines a new task's first messages and events, if they are short, and its queue position into its `tasks` row.
//! Most tasks are created with one of each, and a separate row with its index entries costs more than its content.

use super::commit::PreparedStep;
use super::error::SqliteResult;
use super::events;
use super::rows::{first, optional_text, text};
use super::work_queue::QueuePosition;
use super::write_job::WriteSession;
use crate::codec::int_from_column;
use interzone_hub::Subject;
use interzone_hub::ports::{Op, StoreError};
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, params};

/// Separates the bodies in one column: this character never occurs in JSON, neither in strings nor around them.
pub(super) const RECORD_SEPARATOR: char = '\u{1e}';

/// Maximum inlined bytes per task. The row is rewritten whenever its task changes, and many fit into a page.
const MAX_INLINE_BYTES: usize = 1024;

/// Maximum inlined messages, and events: later ones are never looked up here.
const MAX_INLINE_ROWS: u64 = 16;

/// Rows inlined into the row of a new task.
#[derive(Default)]
pub(super) struct InlinedRows {
    /// Number of inlined messages.
    pub(super) message_count: Option<u32>,
    pub(super) messages: Option<String>,
    /// Number of the last inlined event.
    pub(super) last_seq: Option<u64>,
    pub(super) events: Option<String>,
    /// Queue position.
    pub(super) queue_position: Option<QueuePosition>,
    /// True if a later step changes the queue as well, so further queue steps must run after it.
    has_later_queue_step: bool,
}

/// Moves rows of a task into the step that creates it, and marks their steps as absorbed.
pub(super) fn inline_into_task(steps: &mut [PreparedStep]) {
    let mut creator_index = None;
    for index in 0..steps.len() {
        let (before, remaining) = steps.split_at_mut(index);
        let Some(step) = remaining.first_mut() else {
            break;
        };
        if step.is_absorbed {
            continue;
        }
        if let Op::CreateTask(_) = &step.op {
            creator_index = Some(index);
        } else if let Some(creator) = creator_index.and_then(|place: usize| before.get_mut(place))
            && let Op::CreateTask(task) = &creator.op
        {
            step.is_absorbed = creator.inlined.absorb(&task.id, step);
        }
    }
}

impl InlinedRows {
    /// Absorbs the row that a step would write, if it belongs to this task and fits.
    fn absorb(&mut self, id: &TaskId, step: &mut PreparedStep) -> bool {
        let length = step.text.as_ref().map_or(0, String::len);
        let fits = self.text_bytes() + length <= MAX_INLINE_BYTES;
        match &step.op {
            Op::AddMessage { task_id, index, .. } => {
                let message_count = self.message_count.unwrap_or(0);
                if task_id != id
                    || *index != message_count
                    || u64::from(message_count) >= MAX_INLINE_ROWS
                    || !fits
                {
                    return false;
                }
                let body = step.text.take().unwrap_or_default();
                match &mut self.messages {
                    Some(bodies) => {
                        bodies.push(RECORD_SEPARATOR);
                        bodies.push_str(&body);
                    }
                    None => self.messages = Some(body),
                }
                self.message_count = Some(message_count + 1);
                true
            }
            Op::AppendEvent(last) => {
                if !matches!(&last.subject, Subject::Task(of) if of == id) {
                    return false;
                }
                let bodies = step.text.as_deref().unwrap_or_default();
                let event_count = events::preceding_count(bodies) + 1;
                if self.last_seq.is_some()
                    || last.seq != event_count
                    || event_count > MAX_INLINE_ROWS
                    || !fits
                {
                    // Other events of its log may be inlined, so its numbers are checked before it is inserted.
                    step.starts_log = false;
                    return false;
                }
                self.last_seq = Some(last.seq);
                self.events = step.text.take();
                true
            }
            Op::EnqueueWork {
                task_id,
                agent,
                owner,
                priority,
                due_at,
            } => {
                if task_id != id || self.queue_position.is_some() || self.has_later_queue_step {
                    self.has_later_queue_step = true;
                    return false;
                }
                self.queue_position = Some(QueuePosition {
                    agent: agent.clone(),
                    owner: owner.clone(),
                    priority: *priority,
                    due_at: *due_at,
                });
                true
            }
            Op::DequeueWork(task_id) => {
                self.has_later_queue_step |= task_id == id;
                false
            }
            _ => false,
        }
    }

    pub(super) fn text_bytes(&self) -> usize {
        let texts = [&self.messages, &self.events].into_iter().flatten();
        texts.map(String::len).sum()
    }
}

/// Splits a column into its bodies.
pub(super) fn split_records(column: Option<&str>) -> impl Iterator<Item = &str> {
    column
        .into_iter()
        .flat_map(|all| all.split(RECORD_SEPARATOR))
}

/// Returns true if an event with this number may be inlined.
pub(super) fn may_be_inlined(seq: u64) -> bool {
    seq <= MAX_INLINE_ROWS
}

/// Reads the inlined events of a task: number of the last, timestamp, and bodies.
pub(super) fn read_inlined_events<T>(
    connection: &Connection,
    id: &TaskId,
    read: impl FnOnce(u64, i64, &str) -> SqliteResult<T>,
) -> SqliteResult<Option<T>> {
    let sql = "SELECT first_seq, first_at, first_events FROM tasks \
        WHERE id = ?1 AND first_seq IS NOT NULL";
    first(connection, sql, [id.as_str()], |row| {
        read(
            int_from_column("event", row.get(0)?)?,
            row.get(1)?,
            text(row, 2)?,
        )
    })
}

/// Replaces an inlined message. A missing message is a conflict.
pub(super) fn replace_inlined_message(
    session: &WriteSession<'_>,
    id: &TaskId,
    index: u32,
    body: &str,
) -> SqliteResult<()> {
    let sql = "SELECT first_messages FROM tasks WHERE id = ?1";
    let replaced = session.first(sql, [id.as_str()], |row| {
        let mut bodies: Vec<&str> = split_records(optional_text(row, 0)?).collect();
        let slot = usize::try_from(index).ok();
        let Some(slot) = slot.and_then(|place| bodies.get_mut(place)) else {
            return Ok(None);
        };
        *slot = body;
        Ok(Some(bodies.join(RECORD_SEPARATOR.encode_utf8(&mut [0; 4]))))
    })?;
    let Some(bodies) = replaced.flatten() else {
        return Err(StoreError::Conflict.into());
    };
    let sql = "UPDATE tasks SET first_messages = ?2 WHERE id = ?1";
    session.run(sql, params![id.as_str(), bodies])?;
    Ok(())
}

/// Removes the inlined events of a task; returns how many there were.
pub(super) fn remove_inlined_events(session: &WriteSession<'_>, id: &str) -> SqliteResult<u64> {
    let sql = "SELECT first_seq FROM tasks WHERE id = ?1 AND first_seq IS NOT NULL";
    let seq = session.first(sql, [id], |row| Ok(int_from_column("event", row.get(0)?)?))?;
    if seq.is_some() {
        let sql = "UPDATE tasks SET first_seq = NULL, first_at = NULL, first_events = NULL \
            WHERE id = ?1";
        session.run(sql, [id])?;
    }
    Ok(seq.unwrap_or(0))
}
