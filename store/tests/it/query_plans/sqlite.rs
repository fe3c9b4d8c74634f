//! SQLite: a plan is the same without statistics, with those of tables of one row, and with those of large ones, and
//! scans no table.

use super::{observed_statements, one_line};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Scans that are intended, by a part of the statement, with the reason.
const ALLOWED_SCANS: [(&str, &str); 5] = [
    (
        "FROM tasks INDEXED BY tasks_queue_flows WHERE queue_is_ready = 1 GROUP BY 1, 2",
        "once at the start: a partial index of what waits",
    ),
    (
        "FROM tasks INDEXED BY tasks_queue_not_ready WHERE queue_is_ready = 0",
        "counts what is queued: a partial index that holds nothing else",
    ),
    (
        "UPDATE tasks INDEXED BY tasks_queue_not_ready SET queue_node = NULL",
        "once at the start: a partial index of what is claimed or waits",
    ),
    (
        "FROM outbox INDEXED BY outbox_due WHERE settled_at IS NULL)",
        "counts what waits: a partial index that holds nothing else",
    ),
    (
        "FROM subscriptions INDEXED BY subscriptions_by_age",
        "lists and counts all subscriptions, in pages, for an operator",
    ),
];

/// Statements whose plan may depend on statistics, with the reason.
const UNPINNED: [(&str, &str); 2] = [
    (
        "FROM thread_tasks WHERE number < ?1 ORDER BY number DESC LIMIT ?2",
        "a range of row ids, for which no index can be named; there are no statistics in a database that is open",
    ),
    (
        "FROM requests WHERE number <= (SELECT max(number) FROM requests) - ?1 ORDER BY number LIMIT ?2",
        "as above",
    ),
];

/// Possible results of `ANALYZE`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistics {
    /// Nothing: it never ran, or all tables were empty.
    None,
    /// Every table had one row.
    OneRow,
    /// Every table had a million rows that agree in all columns but the last of a unique index.
    LargeAlike,
    /// Every table had a million rows that differ in every column.
    LargeDistinct,
}

/// Returns the problems of the plans of the recorded statements, on the schema of this database.
pub(crate) fn check(file: &Path) -> Vec<String> {
    let statements = observed_statements();
    if statements.is_empty() {
        return Vec::new();
    }
    let schema = schema(file);
    let plain = database(&schema, Statistics::None);
    let others = [
        Statistics::OneRow,
        Statistics::LargeAlike,
        Statistics::LargeDistinct,
    ]
    .map(|statistics| (statistics, database(&schema, statistics)));
    let mut refused = Vec::new();
    for sql in statements {
        let plan = explain(&plain, &sql);
        refused.extend(forbidden_scans(&sql, &plan));
        for (statistics, database) in &others {
            let other = explain(database, &sql);
            let is_unpinned = UNPINNED
                .iter()
                .any(|(part, _)| one_line(&sql).contains(part));
            if other != plan && !is_unpinned {
                refused.push(format!(
                    "the plan depends on statistics ({statistics:?}): {}\n  without: {plan:?}\n  with: {other:?}",
                    one_line(&sql)
                ));
            }
        }
    }
    refused
}

/// Statements that create the tables and indexes of a database.
fn schema(file: &Path) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(file, flags).unwrap();
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Empty database with these tables, whose planner uses these statistics.
fn database(schema: &[String], statistics: Statistics) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    for sql in schema {
        connection.execute_batch(sql).unwrap();
    }
    if statistics == Statistics::None {
        return connection;
    }
    connection.execute_batch("ANALYZE").unwrap();
    let sql = "SELECT t.name, i.name, i.\"unique\", i.origin = 'pk' AND t.sql LIKE '%WITHOUT ROWID%', \
            (SELECT count(*) FROM pragma_index_info(i.name)) \
        FROM sqlite_schema AS t, pragma_index_list(t.name) AS i \
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
    let mut indexes = connection.prepare(sql).unwrap();
    let mut rows = indexes.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (table, index): (String, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        let (unique, is_table): (bool, bool) = (row.get(2).unwrap(), row.get(3).unwrap());
        let columns: u32 = row.get(4).unwrap();
        let (all, each) = match statistics {
            Statistics::None | Statistics::OneRow => ("1", "1"),
            Statistics::LargeAlike => ("1000000", "1000000"),
            Statistics::LargeDistinct => ("1000000", "1"),
        };
        let mut numbers = vec![all];
        numbers.extend((0..columns).map(|_| each));
        if unique {
            *numbers.last_mut().unwrap() = "1";
        }
        // The primary key of a table WITHOUT ROWID has the name of its table.
        let index = if is_table { &table } else { &index };
        let values = [&table, index, &numbers.join(" ")];
        let insert = "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?1, ?2, ?3)";
        connection.execute(insert, values).unwrap();
    }
    drop(rows);
    drop(indexes);
    connection.execute_batch("ANALYZE sqlite_schema").unwrap();
    connection
}

fn explain(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let mut rows = statement.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        plan.push(row.get("detail").unwrap());
    }
    plan
}

/// Steps of a plan that scan a growing table, unless that is allowed.
fn forbidden_scans(sql: &str, plan: &[String]) -> Vec<String> {
    let line = one_line(sql);
    let is_bounded = |step: &&String| {
        let what = step.strip_prefix("SCAN ").unwrap_or("meta");
        // A single row, rows that another step has chosen, or the one table that does not grow.
        what == "CONSTANT ROW" || what.starts_with('(') || what.split(' ').next() == Some("meta")
    };
    let is_allowed = ALLOWED_SCANS.iter().any(|(part, _)| line.contains(part));
    let scans = plan.iter().filter(|step| !is_bounded(step) && !is_allowed);
    scans.map(|step| format!("{step}: {line}")).collect()
}

#[test]
fn misleading_statistics_cause_a_scan() {
    let schema = [
        "CREATE TABLE events (row INTEGER PRIMARY KEY, subject TEXT, seq INTEGER, body TEXT, \
        UNIQUE (subject, seq))"
            .to_owned(),
    ];
    let sql = "SELECT body FROM events WHERE subject = ?1 AND seq >= ?2";
    let plans = [Statistics::None, Statistics::OneRow]
        .map(|statistics| explain(&database(&schema, statistics), sql));
    assert!(plans[0][0].starts_with("SEARCH events"), "{plans:?}");
    assert_eq!(forbidden_scans(sql, &plans[1]).len(), 1, "{plans:?}");
}
