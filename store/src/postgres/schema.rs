//! The tables, and how they come to be: one version after another, by one node at a time.

use super::fault;
use interzone_hub::ports::StoreError;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// What each version adds, the first one first.
const VERSIONS: [&str; 5] = [
    include_str!("schema/v1.sql"),
    include_str!("schema/v2.sql"),
    include_str!("schema/v3.sql"),
    include_str!("schema/v4.sql"),
    include_str!("schema/v5.sql"),
];

/// Where the version is noted.
pub(super) const META: &str =
    "CREATE TABLE IF NOT EXISTS meta (name text PRIMARY KEY, value text NOT NULL)";

/// The lock that keeps two nodes from doing this at once, whatever their schemas: it is short.
const LOCK: i64 = 0x1_a7e2_0e5e;

/// The version that this program writes.
fn newest() -> i32 {
    i32::try_from(VERSIONS.len()).unwrap_or(i32::MAX)
}

/// The version of the tables that are there; zero if there are none.
///
/// # Errors
/// They are of a newer version.
pub(super) async fn version_of(client: &Client, schema: &str) -> Result<i32, StoreError> {
    checked_version(client, schema, newest()).await
}

/// What makes the tables of a version.
pub(super) fn made_until(version: i32) -> impl Iterator<Item = &'static str> {
    let versions = usize::try_from(version).unwrap_or(0);
    VERSIONS.into_iter().take(versions)
}

/// Whether the tables are of this version. Nothing is written.
pub(super) async fn is_current(client: &Client, schema: &str) -> Result<bool, StoreError> {
    let known = newest();
    Ok(checked_version(client, schema, known).await? == known)
}

/// Brings the tables to this version, unless they are there already.
pub(super) async fn migrate(client: &Client, schema: &str) -> Result<(), StoreError> {
    if is_current(client, schema).await? {
        return Ok(());
    }
    let known = newest();
    // Waiting for another node's turn and building indexes may take longer than a call may.
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = '600s'; \
         SELECT pg_advisory_xact_lock({LOCK}); \
         CREATE SCHEMA IF NOT EXISTS \"{schema}\"; \
         {META}"
    );
    client.batch_execute(&begin).await.map_err(refused)?;
    let found = checked_version(client, schema, known).await?;
    for sql in VERSIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        client.batch_execute(sql).await.map_err(refused)?;
    }
    let commit = format!(
        "INSERT INTO meta VALUES ('version', '{known}') \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value; COMMIT"
    );
    client.batch_execute(&commit).await.map_err(refused)
}

async fn checked_version(client: &Client, schema: &str, known: i32) -> Result<i32, StoreError> {
    let found = version(client, schema).await?;
    if found > known {
        return Err(StoreError::Unusable(format!(
            "the tables are of version {found} and this program knows up to {known}: use a newer one"
        )));
    }
    Ok(found)
}

/// The version of the tables that are there; zero if there are none.
async fn version(client: &Client, schema: &str) -> Result<i32, StoreError> {
    let there = client
        .query_one(
            "SELECT to_regclass($1) IS NOT NULL",
            &[&format!("\"{schema}\".meta")],
        )
        .await
        .map_err(|error| fault::answer(&error))?;
    if !there.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client
        .query_opt("SELECT value FROM meta WHERE name = 'version'", &[])
        .await
        .map_err(refused)?;
    let Some(row) = row else { return Ok(0) };
    let text: &str = row.get(0);
    text.parse()
        .map_err(|_| StoreError::Unusable("the version of the tables cannot be read".to_owned()))
}

fn refused(error: tokio_postgres::Error) -> StoreError {
    let foreign = [
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::UNDEFINED_COLUMN,
        SqlState::WRONG_OBJECT_TYPE,
    ];
    match error.code() {
        Some(code) if foreign.contains(code) => StoreError::Unusable(
            "the schema holds tables of something else: name another schema".to_owned(),
        ),
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unusable(
            "this user may not make the tables: let it create the schema, or make it for it"
                .to_owned(),
        ),
        _ => fault::answer(&error),
    }
}
