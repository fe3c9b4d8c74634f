//! PostgreSQL: a cached generic plan scans no growing table, neither when it was made on nearly empty tables, nor
//! when they have grown since the last ANALYZE.

use super::{observed_statements, one_line};
use interzone_store::postgres::{PLANNER_SETTINGS, PostgresOptions, PostgresStore};
use serde_json::Value;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Tables that never have more than a few rows.
const SMALL_TABLES: [&str; 3] = ["meta", "subscription_epoch", "health_check"];

/// Full scans of tables and indexes that are intended, by a part of the statement, with the reason.
const ALLOWED_SCANS: [(&str, &str); 10] = [
    (
        "claimable_at > moment) FROM work_queue, present",
        "work_depth: counts what is queued, and the table holds nothing else",
    ),
    (
        "(SELECT count(*) FROM outbox WHERE state = 'dead')",
        "counts what waits and what is dead, by partial indexes of those",
    ),
    (
        "FROM outbox WHERE state = 'dead' AND",
        "lists what is dead, by a partial index of that",
    ),
    (
        "WHERE given.state = 'dead'",
        "lists what is dead, by a partial index of that",
    ),
    (
        "FROM subscription_epoch LEFT JOIN subscriptions ON state = 'active'",
        "reads all that are active, once after each change",
    ),
    (
        "FROM subscriptions WHERE $1::text IS NULL",
        "lists and counts all subscriptions, in pages, for an operator",
    ),
    (
        "SELECT delivery_cursors.subscription_id FROM delivery_cursors",
        "goes from subscription to subscription",
    ),
    (
        "SELECT count(*) FROM tasks",
        "counts tasks by what is shown, for an operator",
    ),
    (
        "FROM tasks WHERE agent = $1",
        "an operator's list by agent: steps over others' tasks in the order of the list",
    ),
    (
        "SELECT max(number) FROM requests",
        "the newest, at one end of the index",
    ),
];

/// Schema whose tables have grown since they were analyzed. It is reused by later tests.
const GROWN_SCHEMA: &str = "plans_grown";
/// Advisory lock: only one test creates it.
const GROWN_SCHEMA_LOCK: i64 = 0x91_a45;

/// Returns the problems of the plans of the recorded statements: on the tables of a test, which hold a few rows, and
/// on tables that have grown.
pub(crate) async fn check(url: &str, schema: &str) -> Vec<String> {
    let statements = observed_statements();
    if statements.is_empty() {
        return Vec::new();
    }
    let client = connect(url, schema).await;
    if tables(&client, schema).await.is_empty() {
        return Vec::new();
    }
    for table in tables(&client, schema).await {
        let analyse = format!("ANALYZE \"{table}\"");
        client.batch_execute(&analyse).await.unwrap();
    }
    let mut refused = explain_all(&client, &statements, "tables of a few rows").await;
    let version = "SELECT value FROM meta WHERE name = 'schema_version'";
    let version = client.query_one(version, &[]).await.unwrap();
    let client = connect(url, GROWN_SCHEMA).await;
    create_grown_tables(url, &client, version.get(0)).await;
    refused.extend(explain_all(&client, &statements, "tables that have grown").await);
    refused
}

async fn connect(url: &str, schema: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let settings = format!(
        "SET search_path = \"{schema}\"; SET client_min_messages = warning; {PLANNER_SETTINGS}; \
         SET plan_cache_mode = force_generic_plan"
    );
    client.batch_execute(&settings).await.unwrap();
    client
}

async fn tables(client: &Client, schema: &str) -> Vec<String> {
    let sql = "SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
        WHERE nspname = $1 AND relkind = 'r' ORDER BY pg_class.oid";
    let rows = client.query(sql, &[&schema]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn explain_all(client: &Client, statements: &[String], label: &str) -> Vec<String> {
    let mut refused = Vec::new();
    for (number, sql) in statements.iter().enumerate() {
        let plan = explain(client, &format!("p{number}"), sql).await;
        let mut scans = Vec::new();
        find_scans(&plan, false, &mut scans);
        let line = one_line(sql);
        if !ALLOWED_SCANS.iter().any(|(part, _)| line.contains(part)) {
            refused.extend(scans.iter().map(|scan| format!("{label}: {scan}: {line}")));
        }
    }
    refused
}

/// Generic plan of a statement.
async fn explain(client: &Client, name: &str, sql: &str) -> Value {
    let prepare = format!("PREPARE {name} AS {sql}");
    if let Err(error) = client.batch_execute(&prepare).await {
        panic!("{error:?}: {sql}");
    }
    let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = $1";
    let row = client.query_one(count, &[&name]).await.unwrap();
    let values = vec!["NULL"; usize::try_from(row.get::<_, i32>(0)).unwrap()].join(", ");
    let values = match &*values {
        "" => String::new(),
        values => format!("({values})"),
    };
    let sql = format!("EXPLAIN (FORMAT JSON) EXECUTE {name}{values}");
    let answer = client.simple_query(&sql).await.unwrap();
    let text = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    serde_json::from_str(text.unwrap()).unwrap()
}

/// Collects the plan nodes that scan a growing table, or an index of one, completely.
fn find_scans(plan: &Value, is_limited: bool, scans: &mut Vec<String>) {
    match plan {
        Value::Array(plans) => {
            for plan in plans {
                find_scans(plan, is_limited, scans);
            }
        }
        Value::Object(node) => {
            let text = |name: &str| node.get(name).and_then(Value::as_str);
            let kind = text("Node Type").unwrap_or_default();
            let index = text("Index Name").unwrap_or_default();
            let is_small = text("Relation Name").is_some_and(|table| SMALL_TABLES.contains(&table));
            let has = |name: &str| node.get(name).is_some();
            let is_full_scan = match kind {
                "Seq Scan" => true,
                // In the order of the index, and no further than the limit.
                "Index Scan" | "Index Only Scan" if is_limited && !has("Filter") => false,
                "Index Scan" | "Index Only Scan" | "Bitmap Index Scan" => !has("Index Cond"),
                _ => false,
            };
            // Sorts and joins read their input to its end.
            let is_limited = match kind {
                "Limit" => true,
                "LockRows" | "Result" => is_limited,
                _ => false,
            };
            if is_full_scan && !is_small {
                let table = text("Relation Name").unwrap_or_default();
                scans.push(format!("{kind} {table} {index}"));
            }
            for value in node.values() {
                find_scans(value, is_limited, scans);
            }
        }
        _ => {}
    }
}

/// Creates tables that were analyzed with one row each, and have many rows now.
async fn create_grown_tables(url: &str, client: &Client, version: &str) {
    let options = PostgresOptions {
        schema: GROWN_SCHEMA.to_owned(),
        pool_size: 1,
        ..PostgresOptions::default()
    };
    let marker = format!("ready_{version}");
    let is_ready = "SELECT to_regclass($1) IS NOT NULL";
    if client.query_one(is_ready, &[&marker]).await.unwrap().get(0) {
        return;
    }
    let lock = format!("SELECT pg_advisory_lock({GROWN_SCHEMA_LOCK})");
    client.batch_execute(&lock).await.unwrap();
    // Creates the tables, or migrates them to this version.
    drop(PostgresStore::connect(url, options).await.unwrap());
    for table in tables(client, GROWN_SCHEMA).await {
        let has_rows = format!("SELECT EXISTS (SELECT FROM \"{table}\")");
        let row = client.query_one(&has_rows, &[]).await.unwrap();
        if SMALL_TABLES.contains(&&*table) || table.starts_with("ready_") || row.get(0) {
            continue;
        }
        let fill = insert_statement(client, &table).await;
        let rows = match &*table {
            "tasks" | "messages" | "events" | "work_queue" | "idempotency_keys" | "outbox" => {
                100_000
            }
            _ => 20_000,
        };
        let sql = format!(
            "ALTER TABLE \"{table}\" SET (autovacuum_enabled = false); \
             {fill} generate_series(1, 1) AS n; ANALYZE \"{table}\"; \
             {fill} generate_series(2, {rows}) AS n"
        );
        client.batch_execute(&sql).await.unwrap();
    }
    let unlock = format!(
        "CREATE TABLE IF NOT EXISTS {marker} (); SELECT pg_advisory_unlock({GROWN_SCHEMA_LOCK})"
    );
    client.batch_execute(&unlock).await.unwrap();
}

/// INSERT statement that adds a row for each number `n`, without the source of the numbers.
async fn insert_statement(client: &Client, table: &str) -> String {
    let sql = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
        WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''";
    let rows = client.query(sql, &[&table]).await.unwrap();
    let columns: Vec<(&str, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let value = |(name, kind): &(&str, &str)| match (table, *name, *kind) {
        ("tasks", "state", _) => "'completed'",
        ("streams", "state", _) => "'CLOSED'",
        ("subscriptions", "state", _) => "'active'",
        (_, "state", _) => "'waiting'",
        (_, _, "text") => "'value ' || n",
        (_, _, "bytea") => "sha256(n::text::bytea)",
        (_, _, "boolean") => "n % 2 = 0",
        (_, _, "smallint") => "n % 3",
        (_, _, "timestamp with time zone") => "clock_timestamp()",
        _ => "n",
    };
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values: Vec<&str> = columns.iter().map(value).collect();
    format!(
        "INSERT INTO \"{table}\" ({}) SELECT {} FROM",
        names.join(", "),
        values.join(", ")
    )
}
