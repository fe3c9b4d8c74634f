//! A backup of the tables as SQL that `psql` runs: how they are made, and what is in them at one moment.
//!
//! Made here and not by `pg_dump`, so that it needs no program of the server's version beside this one.

use super::options::PostgresOptions;
use super::{fault, first_look, schema};
use crate::backup::{Backup, BackupError, Draft, failed};
use crate::codec::count;
use futures_util::TryStreamExt;
use interzone_hub::ports::StoreError;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use tokio_postgres::Client;

/// Reads everything as it is at one moment, for as long as that takes.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0";

/// The tables in the order in which they were made, so that what is referred to comes first.
const TABLES: &str = "
    SELECT relname::text, (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped)
    FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' ORDER BY pg_class.oid";

const SEQUENCES: &str = "
    SELECT relname::text FROM pg_class
    WHERE relnamespace = $1::text::regnamespace AND relkind = 'S' ORDER BY relname";

/// The last line. A file without it is not whole.
const COMPLETE: &str = "-- complete";

/// What ends the rows of a table.
const END_OF_ROWS: &str = "\\.";

/// Copies the tables to a new file, which no one but its owner can read, as SQL for `psql`. Nodes may run on them
/// meanwhile: all is as it was at one moment, and holds all that was acknowledged before this was called.
///
/// # Errors
/// There are no tables of ours, there is a file in `to`, there is no room, or the server goes away. Then nothing is left
/// in `to`.
pub async fn backup(
    url: &str,
    options: PostgresOptions,
    to: impl AsRef<Path>,
) -> Result<Backup, BackupError> {
    let to = to.as_ref();
    let (_, client, _driver) = first_look(url, &options).await?;
    let version = schema::version_of(&client, &options.schema).await?;
    if version == 0 {
        return Err(StoreError::Unusable(format!(
            "there are no tables in the schema {:?}",
            options.schema
        ))
        .into());
    }
    let (draft, file) = Draft::begin(to)?;
    let mut dump = Dump {
        client: &client,
        schema: &options.schema,
        out: BufWriter::new(file),
        target: to,
    };
    let rows = dump.write(version).await?;
    drop(dump);
    let found = read_back(draft.path()).map_err(|error| failed(to, &error))?;
    if found.as_ref() != Some(&rows) {
        let why = "what is in the file is not what was written".to_owned();
        return Err(StoreError::Corrupt(why).into());
    }
    Ok(Backup {
        schema: count("a version", i64::from(version))?,
        bytes: draft.finish()?,
        rows,
    })
}

struct Dump<'a> {
    client: &'a Client,
    schema: &'a str,
    out: BufWriter<File>,
    target: &'a Path,
}

impl Dump<'_> {
    /// Writes all of it; answers how many rows each table has.
    async fn write(&mut self, version: i32) -> Result<Vec<(String, u64)>, BackupError> {
        let refused = |error: tokio_postgres::Error| fault::answer(&error);
        self.client.batch_execute(BEGIN).await.map_err(refused)?;
        let tables = self.client.query(TABLES, &[&self.schema]).await;
        let tables: Vec<(String, String)> = tables
            .map_err(refused)?
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        let schema = self.schema;
        self.line(&format!(
            "-- Interzone: schema {schema}, version {version}. Restore it with: psql --file=THIS DATABASE\n\
             \\set ON_ERROR_STOP on\n\
             BEGIN;\n\
             SET LOCAL client_encoding = 'UTF8';\n\
             SET LOCAL standard_conforming_strings = on;\n\
             CREATE SCHEMA \"{schema}\";\n\
             SET LOCAL search_path = \"{schema}\";\n\
             {};",
            schema::META
        ))?;
        for sql in schema::made_until(version) {
            self.line(sql)?;
        }
        let names: Vec<String> = tables.iter().map(|(name, _)| quoted(name)).collect();
        self.line(&format!("TRUNCATE {};", names.join(", ")))?;
        let mut rows = Vec::with_capacity(tables.len());
        for (name, columns) in tables {
            let number = self.copy(&name, &columns).await?;
            rows.push((name, number));
        }
        // They go on while the tables stand still, and so are ahead of them, which harms nothing.
        let sequences = self.client.query(SEQUENCES, &[&self.schema]).await;
        for row in sequences.map_err(refused)? {
            let name = quoted(row.get(0));
            let sql = format!("SELECT last_value, is_called FROM {name}");
            let state = self.client.query_one(&sql, &[]).await.map_err(refused)?;
            let (last, is_called): (i64, bool) = (state.get(0), state.get(1));
            self.line(&format!(
                "SELECT pg_catalog.setval('{name}', {last}, {is_called});"
            ))?;
        }
        self.client.batch_execute("COMMIT").await.map_err(refused)?;
        self.line("COMMIT;")?;
        self.line(COMPLETE)?;
        self.out
            .flush()
            .map_err(|error| failed(self.target, &error))?;
        Ok(rows)
    }

    /// Writes the rows of a table, and looks whether they are all.
    async fn copy(&mut self, name: &str, columns: &str) -> Result<u64, BackupError> {
        let refused = |error: tokio_postgres::Error| fault::answer(&error);
        let table = quoted(name);
        self.line(&format!("COPY {table} ({columns}) FROM stdin;"))?;
        let sql = format!("COPY {table} ({columns}) TO STDOUT");
        let stream = self.client.copy_out(&sql).await.map_err(refused)?;
        let mut stream = std::pin::pin!(stream);
        let mut rows = 0;
        while let Some(bytes) = stream.try_next().await.map_err(refused)? {
            // Within a value it is spelled by other letters.
            rows += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let written = self.out.write_all(&bytes);
            written.map_err(|error| failed(self.target, &error))?;
        }
        self.line(END_OF_ROWS)?;
        let sql = format!("SELECT count(*) FROM {table}");
        let counted = self.client.query_one(&sql, &[]).await.map_err(refused)?;
        if count::<u64>("a count", counted.get(0))? == rows {
            Ok(rows)
        } else {
            let why = format!("not all rows of {name} were read");
            Err(StoreError::Corrupt(why).into())
        }
    }

    fn line(&mut self, text: &str) -> Result<(), BackupError> {
        let written = writeln!(self.out, "{text}");
        written.map_err(|error| failed(self.target, &error))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How many rows each table has in a file, if the file is whole.
fn read_back(path: &Path) -> std::io::Result<Option<Vec<(String, u64)>>> {
    let mut file = BufReader::new(File::open(path)?);
    let (mut rows, mut within, mut line) = (Vec::new(), false, Vec::new());
    loop {
        let is_complete = line.strip_suffix(b"\n") == Some(COMPLETE.as_bytes());
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(is_complete.then_some(rows));
        }
        let head = line.strip_prefix(b"COPY \"").unwrap_or_default();
        if within {
            within = line.strip_suffix(b"\n") != Some(END_OF_ROWS.as_bytes());
            if let (true, Some((_, number))) = (within, rows.last_mut()) {
                *number += 1;
            }
        } else if let Some(end) = head.iter().position(|byte| *byte == b'"') {
            let (name, _) = head.split_at(end);
            rows.push((String::from_utf8_lossy(name).into_owned(), 0));
            within = true;
        }
    }
}
