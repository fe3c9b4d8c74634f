//! Online backup as a SQL script for `psql`: the schema, and the rows of one snapshot.
//!
//! Written here instead of by `pg_dump`, so that no client program of the server's version is needed.

use super::options::PostgresOptions;
use super::{error, probe_server, schema};
use crate::backup::{BackupError, BackupSummary, PartialBackup, write_error};
use crate::codec::int_from_column;
use futures_util::TryStreamExt;
use interzone_hub::ports::StoreError;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use tokio_postgres::Client;

/// Starts a read-only snapshot transaction without time limits.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0";

/// Lists the tables in creation order, so that referenced tables come first.
const LIST_TABLES: &str = "
    SELECT relname::text, (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped)
    FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' ORDER BY pg_class.oid";

const LIST_SEQUENCES: &str = "
    SELECT relname::text FROM pg_class
    WHERE relnamespace = $1::text::regnamespace AND relkind = 'S' ORDER BY relname";

/// The last line of the dump. A file without it is incomplete.
const COMPLETE_MARKER: &str = "-- complete";

/// Ends the rows of a table in `COPY` format.
const COPY_TERMINATOR: &str = "\\.";

/// Copies the tables to a new file, readable by its owner only, as SQL for `psql`. Nodes may keep running: the
/// backup is one snapshot, and contains everything acknowledged before this call.
///
/// # Errors
/// The schema has no tables, `to` exists, the disk is full, or the server is lost. Then no file is left
/// in `to`.
pub async fn backup(
    url: &str,
    options: PostgresOptions,
    to: impl AsRef<Path>,
) -> Result<BackupSummary, BackupError> {
    let to = to.as_ref();
    let (_, client, _driver) = probe_server(url, &options).await?;
    let version = schema::existing_version(&client, &options.schema).await?;
    if version == 0 {
        return Err(StoreError::Unusable(format!(
            "there are no tables in the schema {:?}",
            options.schema
        ))
        .into());
    }
    let (partial, file) = PartialBackup::create(to)?;
    let mut dump = Dump {
        client: &client,
        schema: &options.schema,
        out: BufWriter::new(file),
        target: to,
    };
    let row_counts = dump.write(version).await?;
    drop(dump);
    let dumped_counts =
        count_dumped_rows(partial.temp_path()).map_err(|error| write_error(to, &error))?;
    if dumped_counts.as_ref() != Some(&row_counts) {
        let reason = "backup verification failed: row counts in the file differ".to_owned();
        return Err(StoreError::Corrupt(reason).into());
    }
    Ok(BackupSummary {
        schema: int_from_column("a version", i64::from(version))?,
        bytes: partial.finish()?,
        rows: row_counts,
    })
}

struct Dump<'a> {
    client: &'a Client,
    schema: &'a str,
    out: BufWriter<File>,
    target: &'a Path,
}

impl Dump<'_> {
    /// Writes the whole dump; returns the row count of each table.
    async fn write(&mut self, version: i32) -> Result<Vec<(String, u64)>, BackupError> {
        let to_error = |error: tokio_postgres::Error| error::to_store_error(&error);
        self.client
            .batch_execute(BEGIN_SNAPSHOT)
            .await
            .map_err(to_error)?;
        let tables = self.client.query(LIST_TABLES, &[&self.schema]).await;
        let tables: Vec<(String, String)> = tables
            .map_err(to_error)?
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        let schema = self.schema;
        self.write_line(&format!(
            "-- Interzone: schema {schema}, version {version}. Restore it with: psql --file=THIS DATABASE\n\
             \\set ON_ERROR_STOP on\n\
             BEGIN;\n\
             SET LOCAL client_encoding = 'UTF8';\n\
             SET LOCAL standard_conforming_strings = on;\n\
             CREATE SCHEMA \"{schema}\";\n\
             SET LOCAL search_path = \"{schema}\";"
        ))?;
        for sql in schema::scripts_between(0, version) {
            self.write_line(sql)?;
        }
        let names: Vec<String> = tables.iter().map(|(name, _)| quote_ident(name)).collect();
        self.write_line(&format!("TRUNCATE {};", names.join(", ")))?;
        let mut rows = Vec::with_capacity(tables.len());
        for (name, columns) in tables {
            let number = self.copy_table(&name, &columns).await?;
            rows.push((name, number));
        }
        // Sequences are not part of the snapshot and may be ahead of the tables, which is harmless.
        let sequences = self.client.query(LIST_SEQUENCES, &[&self.schema]).await;
        for row in sequences.map_err(to_error)? {
            let name = quote_ident(row.get(0));
            let sql = format!("SELECT last_value, is_called FROM {name}");
            let state = self.client.query_one(&sql, &[]).await.map_err(to_error)?;
            let (last, is_called): (i64, bool) = (state.get(0), state.get(1));
            self.write_line(&format!(
                "SELECT pg_catalog.setval('{name}', {last}, {is_called});"
            ))?;
        }
        self.client
            .batch_execute("COMMIT")
            .await
            .map_err(to_error)?;
        self.write_line("COMMIT;")?;
        self.write_line(COMPLETE_MARKER)?;
        self.out
            .flush()
            .map_err(|error| write_error(self.target, &error))?;
        Ok(rows)
    }

    /// Writes the rows of a table and checks that none is missing.
    async fn copy_table(&mut self, name: &str, columns: &str) -> Result<u64, BackupError> {
        let to_error = |error: tokio_postgres::Error| error::to_store_error(&error);
        let table = quote_ident(name);
        self.write_line(&format!("COPY {table} ({columns}) FROM stdin;"))?;
        let sql = format!("COPY {table} ({columns}) TO STDOUT");
        let stream = self.client.copy_out(&sql).await.map_err(to_error)?;
        let mut stream = std::pin::pin!(stream);
        let mut rows = 0;
        while let Some(bytes) = stream.try_next().await.map_err(to_error)? {
            // Newlines within values are escaped, so each one ends a row.
            rows += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let written = self.out.write_all(&bytes);
            written.map_err(|error| write_error(self.target, &error))?;
        }
        self.write_line(COPY_TERMINATOR)?;
        let sql = format!("SELECT count(*) FROM {table}");
        let counted = self.client.query_one(&sql, &[]).await.map_err(to_error)?;
        if int_from_column::<u64>("a count", counted.get(0))? == rows {
            Ok(rows)
        } else {
            let reason = format!("backup is incomplete: not all rows of {name} were read");
            Err(StoreError::Corrupt(reason).into())
        }
    }

    fn write_line(&mut self, text: &str) -> Result<(), BackupError> {
        let written = writeln!(self.out, "{text}");
        written.map_err(|error| write_error(self.target, &error))
    }
}

fn quote_ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Counts the rows of each table in a dump; `None` if the dump is incomplete.
fn count_dumped_rows(path: &Path) -> std::io::Result<Option<Vec<(String, u64)>>> {
    let mut file = BufReader::new(File::open(path)?);
    let (mut rows, mut is_in_rows, mut line) = (Vec::new(), false, Vec::new());
    loop {
        let is_complete = line.strip_suffix(b"\n") == Some(COMPLETE_MARKER.as_bytes());
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(is_complete.then_some(rows));
        }
        let head = line.strip_prefix(b"COPY \"").unwrap_or_default();
        if is_in_rows {
            is_in_rows = line.strip_suffix(b"\n") != Some(COPY_TERMINATOR.as_bytes());
            if let (true, Some((_, number))) = (is_in_rows, rows.last_mut()) {
                *number += 1;
            }
        } else if let Some(end) = head.iter().position(|byte| *byte == b'"') {
            let (name, _) = head.split_at(end);
            rows.push((String::from_utf8_lossy(name).into_owned(), 0));
            is_in_rows = true;
        }
    }
}
