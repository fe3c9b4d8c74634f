//! `interzone backup`: copies a store, even while a zone is running on it.

use crate::config::{CliEnvironment, DATA_DIR, StoreConfig};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::wiring::{self, StartError};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Back up the store to a file, even while a zone is running
///
/// A consistent snapshot that includes every write acknowledged before it. The file is readable only by its owner
/// and gets its name only after it has been verified; an existing file is not overwritten.
/// SQLite: the file is a database. PostgreSQL: the file is SQL for psql.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
docs/operations.md explains how to restore it.

Examples:
  interzone backup --config interzone.toml /var/backups/interzone-1.db
  interzone backup interzone-copy.db      (data of the nearest `interzone up`)"
)]
pub(crate) struct Backup {
    /// File to create
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Configuration file of either zone
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,

    /// Data folder of `interzone up` [default: the nearest one]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Backup {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let backup = wiring::backup(&self.store()?, &self.file).await;
        let backup = backup.map_err(StartError::Backup)?;
        let file = self.file.to_string_lossy();
        output::write(|out| match format {
            OutputFormat::Text => writeln!(
                out,
                "{}: {} bytes, {} tasks, schema {}; verified",
                printable::text(&file),
                backup.bytes,
                backup.tasks(),
                backup.schema
            ),
            OutputFormat::Json => output::write_json(
                out,
                &json!({
                    "file": file,
                    "bytes": backup.bytes,
                    "schema": backup.schema,
                    "rows": backup.rows.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                }),
            ),
        })?;
        Ok(Exit::Done)
    }

    fn store(&self) -> Result<StoreConfig, Failure> {
        if let Some(file) = &self.config {
            return Ok(StoreConfig::load(file)?);
        }
        let folder = self
            .folder
            .clone()
            .or_else(|| CliEnvironment::load().folder);
        match folder.filter(|folder| folder.is_dir()) {
            Some(folder) => Ok(StoreConfig::in_data_dir(&folder, "interzone.db")),
            None => Err(Failure::Misuse(format!(
                "no store found; pass a configuration with --config, or the folder of \
                 `interzone up` ({DATA_DIR}) with --folder"
            ))),
        }
    }
}
