//! `interzone backup`: a copy of a store, also while a zone runs on it.

use crate::config::{FOLDER, StoreConfig, Surroundings};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::wiring::{self, StartError};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Copy the store to a file, also while a zone runs on it
///
/// All is as it was at one moment, and all that was acknowledged before is in it. The file is new, readable for its owner
/// alone, and has its name only when it has been verified; a file that is there is left as it is.
/// SQLite: the file is a database. PostgreSQL: the file is SQL for psql.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
docs/operations.md tells how to restore it.

Examples:
  interzone backup --config interzone.toml /var/backups/interzone-1.db
  interzone backup interzone-copy.db      (of the nearest folder of `interzone up`)"
)]
pub(crate) struct Backup {
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The configuration whose store is meant, of either zone
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,

    /// The folder of `interzone up` whose store is meant; else the nearest one
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Backup {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let made = wiring::backup(&self.store()?, &self.file).await;
        let made = made.map_err(StartError::Backup)?;
        let file = self.file.to_string_lossy();
        output::write(|out| match format {
            Format::Text => writeln!(
                out,
                "{}: {} bytes, {} tasks, schema {}; verified",
                printable::text(&file),
                made.bytes,
                made.tasks(),
                made.schema
            ),
            Format::Json => output::write_json(
                out,
                &json!({
                    "file": file,
                    "bytes": made.bytes,
                    "schema": made.schema,
                    "rows": made.rows.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                }),
            ),
        })?;
        Ok(Exit::Done)
    }

    fn store(&self) -> Result<StoreConfig, Failure> {
        if let Some(file) = &self.config {
            return Ok(StoreConfig::load(file)?);
        }
        let folder = self.folder.clone().or_else(|| Surroundings::look().folder);
        match folder.filter(|folder| folder.is_dir()) {
            Some(folder) => Ok(StoreConfig::of_folder(&folder, "interzone.db")),
            None => Err(Failure::Misuse(format!(
                "no store is known; name a configuration with --config, or the folder of \
                 `interzone up` ({FOLDER}) with --folder"
            ))),
        }
    }
}
