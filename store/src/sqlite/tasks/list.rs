//! Lists of tasks. Which index a list reads is decided here, not guessed by the engine, so that a
//! list costs what it shows and not what there is.

use super::{read_task, task_columns};
use crate::codec::{column, count};
use crate::sqlite::fault::Outcome;
use crate::sqlite::rows::{all, first};
use interzone_hub::{Task, TaskQuery};
use interzone_protocol::vocab::{TaskState, Timestamp};
use rusqlite::{Connection, ToSql, params};
use std::cmp::Reverse;
use std::collections::HashSet;

/// A task's place in the list.
type Place = (i64, String, i64);

/// Tasks, newest change first, then highest id.
pub(in crate::sqlite) fn tasks(connection: &Connection, query: &TaskQuery) -> Outcome<Vec<Task>> {
    // Places and tasks must be of the same moment.
    let transaction = connection.unchecked_transaction()?;
    let limit = column(query.limit as u64);
    let (updated, id) = match &query.after {
        Some(after) => (after.updated_at.as_millis(), after.id.as_str()),
        None => (i64::MAX, ""),
    };
    let mut places: Vec<Place> = Vec::new();
    let filters = Filters::of(query);
    for range in filters.ranges() {
        let sql = format!(
            "SELECT updated_at, id, row FROM tasks INDEXED BY {} WHERE {} \
             AND (updated_at, id) < (:updated, :id) \
             ORDER BY updated_at DESC, id DESC LIMIT :limit",
            range.index, range.condition
        );
        let mut values = range.values;
        values.push((":updated", &updated));
        values.push((":id", &id));
        values.push((":limit", &limit));
        places.extend(all(connection, &sql, &*values, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?);
    }
    if filters.needs_merging() {
        places.sort_unstable_by(|a, b| Reverse((a.0, &a.1)).cmp(&Reverse((b.0, &b.1))));
        places.truncate(query.limit);
    }
    let sql = concat!("SELECT ", task_columns!(), " FROM tasks WHERE row = ?1");
    let mut tasks = Vec::with_capacity(places.len());
    for (_, _, row) in places {
        tasks.extend(first(connection, sql, params![row], read_task)?);
    }
    transaction.finish()?;
    Ok(tasks)
}

/// How many tasks the query selects, its place and limit aside.
pub(in crate::sqlite) fn count_tasks(connection: &Connection, query: &TaskQuery) -> Outcome<u64> {
    let transaction = connection.unchecked_transaction()?;
    let mut total = 0;
    for range in Filters::of(query).ranges() {
        let sql = format!(
            "SELECT count(*) FROM tasks INDEXED BY {} WHERE {}",
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
}

/// One stretch of an index, in the order of the list.
struct Range<'a> {
    index: &'static str,
    condition: String,
    values: Vec<(&'static str, &'a dyn ToSql)>,
}

impl<'a> Filters<'a> {
    fn of(query: &'a TaskQuery) -> Self {
        let mut seen = HashSet::new();
        let asked = query.states.iter().filter(|state| seen.insert(**state));
        let mut states: Vec<_> = asked.map(|state| state.name()).collect();
        let context = query.context_id.as_ref().map(AsRef::as_ref);
        if states.is_empty() && context.is_none() {
            states = TaskState::ALL.map(TaskState::name).to_vec();
        }
        Self {
            owner: query.owner.as_ref().map(AsRef::as_ref),
            context,
            agent: query.agent.as_ref().map(AsRef::as_ref),
            since: query.updated_since.map(Timestamp::as_millis),
            states,
        }
    }

    /// A conversation is one stretch of its index, in which other tasks are stepped over; everything
    /// else is one stretch for each state.
    fn ranges(&self) -> Vec<Range<'_>> {
        let index = match (self.context, self.owner) {
            (Some(_), _) => "tasks_context",
            (None, Some(_)) => "tasks_owner",
            (None, None) => "tasks_state",
        };
        let states: Vec<Option<&&str>> = if self.states.is_empty() {
            vec![None]
        } else {
            self.states.iter().map(Some).collect()
        };
        let ranges = states.into_iter().map(|state| {
            let mut values: Vec<(&'static str, &dyn ToSql)> = Vec::new();
            let mut conditions = Vec::new();
            if let Some(context) = &self.context {
                conditions.push("context_id = :context");
                values.push((":context", context));
            }
            if let Some(owner) = &self.owner {
                conditions.push("owner = :owner");
                values.push((":owner", owner));
            }
            if let Some(state) = state {
                conditions.push("state = :state");
                values.push((":state", state));
            }
            if let Some(since) = &self.since {
                conditions.push("updated_at >= :since");
                values.push((":since", since));
            }
            if let Some(agent) = &self.agent {
                conditions.push("agent = :agent");
                values.push((":agent", agent));
            }
            Range {
                index,
                condition: conditions.join(" AND "),
                values,
            }
        });
        ranges.collect()
    }

    fn needs_merging(&self) -> bool {
        self.states.len() > 1
    }
}
