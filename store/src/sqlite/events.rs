//! Event logs of tasks and streams. Consecutive events of one commit share a row, because a row and its index
//! entry cost more than most events.

use super::apply::require_changed;
use super::commit::PreparedStep;
use super::error::SqliteResult;
use super::inline_rows::{self, RECORD_SEPARATOR};
use super::rows::text;
use super::write_job::WriteSession;
use crate::codec::{from_json_text, int_from_column, int_to_column, timestamp_from_column};
use interzone_hub::ports::{ChangeHint, EventRow, Op};
use interzone_hub::{Event, Subject};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, params};

/// Maximum size of a row that another event is appended to, in bytes, so that reading one event does not read many.
const MAX_ROW_BYTES: usize = 4096;

/// Coalesces consecutive events of one log into one step: the first, with the bodies of all and the number of the
/// last.
pub(super) fn coalesce(steps: &mut [PreparedStep]) {
    let (mut newest_index, mut creator_index) = (None, None);
    for index in 0..steps.len() {
        let (before, remaining) = steps.split_at_mut(index);
        let Some(step) = remaining.first_mut() else {
            break;
        };
        let event = match &step.op {
            Op::CreateTask(_) => {
                creator_index = Some(index);
                continue;
            }
            Op::AppendEvent(event) => event,
            _ => continue,
        };
        let creator = creator_index.and_then(|place: usize| before.get(place));
        step.starts_log = creator.is_some_and(|maker| creates_subject(maker, &event.subject));
        let last = newest_index.and_then(|place: usize| before.get_mut(place));
        match last.filter(|last| is_next_event(last, event)) {
            Some(last) => last.append_event(step),
            None => newest_index = Some(index),
        }
    }
}

/// Returns true if a step creates the task of this subject.
fn creates_subject(step: &PreparedStep, subject: &Subject) -> bool {
    matches!((&step.op, subject), (Op::CreateTask(task), Subject::Task(id)) if task.id == *id)
}

impl PreparedStep {
    /// Appends the event that follows.
    fn append_event(&mut self, next: &mut Self) {
        let bodies = self.text.get_or_insert_default();
        bodies.push(RECORD_SEPARATOR);
        bodies.push_str(&next.text.take().unwrap_or_default());
        std::mem::swap(&mut self.op, &mut next.op);
        self.starts_log = next.starts_log;
        next.is_absorbed = true;
    }
}

/// Returns true if an event is the next one of the same log and fits into the row.
fn is_next_event(before: &PreparedStep, event: &EventRow) -> bool {
    let has_space = before
        .text
        .as_ref()
        .is_some_and(|text| text.len() < MAX_ROW_BYTES);
    match &before.op {
        Op::AppendEvent(last) => {
            has_space && last.subject == event.subject && last.seq.checked_add(1) == Some(event.seq)
        }
        _ => false,
    }
}

/// Writes the events of a step.
pub(super) fn append(
    session: &mut WriteSession<'_>,
    at: Timestamp,
    last: &EventRow,
    step: &PreparedStep,
) -> SqliteResult<()> {
    let bodies = step.text.as_deref().unwrap_or_default();
    let (seq, at) = (int_to_column(last.seq), at.as_millis());
    if step.starts_log {
        let sql = "INSERT INTO events (subject, seq, at, body) VALUES (?1, ?2, ?3, ?4)";
        session.run(sql, params![step.subject, seq, at, bodies])?;
    } else {
        require_changed(insert_if_free(session, step, last, at)?)?;
    }
    if step.notifies {
        let hint = ChangeHint::Subject(last.subject.clone(), last.seq);
        session.hints.specific.push(hint);
    }
    Ok(())
}

/// Inserts events into a log that may have some; returns the number of inserted rows. No event of another row may have
/// one of their numbers. A log grows at its end, so usually no row has to be compared.
fn insert_if_free(
    session: &WriteSession<'_>,
    step: &PreparedStep,
    last: &EventRow,
    at: i64,
) -> SqliteResult<usize> {
    let (seq, bodies) = (
        int_to_column(last.seq),
        step.text.as_deref().unwrap_or_default(),
    );
    macro_rules! unless_taken {
        () => {
            "INSERT INTO events (subject, seq, at, body) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS \
             (SELECT 1 FROM events INDEXED BY sqlite_autoindex_events_1 WHERE subject = ?1 AND seq >= ?5 \
              AND seq - (length(body) - length(replace(body, char(30), ''))) <= ?2)"
        };
    }
    let first = seq.saturating_sub(int_to_column(preceding_count(bodies)));
    match &last.subject {
        Subject::Task(id) if inline_rows::may_be_inlined(int_from_column("event", first)?) => {
            let sql = concat!(
                unless_taken!(),
                " AND NOT EXISTS (SELECT 1 FROM tasks WHERE id = ?6 AND first_seq >= ?5)"
            );
            session.run(
                sql,
                params![step.subject, seq, at, bodies, first, id.as_str()],
            )
        }
        _ => session.run(
            unless_taken!(),
            params![step.subject, seq, at, bodies, first],
        ),
    }
}

/// Reads the next events of a log.
pub(super) fn read(
    connection: &Connection,
    subject: &Subject,
    after: u64,
    limit: usize,
) -> SqliteResult<Vec<Event>> {
    let mut page = EventPage {
        subject,
        after,
        limit,
        events: Vec::new(),
    };
    let Subject::Task(id) = subject else {
        page.read_rows(connection)?;
        return Ok(page.events);
    };
    if !inline_rows::may_be_inlined(after.saturating_add(1)) {
        page.read_rows(connection)?;
        return Ok(page.events);
    }
    // Two queries read one snapshot only within a transaction.
    let snapshot = connection.unchecked_transaction()?;
    inline_rows::read_inlined_events(&snapshot, id, |last, at, bodies| page.add(last, at, bodies))?;
    page.read_rows(&snapshot)?;
    snapshot.finish()?;
    Ok(page.events)
}

/// A page of events while it is being read.
struct EventPage<'s> {
    subject: &'s Subject,
    after: u64,
    limit: usize,
    events: Vec<Event>,
}

impl EventPage<'_> {
    /// Adds events that have rows of their own.
    fn read_rows(&mut self, connection: &Connection) -> SqliteResult<()> {
        let sql = "SELECT seq, at, body FROM events INDEXED BY sqlite_autoindex_events_1 \
            WHERE subject = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        let values = params![
            self.subject.key(),
            int_to_column(self.after),
            int_to_column(self.limit as u64)
        ];
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while self.events.len() < self.limit
            && let Some(row) = rows.next()?
        {
            let last: u64 = int_from_column("event", row.get(0)?)?;
            self.add(last, row.get(1)?, text(row, 2)?)?;
        }
        Ok(())
    }

    /// Adds the requested ones of these bodies; `last` is the number of the last.
    fn add(&mut self, last: u64, at: i64, bodies: &str) -> SqliteResult<()> {
        let first = last.saturating_sub(preceding_count(bodies));
        let numbered = (first..).zip(bodies.split(RECORD_SEPARATOR));
        let requested = numbered.skip_while(|(seq, _)| *seq <= self.after);
        for (seq, body) in requested.take(self.limit.saturating_sub(self.events.len())) {
            self.events.push(Event {
                subject: self.subject.clone(),
                seq,
                at: timestamp_from_column(at),
                body: from_json_text("event", body)?,
            });
        }
        Ok(())
    }
}

/// Number of bodies before the last one.
pub(super) fn preceding_count(bodies: &str) -> u64 {
    bodies.matches(RECORD_SEPARATOR).count() as u64
}

/// Counts of removed rows and events.
pub(super) struct RemovedEvents {
    pub(super) rows: usize,
    pub(super) events: u64,
}

/// Removes the oldest events of a log, at most `most` rows of them.
pub(super) fn remove(
    session: &WriteSession<'_>,
    subject: &str,
    max_rows: usize,
) -> SqliteResult<RemovedEvents> {
    // Row by row: no index can be named for a list of rows, and a misled planner would scan the table.
    let sql = "SELECT row, length(body) - length(replace(body, char(30), '')) + 1 \
        FROM events INDEXED BY sqlite_autoindex_events_1 WHERE subject = ?1 ORDER BY seq LIMIT ?2";
    let inlined = match Subject::from_key(subject) {
        Some(Subject::Task(id)) if max_rows > 0 => {
            inline_rows::remove_inlined_events(session, id.as_str())?
        }
        _ => 0,
    };
    let max_rows = max_rows.saturating_sub(usize::from(inlined > 0));
    let values = params![subject, int_to_column(max_rows as u64)];
    let found: Vec<(i64, u64)> = session.all(sql, values, |row| {
        Ok((row.get(0)?, int_from_column("event", row.get(1)?)?))
    })?;
    for (row, _) in &found {
        session.run("DELETE FROM events WHERE row = ?1", [row])?;
    }
    Ok(RemovedEvents {
        rows: found.len() + usize::from(inlined > 0),
        events: found.iter().map(|(_, events)| events).sum::<u64>() + inlined,
    })
}
