//! Schema version of the tables: check, creation and migration, by one node at a time.

use super::error;
use interzone_hub::ports::StoreError;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Creates the tables of version 1.
const SCHEMA: &str = include_str!("schema.sql");

/// Migration scripts: the first one migrates from version 1 to 2, and so on.
const MIGRATIONS: [&str; 0] = [];

/// Name in `meta` of the schema version of the unreleased versions before version 1.
const DEVELOPMENT_VERSION: &str = "version";

/// Advisory lock key of migrations; shared by all schemas, since they are short.
const MIGRATION_LOCK_KEY: i64 = 0x1_a7e2_0e5e;

/// Newest schema version that this program supports.
fn supported_version() -> i32 {
    i32::try_from(1 + MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// Returns the version of the existing tables; zero if there are none.
///
/// # Errors
/// The tables are of a newer version, or older than version 1.
pub(super) async fn existing_version(client: &Client, schema: &str) -> Result<i32, StoreError> {
    checked_version(client, schema, supported_version()).await
}

/// Returns the scripts that migrate from one version to another.
pub(super) fn scripts_between(from: i32, to: i32) -> impl Iterator<Item = &'static str> {
    let index = |version: i32| usize::try_from(version).unwrap_or(0);
    let scripts = std::iter::once(SCHEMA).chain(MIGRATIONS);
    scripts.take(index(to)).skip(index(from))
}

/// Returns true if the tables are of this version. Writes nothing.
pub(super) async fn is_current(client: &Client, schema: &str) -> Result<bool, StoreError> {
    let supported = supported_version();
    Ok(checked_version(client, schema, supported).await? == supported)
}

/// Migrates the tables to this version.
pub(super) async fn migrate(client: &Client, schema: &str) -> Result<(), StoreError> {
    if is_current(client, schema).await? {
        return Ok(());
    }
    let supported = supported_version();
    // Waiting for another node's migration and building indexes may exceed the normal timeouts.
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = '600s'; \
         SELECT pg_advisory_xact_lock({MIGRATION_LOCK_KEY}); \
         CREATE SCHEMA IF NOT EXISTS \"{schema}\""
    );
    client
        .batch_execute(&begin)
        .await
        .map_err(migration_error)?;
    let existing = checked_version(client, schema, supported).await?;
    for sql in scripts_between(existing, supported) {
        client.batch_execute(sql).await.map_err(migration_error)?;
    }
    let commit = format!(
        "INSERT INTO meta VALUES ('schema_version', '{supported}') \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value; COMMIT"
    );
    client.batch_execute(&commit).await.map_err(migration_error)
}

async fn checked_version(client: &Client, schema: &str, supported: i32) -> Result<i32, StoreError> {
    let existing = read_version(client, schema).await?;
    if existing > supported {
        return Err(StoreError::Unusable(format!(
            "the database schema has version {existing}, but this program supports up to {supported}: use a newer program"
        )));
    }
    Ok(existing)
}

/// Reads the version of the existing tables; zero if there are none.
async fn read_version(client: &Client, schema: &str) -> Result<i32, StoreError> {
    let meta_exists = client
        .query_one(
            "SELECT to_regclass($1) IS NOT NULL",
            &[&format!("\"{schema}\".meta")],
        )
        .await
        .map_err(|error| error::to_store_error(&error))?;
    if !meta_exists.get::<_, bool>(0) {
        return Ok(0);
    }
    let rows = client
        .query("SELECT name, value FROM meta", &[])
        .await
        .map_err(migration_error)?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.get::<_, &str>(0) == name);
        row.map(|row| row.get::<_, &str>(1))
    };
    match (value("schema_version"), value(DEVELOPMENT_VERSION)) {
        (Some(text), _) => text.parse().map_err(|_| {
            StoreError::Unusable("the schema version in the table meta is invalid".to_owned())
        }),
        (None, Some(_)) => Err(StoreError::Unusable(format!(
            "the tables in the schema {schema:?} were created by a development version, which is not supported: \
             export what you need with that version, then drop the schema to start empty"
        ))),
        (None, None) => Ok(0),
    }
}

fn migration_error(error: tokio_postgres::Error) -> StoreError {
    let foreign_table_states = [
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::UNDEFINED_COLUMN,
        SqlState::WRONG_OBJECT_TYPE,
    ];
    match error.code() {
        Some(code) if foreign_table_states.contains(code) => StoreError::Unusable(
            "the schema contains tables of another application: choose another schema".to_owned(),
        ),
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unusable(
            "this user may not create the tables: grant it CREATE, or create the schema for it"
                .to_owned(),
        ),
        _ => error::to_store_error(&error),
    }
}
