//! Event logs of tasks and streams: one row per event.

use super::commit::PreparedStep;
use super::error::SqliteResult;
use super::rows::{all, text};
use super::write_job::WriteSession;
use crate::codec::{from_json_text, int_from_column, int_to_column, timestamp_from_column};
use interzone_hub::ports::{ChangeHint, EventRow};
use interzone_hub::{Event, Subject};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, params};

/// Appends an event to its log. A number that is taken is a conflict.
pub(super) fn append(
    session: &mut WriteSession<'_>,
    at: Timestamp,
    event: &EventRow,
    step: &PreparedStep,
) -> SqliteResult<()> {
    let sql = "INSERT INTO events (subject, seq, generation, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![
        step.subject,
        int_to_column(event.seq),
        event.generation.map(int_to_column),
        at.as_millis(),
        step.text
    ];
    session.run(sql, values)?;
    if step.notifies {
        let hint = ChangeHint::Subject(event.subject.clone(), event.seq);
        session.hints.specific.push(hint);
    }
    Ok(())
}

/// Reads the next events of a log.
pub(super) fn read(
    connection: &Connection,
    subject: &Subject,
    after: u64,
    limit: usize,
) -> SqliteResult<Vec<Event>> {
    let sql = "SELECT seq, at, body, generation FROM events INDEXED BY sqlite_autoindex_events_1 \
        WHERE subject = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    let values = params![
        subject.key(),
        int_to_column(after),
        int_to_column(limit as u64)
    ];
    all(connection, sql, values, |row| {
        Ok(Event {
            subject: subject.clone(),
            seq: int_from_column("event", row.get(0)?)?,
            at: timestamp_from_column(row.get(1)?),
            body: from_json_text("event", text(row, 2)?)?,
            generation: row
                .get::<_, Option<i64>>(3)?
                .map(|number| int_from_column("event", number))
                .transpose()?,
        })
    })
}

/// Removes the oldest events of a log; returns how many.
pub(super) fn remove(
    session: &WriteSession<'_>,
    subject: &str,
    limit: usize,
) -> SqliteResult<usize> {
    // Row by row: no index can be named for a list of rows, and a misled planner would scan the table.
    let sql = "SELECT number FROM events INDEXED BY sqlite_autoindex_events_1 \
        WHERE subject = ?1 ORDER BY seq LIMIT ?2";
    let values = params![subject, int_to_column(limit as u64)];
    let found: Vec<i64> = session.all(sql, values, |row| Ok(row.get(0)?))?;
    for number in &found {
        session.run("DELETE FROM events WHERE number = ?1", [number])?;
    }
    Ok(found.len())
}
