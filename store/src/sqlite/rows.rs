//! Helpers to read rows, for every connection.

use super::error::SqliteResult;
use interzone_hub::ports::StoreError;
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, Params, Row};

/// Returns the first row of a query, if any.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> SqliteResult<T>,
) -> SqliteResult<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(read).transpose()
}

/// Returns all rows of a query.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> SqliteResult<T>,
) -> SqliteResult<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut values_read = Vec::new();
    while let Some(row) = rows.next()? {
        values_read.push(read(row)?);
    }
    Ok(values_read)
}

/// Reads a text column without a copy.
pub(super) fn text<'a>(row: &'a Row<'_>, index: usize) -> SqliteResult<&'a str> {
    row.get_ref(index)?
        .as_str()
        .map_err(|error| type_error(&error).into())
}

/// Reads a nullable text column.
pub(super) fn optional_text<'a>(row: &'a Row<'_>, index: usize) -> SqliteResult<Option<&'a str>> {
    let value = row.get_ref(index)?.as_str_or_null();
    value.map_err(|error| type_error(&error).into())
}

fn type_error(error: &FromSqlError) -> StoreError {
    StoreError::Corrupt(error.to_string())
}
