//! The logs of tasks and streams. Events that a commit adds to one log are one row, for a row and its place in the
//! index cost more than most events.
//!
//! What an event means is not known here.

use super::apply::once;
use super::commit::Step;
use super::fault::Outcome;
use super::first::{self, BETWEEN};
use super::job::Session;
use super::rows::text;
use crate::codec::{column, count, from_text, moment};
use interzone_hub::ports::{EventRow, Op, Wake};
use interzone_hub::{Event, Subject};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, params};

/// The longest row that another event is added to, in bytes, so that whoever wants one event does not read many.
const FULL: usize = 4096;

/// Leaves one step for events that follow each other in one log: the first, with the bodies of all and the number of the
/// last.
pub(super) fn gather(steps: &mut [Step]) {
    let (mut newest, mut maker) = (None, None);
    for place in 0..steps.len() {
        let (before, rest) = steps.split_at_mut(place);
        let Some(step) = rest.first_mut() else { break };
        let event = match &step.op {
            Op::CreateTask(_) => {
                maker = Some(place);
                continue;
            }
            Op::AppendEvent(event) => event,
            _ => continue,
        };
        let maker = maker.and_then(|place: usize| before.get(place));
        step.begins = maker.is_some_and(|maker| makes(maker, &event.subject));
        let last = newest.and_then(|place: usize| before.get_mut(place));
        match last.filter(|last| goes_on(last, event)) {
            Some(last) => last.take_in(step),
            None => newest = Some(place),
        }
    }
}

/// Whether a step makes the task that is this subject.
fn makes(step: &Step, subject: &Subject) -> bool {
    matches!((&step.op, subject), (Op::CreateTask(task), Subject::Task(id)) if task.id == *id)
}

impl Step {
    /// Adds to its events the one that follows them.
    fn take_in(&mut self, next: &mut Self) {
        let bodies = self.text.get_or_insert_default();
        bodies.push(BETWEEN);
        bodies.push_str(&next.text.take().unwrap_or_default());
        std::mem::swap(&mut self.op, &mut next.op);
        self.begins = next.begins;
        next.is_gathered = true;
    }
}

/// Whether an event is the next after these, and they have room for it.
fn goes_on(before: &Step, event: &EventRow) -> bool {
    let room = before.text.as_ref().is_some_and(|text| text.len() < FULL);
    match &before.op {
        Op::AppendEvent(last) => {
            room && last.subject == event.subject && last.seq.checked_add(1) == Some(event.seq)
        }
        _ => false,
    }
}

/// Adds the events of a step.
pub(super) fn append(
    session: &mut Session<'_>,
    at: Timestamp,
    last: &EventRow,
    step: &Step,
) -> Outcome<()> {
    let bodies = step.text.as_deref().unwrap_or_default();
    let (seq, at) = (column(last.seq), at.as_millis());
    if step.begins {
        let sql = "INSERT INTO events (subject, seq, at, body) VALUES (?1, ?2, ?3, ?4)";
        session.run(sql, params![step.subject, seq, at, bodies])?;
    } else {
        once(add(session, step, last, at)?)?;
    }
    if step.wakes {
        let wake = Wake::Subject(last.subject.clone(), last.seq);
        session.wakes.named.push(wake);
    }
    Ok(())
}

/// Adds events to a log that may have some; answers whether it did. No event of another row may have one of their
/// numbers. A log grows at its end, so there is mostly no row to look at.
fn add(session: &Session<'_>, step: &Step, last: &EventRow, at: i64) -> Outcome<usize> {
    let (seq, bodies) = (column(last.seq), step.text.as_deref().unwrap_or_default());
    macro_rules! unless_taken {
        () => {
            "INSERT INTO events (subject, seq, at, body) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS \
             (SELECT 1 FROM events INDEXED BY sqlite_autoindex_events_1 WHERE subject = ?1 AND seq >= ?5 \
              AND seq - (length(body) - length(replace(body, char(30), ''))) <= ?2)"
        };
    }
    let first = seq.saturating_sub(column(others(bodies)));
    match &last.subject {
        Subject::Task(id) if first::may_have_event(count("event", first)?) => {
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

/// The next events of a log.
pub(super) fn read(
    connection: &Connection,
    subject: &Subject,
    after: u64,
    limit: usize,
) -> Outcome<Vec<Event>> {
    let mut page = Page {
        subject,
        after,
        limit,
        events: Vec::new(),
    };
    let Subject::Task(id) = subject else {
        page.read_rows(connection)?;
        return Ok(page.events);
    };
    if !first::may_have_event(after.saturating_add(1)) {
        page.read_rows(connection)?;
        return Ok(page.events);
    }
    // Two queries see one moment only within a transaction.
    let moment = connection.unchecked_transaction()?;
    first::events(&moment, id, |last, at, bodies| page.add(last, at, bodies))?;
    page.read_rows(&moment)?;
    moment.finish()?;
    Ok(page.events)
}

/// Events that are wanted, as they are found.
struct Page<'s> {
    subject: &'s Subject,
    after: u64,
    limit: usize,
    events: Vec<Event>,
}

impl Page<'_> {
    /// Adds those that have a row of their own.
    fn read_rows(&mut self, connection: &Connection) -> Outcome<()> {
        let sql = "SELECT seq, at, body FROM events INDEXED BY sqlite_autoindex_events_1 \
            WHERE subject = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        let values = params![
            self.subject.key(),
            column(self.after),
            column(self.limit as u64)
        ];
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while self.events.len() < self.limit
            && let Some(row) = rows.next()?
        {
            let last: u64 = count("event", row.get(0)?)?;
            self.add(last, row.get(1)?, text(row, 2)?)?;
        }
        Ok(())
    }

    /// Adds those of the bodies that are wanted; `last` is the number of the last.
    fn add(&mut self, last: u64, at: i64, bodies: &str) -> Outcome<()> {
        let first = last.saturating_sub(others(bodies));
        let numbered = (first..).zip(bodies.split(BETWEEN));
        let wanted = numbered.skip_while(|(seq, _)| *seq <= self.after);
        for (seq, body) in wanted.take(self.limit.saturating_sub(self.events.len())) {
            self.events.push(Event {
                subject: self.subject.clone(),
                seq,
                at: moment(at),
                body: from_text("event", body)?,
            });
        }
        Ok(())
    }
}

/// How many bodies stand before the last.
pub(super) fn others(bodies: &str) -> u64 {
    bodies.matches(BETWEEN).count() as u64
}

/// What was removed.
pub(super) struct Removed {
    pub(super) rows: usize,
    pub(super) events: u64,
}

/// Removes the oldest events of a log, at most so many rows of them.
pub(super) fn remove(session: &Session<'_>, subject: &str, most: usize) -> Outcome<Removed> {
    // Row by row: no index can be named for rows that are listed, and a planner that is misled reads all of them.
    let sql = "SELECT row, length(body) - length(replace(body, char(30), '')) + 1 \
        FROM events INDEXED BY sqlite_autoindex_events_1 WHERE subject = ?1 ORDER BY seq LIMIT ?2";
    let first = match Subject::from_key(subject) {
        Some(Subject::Task(id)) if most > 0 => first::remove_events(session, id.as_str())?,
        _ => 0,
    };
    let most = most.saturating_sub(usize::from(first > 0));
    let values = params![subject, column(most as u64)];
    let found: Vec<(i64, u64)> = session.all(sql, values, |row| {
        Ok((row.get(0)?, count("event", row.get(1)?)?))
    })?;
    for (row, _) in &found {
        session.run("DELETE FROM events WHERE row = ?1", [row])?;
    }
    Ok(Removed {
        rows: found.len() + usize::from(first > 0),
        events: found.iter().map(|(_, events)| events).sum::<u64>() + first,
    })
}
