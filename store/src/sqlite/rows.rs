//! Reading rows, the same on every connection.

use super::fault::Outcome;
use interzone_hub::ports::StoreError;
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, Params, Row};

/// The first row of a query, if there is one.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Outcome<T>,
) -> Outcome<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(read).transpose()
}

/// All rows of a query.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut read_all = Vec::new();
    while let Some(row) = rows.next()? {
        read_all.push(read(row)?);
    }
    Ok(read_all)
}

/// A column of text, without a copy.
pub(super) fn text<'a>(row: &'a Row<'_>, index: usize) -> Outcome<&'a str> {
    row.get_ref(index)?
        .as_str()
        .map_err(|error| odd(&error).into())
}

/// A column of text that may be empty.
pub(super) fn optional_text<'a>(row: &'a Row<'_>, index: usize) -> Outcome<Option<&'a str>> {
    let value = row.get_ref(index)?.as_str_or_null();
    value.map_err(|error| odd(&error).into())
}

fn odd(error: &FromSqlError) -> StoreError {
    StoreError::Corrupt(error.to_string())
}
