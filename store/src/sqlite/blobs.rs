//! Large contents on their way into the file and out of it. The engine copies a value several times
//! before it is written, and keeps the pages; so what is large goes piece by piece, and few pages are
//! kept on the way.

use super::fault::Outcome;
use super::job::Session;
use super::rows::{first, text};
use interzone_hub::ports::StoreError;
use interzone_hub::{Blob, BlobId, BlobText};
use rusqlite::{Connection, params};

/// What is longer than this, in bytes, is kept in pieces of this length.
const PIECE: usize = 128 * 1024;

/// How much memory, in KiB, pages may take meanwhile.
const LITTLE: i64 = 256;

/// Writes a blob, unless it is there.
pub(super) fn put(session: &Session<'_>, subject: Option<&str>, blob: &Blob) -> Outcome<()> {
    let id = blob.id.as_bytes();
    // Looking first is cheaper than handing over bytes that are there already.
    let there = session.first("SELECT 1 FROM blobs WHERE id = ?1", [id], |_| Ok(()))?;
    if there.is_none() {
        let sql = "INSERT INTO blobs (id, bytes) VALUES (?1, ?2)";
        if blob.bytes.len() <= PIECE {
            session.run(sql, params![id, &*blob.bytes])?;
        } else {
            session.run(sql, params![id, ""])?;
            let row = session.connection.last_insert_rowid();
            put_pieces(session, row, blob.bytes.as_bytes())?;
        }
    }
    let sql = "INSERT OR IGNORE INTO blob_refs (subject, blob) VALUES (?1, ?2)";
    session.run(sql, params![subject, id]).map(|_| ())
}

fn put_pieces(session: &Session<'_>, blob: i64, bytes: &[u8]) -> Outcome<()> {
    with_few_pages(session.connection, || {
        let sql = "INSERT INTO blob_pieces (blob, bytes) VALUES (?1, ?2)";
        for piece in bytes.chunks(PIECE) {
            session.run(sql, params![blob, piece])?;
        }
        Ok(())
    })
}

/// Removes a blob that nobody needs any more; answers how many that were.
pub(super) fn remove(session: &Session<'_>, id: &[u8]) -> Outcome<u64> {
    let sql = "DELETE FROM blobs WHERE id = ?1 \
        AND NOT EXISTS (SELECT 1 FROM blob_refs INDEXED BY blob_refs_blob WHERE blob = ?1) RETURNING row";
    let Some(row) = session.first(sql, [id], |row| Ok(row.get::<_, i64>(0)?))? else {
        return Ok(0);
    };
    session.run(
        "DELETE FROM blob_pieces INDEXED BY blob_pieces_of_blob WHERE blob = ?1",
        [row],
    )?;
    Ok(1)
}

/// Reads a blob, if there is one.
pub(super) fn get(connection: &Connection, id: &BlobId) -> Outcome<Option<BlobText>> {
    let sql = "SELECT row, bytes FROM blobs WHERE id = ?1";
    first(connection, sql, [id.as_bytes()], |row| {
        match text(row, 1)? {
            // As long as this row is looked at, nobody takes the pieces away from under it.
            "" => get_pieces(connection, row.get(0)?),
            whole => Ok(whole.into()),
        }
    })
}

/// How many bytes a blob has, if there is one. None of them is read.
pub(super) fn size(connection: &Connection, id: &BlobId) -> Outcome<Option<usize>> {
    let sql = "SELECT row, octet_length(bytes) FROM blobs WHERE id = ?1";
    first(connection, sql, [id.as_bytes()], |row| {
        match row.get::<_, i64>(1)? {
            0 => size_of_pieces(connection, row.get(0)?),
            whole => Ok(usize::try_from(whole).unwrap_or(usize::MAX)),
        }
    })
}

fn size_of_pieces(connection: &Connection, blob: i64) -> Outcome<usize> {
    let sql = "SELECT coalesce(sum(octet_length(bytes)), 0) FROM blob_pieces INDEXED BY blob_pieces_of_blob WHERE blob = ?1";
    let length = first(connection, sql, [blob], |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(usize::try_from(length.unwrap_or(0)).unwrap_or(0))
}

fn get_pieces(connection: &Connection, blob: i64) -> Outcome<BlobText> {
    let length = size_of_pieces(connection, blob)?;
    if length == 0 {
        return Ok("".into());
    }
    let bytes = with_few_pages(connection, || {
        let mut bytes = Vec::with_capacity(length);
        let sql = "SELECT bytes FROM blob_pieces INDEXED BY blob_pieces_of_blob WHERE blob = ?1 ORDER BY row";
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

/// Does something during which few pages are kept: those of a large content are needed once, and would
/// push out all others.
fn with_few_pages<T>(connection: &Connection, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let usual: i64 = connection.pragma_query_value(None, "cache_size", |row| row.get(0))?;
    connection.pragma_update(None, "cache_size", -LITTLE)?;
    let done = work();
    connection.pragma_update(None, "cache_size", usual)?;
    done
}
