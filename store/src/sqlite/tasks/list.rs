//! Lists of tasks. Which index a list reads is decided here, not guessed by the engine, so that a
//! list costs what it shows and not what there is.

use super::{read_task, task_columns};
use crate::codec::{column, count};
use crate::sqlite::fault::Outcome;
use crate::sqlite::rows::{all, first};
use interzone_hub::{Task, TaskQuery};
use interzone_protocol::vocab::{TaskState, Timestamp};
use rusqlite::{Connection, ToSql};
use std::cmp::Reverse;
use std::collections::HashSet;

/// A conversation with more tasks than this is not sorted: so many are met soon enough in the order
/// of the list.
const LONG: i64 = 2_000;

/// Tasks, newest change first, then highest id.
pub(in crate::sqlite) fn tasks(connection: &Connection, query: &TaskQuery) -> Outcome<Vec<Task>> {
    // Places and tasks must be of the same moment.
    let transaction = connection.unchecked_transaction()?;
    let limit = column(query.limit as u64);
    let (updated, id) = match &query.after {
        Some(after) => (after.updated_at.as_millis(), after.id.as_str()),
        None => (i64::MAX, ""),
    };
    let filters = Filters::of(query);
    let ranges = filters.ranges(connection)?;
    let single = ranges.len() == 1;
    let mut places: Vec<(i64, String)> = Vec::new();
    for range in ranges {
        let sql = format!(
            "SELECT updated_at, id FROM tasks {} WHERE {} \
             AND (updated_at, id) < (:updated, :id) \
             ORDER BY updated_at DESC, id DESC LIMIT :limit",
            range.index, range.condition
        );
        let mut values = range.values;
        values.push((":updated", &updated));
        values.push((":id", &id));
        values.push((":limit", &limit));
        places.extend(all(connection, &sql, &*values, |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?);
    }
    if !single {
        places.sort_unstable_by(|a, b| Reverse(a).cmp(&Reverse(b)));
        places.truncate(query.limit);
    }
    let sql = concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1");
    let mut tasks = Vec::with_capacity(places.len());
    for (_, id) in places {
        tasks.extend(first(connection, sql, [id], read_task)?);
    }
    transaction.finish()?;
    Ok(tasks)
}

/// How many tasks the query selects, its place and limit aside.
pub(in crate::sqlite) fn count_tasks(connection: &Connection, query: &TaskQuery) -> Outcome<u64> {
    let transaction = connection.unchecked_transaction()?;
    let mut total = 0;
    for range in Filters::of(query).ranges(connection)? {
        let sql = format!(
            "SELECT count(*) FROM tasks {} WHERE {}",
            range.index, range.condition
        );
        let found = first(connection, &sql, &*range.values, |row| {
            Ok(count::<u64>("count", row.get(0)?)?)
        })?;
        total += found.unwrap_or(0);
    }
    transaction.finish()?;
    Ok(total)
}

/// What a query asks for, as values to bind.
struct Filters<'a> {
    owner: Option<&'a str>,
    context: Option<&'a str>,
    agent: Option<&'a str>,
    since: Option<i64>,
    /// None means any.
    states: Vec<&'static str>,
    /// The same, or all.
    stretches: Vec<&'static str>,
}

/// One stretch of an index.
struct Range<'a> {
    /// Which one, where the engine might take another.
    index: &'static str,
    condition: String,
    values: Vec<(&'static str, &'a dyn ToSql)>,
}

impl<'a> Filters<'a> {
    fn of(query: &'a TaskQuery) -> Self {
        let mut seen = HashSet::new();
        let asked = query.states.iter().filter(|state| seen.insert(**state));
        let states: Vec<_> = asked.map(|state| state.name()).collect();
        Self {
            owner: query.owner.as_ref().map(AsRef::as_ref),
            context: query.context_id.as_ref().map(AsRef::as_ref),
            agent: query.agent.as_ref().map(AsRef::as_ref),
            since: query.updated_since.map(Timestamp::as_millis),
            stretches: if states.is_empty() {
                TaskState::ALL.map(TaskState::name).to_vec()
            } else {
                states.clone()
            },
            states,
        }
    }

    /// A conversation is sorted as a whole; everything else is one stretch for each state, each in
    /// the order of the list, with what is not asked for stepped over.
    fn ranges(&self, connection: &Connection) -> Outcome<Vec<Range<'_>>> {
        if let Some(context) = self.context
            && is_short(connection, context)?
        {
            return Ok(self.sorted());
        }
        let index = match self.owner {
            Some(_) => "INDEXED BY tasks_owner",
            None => "INDEXED BY tasks_state",
        };
        let ranges = self.stretches.iter().map(|state| {
            let (mut conditions, mut values) = self.conditions();
            conditions.push("state = :state".to_owned());
            values.push((":state", state));
            Range {
                index,
                condition: conditions.join(" AND "),
                values,
            }
        });
        Ok(ranges.collect())
    }

    /// The tasks of a conversation: those that named it, and the one that it began with, which is found by its own id.
    fn sorted(&self) -> Vec<Range<'_>> {
        let range = |index: &'static str, which: &str| {
            let (mut conditions, values) = self.conditions();
            conditions.push(which.to_owned());
            if !self.states.is_empty() {
                // The names are our own.
                conditions.push(format!("state IN ('{}')", self.states.join("', '")));
            }
            Range {
                index,
                condition: conditions.join(" AND "),
                values,
            }
        };
        vec![
            range("INDEXED BY tasks_context", "context_id <> id"),
            range("", "id = :context"),
        ]
    }

    fn conditions(&self) -> (Vec<String>, Vec<(&'static str, &dyn ToSql)>) {
        let mut values: Vec<(&'static str, &dyn ToSql)> = Vec::new();
        let mut conditions = Vec::new();
        if let Some(context) = &self.context {
            conditions.push("context_id = :context".to_owned());
            values.push((":context", context));
        }
        if let Some(owner) = &self.owner {
            conditions.push("owner = :owner".to_owned());
            values.push((":owner", owner));
        }
        if let Some(since) = &self.since {
            conditions.push("updated_at >= :since".to_owned());
            values.push((":since", since));
        }
        if let Some(agent) = &self.agent {
            conditions.push("agent = :agent".to_owned());
            values.push((":agent", agent));
        }
        (conditions, values)
    }
}

fn is_short(connection: &Connection, context: &str) -> Outcome<bool> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_context \
        WHERE context_id = ?1 AND context_id <> id LIMIT ?2)";
    let values = rusqlite::params![context, LONG + 1];
    let found = first(connection, sql, values, |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(found.unwrap_or(0) <= LONG)
}
