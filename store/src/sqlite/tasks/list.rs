//! Lists of tasks. The index is chosen here, not by SQLite's planner, so that a list costs what it shows and
//! not what is stored.

use super::{read_task_row, task_columns};
use crate::codec::{int_from_column, int_to_column};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::rows::{all, first};
use interzone_hub::{Task, TaskQuery};
use interzone_protocol::vocab::{TaskState, Timestamp};
use rusqlite::{Connection, ToSql};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Conversations with more tasks than this are not sorted: so many are found soon enough in the order
/// of the list.
const MAX_SORTED_CONVERSATION: i64 = 2_000;

/// Lists tasks, newest state change first, then highest id.
pub(in crate::sqlite) fn list_tasks(
    connection: &Connection,
    query: &TaskQuery,
) -> SqliteResult<Vec<Task>> {
    // Keys and tasks must be of one snapshot.
    let transaction = connection.unchecked_transaction()?;
    let limit = int_to_column(query.limit as u64);
    let (at, id) = match &query.after {
        Some(after) => (after.status_at.as_millis(), after.id.as_str()),
        None => (i64::MAX, ""),
    };
    let filters = TaskListFilters::from_query(query);
    let ranges = filters.ranges(connection)?;
    let is_single = ranges.len() == 1;
    let mut keys: Vec<(i64, String)> = Vec::new();
    for range in ranges {
        let sql = format!(
            "SELECT status_at, id FROM tasks {} WHERE {} \
             AND (status_at, id) < (:at, :id) \
             ORDER BY status_at DESC, id DESC LIMIT :limit",
            range.index, range.condition
        );
        let mut values = range.values;
        values.push((":at", &at));
        values.push((":id", &id));
        values.push((":limit", &limit));
        keys.extend(all(connection, &sql, &*values, |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?);
    }
    if !is_single {
        keys.sort_unstable_by(|a, b| Reverse(a).cmp(&Reverse(b)));
        keys.truncate(query.limit);
    }
    let sql = concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1");
    let mut tasks = Vec::with_capacity(keys.len());
    for (_, id) in keys {
        tasks.extend(first(connection, sql, [id], read_task_row)?);
    }
    transaction.finish()?;
    Ok(tasks)
}

/// Counts the tasks that the query selects, regardless of its cursor and limit.
pub(in crate::sqlite) fn count_tasks(
    connection: &Connection,
    query: &TaskQuery,
) -> SqliteResult<u64> {
    let transaction = connection.unchecked_transaction()?;
    let mut total = 0;
    for range in TaskListFilters::from_query(query).ranges(connection)? {
        let sql = format!(
            "SELECT count(*) FROM tasks {} WHERE {}",
            range.index, range.condition
        );
        let found = first(connection, &sql, &*range.values, |row| {
            Ok(int_from_column::<u64>("count", row.get(0)?)?)
        })?;
        total += found.unwrap_or(0);
    }
    transaction.finish()?;
    Ok(total)
}

/// Filters of a query, as values to bind.
struct TaskListFilters<'a> {
    owner: Option<&'a str>,
    context: Option<&'a str>,
    agent: Option<&'a str>,
    since: Option<i64>,
    /// Empty means any.
    states: Vec<&'static str>,
    /// The same, or all states.
    scanned_states: Vec<&'static str>,
}

/// One range of an index.
struct IndexRange<'a> {
    /// `INDEXED BY` clause, where the planner might choose another.
    index: &'static str,
    condition: String,
    values: Vec<(&'static str, &'a dyn ToSql)>,
}

impl<'a> TaskListFilters<'a> {
    fn from_query(query: &'a TaskQuery) -> Self {
        let mut unique = HashSet::new();
        let requested = query.states.iter().filter(|state| unique.insert(**state));
        let states: Vec<_> = requested.map(|state| state.name()).collect();
        Self {
            owner: query.owner.as_ref().map(AsRef::as_ref),
            context: query.context_id.as_ref().map(AsRef::as_ref),
            agent: query.agent.as_ref().map(AsRef::as_ref),
            since: query.status_since.map(Timestamp::as_millis),
            scanned_states: if states.is_empty() {
                TaskState::ALL.map(TaskState::name).to_vec()
            } else {
                states.clone()
            },
            states,
        }
    }

    /// Index ranges to scan. A small conversation is sorted as a whole; everything else is one range per state,
    /// each in the order of the list, with non-matching rows skipped.
    fn ranges(&self, connection: &Connection) -> SqliteResult<Vec<IndexRange<'_>>> {
        if let Some(context) = self.context
            && is_small_conversation(connection, context)?
        {
            return Ok(self.conversation_ranges());
        }
        let index = match self.owner {
            Some(_) => "INDEXED BY tasks_by_owner",
            None => "INDEXED BY tasks_by_state",
        };
        let ranges = self.scanned_states.iter().map(|state| {
            let (mut conditions, mut values) = self.conditions();
            conditions.push("state = :state".to_owned());
            values.push((":state", state));
            IndexRange {
                index,
                condition: conditions.join(" AND "),
                values,
            }
        });
        Ok(ranges.collect())
    }

    /// Ranges of a conversation: the tasks that named it, and its first task, which is found by its own id.
    fn conversation_ranges(&self) -> Vec<IndexRange<'_>> {
        let range = |index: &'static str, condition: &str| {
            let (mut conditions, values) = self.conditions();
            conditions.push(condition.to_owned());
            if !self.states.is_empty() {
                // The names are constants of ours.
                conditions.push(format!("state IN ('{}')", self.states.join("', '")));
            }
            IndexRange {
                index,
                condition: conditions.join(" AND "),
                values,
            }
        };
        vec![
            range("INDEXED BY tasks_by_context", "context_id <> id"),
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
            conditions.push("status_at >= :since".to_owned());
            values.push((":since", since));
        }
        if let Some(agent) = &self.agent {
            conditions.push("agent = :agent".to_owned());
            values.push((":agent", agent));
        }
        (conditions, values)
    }
}

fn is_small_conversation(connection: &Connection, context: &str) -> SqliteResult<bool> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_by_context \
        WHERE context_id = ?1 AND context_id <> id LIMIT ?2)";
    let values = rusqlite::params![context, MAX_SORTED_CONVERSATION + 1];
    let found = first(connection, sql, values, |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(found.unwrap_or(0) <= MAX_SORTED_CONVERSATION)
}
