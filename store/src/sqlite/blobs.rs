//! Blob storage. SQLite copies a value several times before it is written, and caches its pages; so large
//! blobs are written and read in pieces, with a small page cache during the operation.

use super::error::SqliteResult;
use super::rows::{first, text};
use super::write_job::WriteSession;
use interzone_hub::ports::StoreError;
use interzone_hub::{Blob, BlobContent, BlobId};
use rusqlite::{Connection, params};

/// Blobs longer than this, in bytes, are stored in pieces of this size.
const PIECE_BYTES: usize = 128 * 1024;

/// Page cache during blob access, in KiB.
const BLOB_CACHE_KIB: i64 = 256;

/// Writes a blob, unless it exists, and the reference to it.
pub(super) fn put(
    session: &WriteSession<'_>,
    subject: Option<&str>,
    blob: &Blob,
) -> SqliteResult<()> {
    let id = blob.id.as_bytes();
    // Checking first is cheaper than binding bytes that are stored already.
    let existing = session.first("SELECT 1 FROM blobs WHERE id = ?1", [id], |_| Ok(()))?;
    if existing.is_none() {
        let sql = "INSERT INTO blobs (id, bytes) VALUES (?1, ?2)";
        if blob.bytes.len() <= PIECE_BYTES {
            session.run(sql, params![id, &*blob.bytes])?;
        } else {
            session.run(sql, params![id, ""])?;
            let row = session.connection.last_insert_rowid();
            put_pieces(session, row, blob.bytes.as_bytes())?;
        }
    }
    let sql = "INSERT OR IGNORE INTO blob_refs (subject, blob_id) VALUES (?1, ?2)";
    session.run(sql, params![subject, id]).map(|_| ())
}

fn put_pieces(session: &WriteSession<'_>, blob: i64, bytes: &[u8]) -> SqliteResult<()> {
    with_small_cache(session.connection, || {
        let sql = "INSERT INTO blob_pieces (blob_number, bytes) VALUES (?1, ?2)";
        for piece in bytes.chunks(PIECE_BYTES) {
            session.run(sql, params![blob, piece])?;
        }
        Ok(())
    })
}

/// Removes a blob without references; returns how many were removed.
pub(super) fn remove(session: &WriteSession<'_>, id: &[u8]) -> SqliteResult<u64> {
    let sql = "DELETE FROM blobs WHERE id = ?1 \
        AND NOT EXISTS (SELECT 1 FROM blob_refs INDEXED BY blob_refs_by_blob WHERE blob_id = ?1) RETURNING number";
    let Some(row) = session.first(sql, [id], |row| Ok(row.get::<_, i64>(0)?))? else {
        return Ok(0);
    };
    session.run(
        "DELETE FROM blob_pieces INDEXED BY blob_pieces_by_blob WHERE blob_number = ?1",
        [row],
    )?;
    Ok(1)
}

/// Reads a blob, if it exists.
pub(super) fn get(connection: &Connection, id: &BlobId) -> SqliteResult<Option<BlobContent>> {
    let sql = "SELECT number, bytes FROM blobs WHERE id = ?1";
    first(connection, sql, [id.as_bytes()], |row| {
        match text(row, 1)? {
            // While this row is being read, the pieces cannot be removed.
            "" => get_pieces(connection, row.get(0)?),
            inline => Ok(inline.into()),
        }
    })
}

/// Returns the size of a blob in bytes, if it exists, without reading it.
pub(super) fn size(connection: &Connection, id: &BlobId) -> SqliteResult<Option<usize>> {
    let sql = "SELECT number, octet_length(bytes) FROM blobs WHERE id = ?1";
    first(connection, sql, [id.as_bytes()], |row| {
        match row.get::<_, i64>(1)? {
            0 => size_of_pieces(connection, row.get(0)?),
            length => Ok(usize::try_from(length).unwrap_or(usize::MAX)),
        }
    })
}

fn size_of_pieces(connection: &Connection, blob: i64) -> SqliteResult<usize> {
    let sql = "SELECT coalesce(sum(octet_length(bytes)), 0) FROM blob_pieces INDEXED BY blob_pieces_by_blob WHERE blob_number = ?1";
    let length = first(connection, sql, [blob], |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(usize::try_from(length.unwrap_or(0)).unwrap_or(0))
}

fn get_pieces(connection: &Connection, blob: i64) -> SqliteResult<BlobContent> {
    let length = size_of_pieces(connection, blob)?;
    if length == 0 {
        return Ok("".into());
    }
    let bytes = with_small_cache(connection, || {
        let mut bytes = Vec::with_capacity(length);
        let sql = "SELECT bytes FROM blob_pieces INDEXED BY blob_pieces_by_blob WHERE blob_number = ?1 ORDER BY number";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([blob])?;
        while let Some(row) = rows.next()? {
            let piece = row.get_ref(0)?.as_blob();
            bytes.extend_from_slice(piece.map_err(|_| corrupt())?);
        }
        Ok(bytes)
    })?;
    Ok(String::from_utf8(bytes).map_err(|_| corrupt())?.into())
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("a blob cannot be read".to_owned())
}

/// Runs a closure with a small page cache: pages of a large blob are needed once, and would
/// evict all others.
fn with_small_cache<T>(
    connection: &Connection,
    body: impl FnOnce() -> SqliteResult<T>,
) -> SqliteResult<T> {
    let previous_size: i64 = connection.pragma_query_value(None, "cache_size", |row| row.get(0))?;
    connection.pragma_update(None, "cache_size", -BLOB_CACHE_KIB)?;
    let result = body();
    connection.pragma_update(None, "cache_size", previous_size)?;
    result
}
