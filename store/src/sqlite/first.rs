//! What a task is made with: its first messages and events stand in the task's own row, if they are short, and so does
//! its place in the queue. Most tasks are made with one of each, and a row elsewhere, with its places in indexes, costs
//! more than what it says.
//!
//! What a message or an event means is not known here.

use super::commit::Step;
use super::events;
use super::fault::Outcome;
use super::job::Session;
use super::rows::{first, optional_text, text};
use super::work::Place;
use crate::codec::count;
use interzone_hub::Subject;
use interzone_hub::ports::{Op, StoreError};
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, params};

/// What stands between the bodies of one column: no JSON has it, neither in its strings nor around them.
pub(super) const BETWEEN: char = '\u{1e}';

/// The most bytes of them in a task's row. A row is written anew whenever its task changes, and many fit into a page.
const ROOM: usize = 1024;

/// The most messages, and the most events: whoever asks for a later one need not look here.
const MOST: u64 = 16;

/// What goes into the row of a task that is made.
#[derive(Default)]
pub(super) struct First {
    /// How many there are.
    pub(super) said: Option<u32>,
    pub(super) messages: Option<String>,
    /// The number of the last.
    pub(super) seq: Option<u64>,
    pub(super) events: Option<String>,
    /// Its place in the queue.
    pub(super) place: Option<Place>,
    /// Whether something else was said of the queue since, which must come before what follows.
    place_is_later: bool,
}

/// Leaves no step for what goes into the row of a task that is made before it.
pub(super) fn gather(steps: &mut [Step]) {
    let mut maker = None;
    for place in 0..steps.len() {
        let (before, rest) = steps.split_at_mut(place);
        let Some(step) = rest.first_mut() else { break };
        if step.is_gathered {
            continue;
        }
        if let Op::CreateTask(_) = &step.op {
            maker = Some(place);
        } else if let Some(maker) = maker.and_then(|place: usize| before.get_mut(place))
            && let Op::CreateTask(task) = &maker.op
        {
            step.is_gathered = maker.first.takes(&task.id, step);
        }
    }
}

impl First {
    /// Takes what a step would write, if it belongs here.
    fn takes(&mut self, id: &TaskId, step: &mut Step) -> bool {
        let length = step.text.as_ref().map_or(0, String::len);
        let fits = self.weight() + length <= ROOM;
        match &step.op {
            Op::AddMessage { task_id, index, .. } => {
                let said = self.said.unwrap_or(0);
                if task_id != id || *index != said || u64::from(said) >= MOST || !fits {
                    return false;
                }
                let body = step.text.take().unwrap_or_default();
                match &mut self.messages {
                    Some(bodies) => {
                        bodies.push(BETWEEN);
                        bodies.push_str(&body);
                    }
                    None => self.messages = Some(body),
                }
                self.said = Some(said + 1);
                true
            }
            Op::AppendEvent(last) => {
                if !matches!(&last.subject, Subject::Task(of) if of == id) {
                    return false;
                }
                let bodies = step.text.as_deref().unwrap_or_default();
                let all = events::others(bodies) + 1;
                if self.seq.is_some() || last.seq != all || all > MOST || !fits {
                    // Others of its log may be here, so its numbers are looked up before it is added.
                    step.begins = false;
                    return false;
                }
                self.seq = Some(last.seq);
                self.events = step.text.take();
                true
            }
            Op::QueueWork {
                task_id,
                agent,
                owner,
                priority,
                due_at,
            } => {
                if task_id != id || self.place.is_some() || self.place_is_later {
                    self.place_is_later = true;
                    return false;
                }
                self.place = Some(Place {
                    agent: agent.clone(),
                    owner: owner.clone(),
                    priority: *priority,
                    due_at: *due_at,
                });
                true
            }
            Op::EndWork(task_id) => {
                self.place_is_later |= task_id == id;
                false
            }
            _ => false,
        }
    }

    pub(super) fn weight(&self) -> usize {
        let texts = [&self.messages, &self.events].into_iter().flatten();
        texts.map(String::len).sum()
    }
}

/// The bodies in one column.
pub(super) fn parts(column: Option<&str>) -> impl Iterator<Item = &str> {
    column.into_iter().flat_map(|all| all.split(BETWEEN))
}

/// Whether an event with this number may be in its task's row.
pub(super) fn may_have_event(seq: u64) -> bool {
    seq <= MOST
}

/// The events in the row of a task: the number of the last, when they happened, and their bodies.
pub(super) fn events<T>(
    connection: &Connection,
    id: &TaskId,
    read: impl FnOnce(u64, i64, &str) -> Outcome<T>,
) -> Outcome<Option<T>> {
    let sql = "SELECT first_seq, first_at, first_events FROM tasks \
        WHERE id = ?1 AND first_seq IS NOT NULL";
    first(connection, sql, [id.as_str()], |row| {
        read(count("event", row.get(0)?)?, row.get(1)?, text(row, 2)?)
    })
}

/// Puts a message in the place of one in its task's row. Where there is none, that is a conflict.
pub(super) fn replace_message(
    session: &Session<'_>,
    id: &TaskId,
    index: u32,
    body: &str,
) -> Outcome<()> {
    let sql = "SELECT first_messages FROM tasks WHERE id = ?1";
    let replaced = session.first(sql, [id.as_str()], |row| {
        let mut bodies: Vec<&str> = parts(optional_text(row, 0)?).collect();
        let place = usize::try_from(index).ok();
        let Some(place) = place.and_then(|place| bodies.get_mut(place)) else {
            return Ok(None);
        };
        *place = body;
        Ok(Some(bodies.join(BETWEEN.encode_utf8(&mut [0; 4]))))
    })?;
    let Some(bodies) = replaced.flatten() else {
        return Err(StoreError::Conflict.into());
    };
    let sql = "UPDATE tasks SET first_messages = ?2 WHERE id = ?1";
    session.run(sql, params![id.as_str(), bodies])?;
    Ok(())
}

/// Removes the events in the row of a task; answers how many there were.
pub(super) fn remove_events(session: &Session<'_>, id: &str) -> Outcome<u64> {
    let sql = "SELECT first_seq FROM tasks WHERE id = ?1 AND first_seq IS NOT NULL";
    let seq = session.first(sql, [id], |row| Ok(count("event", row.get(0)?)?))?;
    if seq.is_some() {
        let sql = "UPDATE tasks SET first_seq = NULL, first_at = NULL, first_events = NULL \
            WHERE id = ?1";
        session.run(sql, [id])?;
    }
    Ok(seq.unwrap_or(0))
}
