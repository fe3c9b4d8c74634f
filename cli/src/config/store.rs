//! `[store]`: where everything is kept.

use super::error::ConfigError;
use super::section::Section;
use super::zone::{HAS_A_DEFAULT, count, text};
use super::{Layers, open, variables};
use interzone_edge::Secret;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, ConfigError>;

/// Where everything is kept.
#[derive(Debug)]
pub(crate) struct StoreConfig {
    pub(crate) url: StoreUrl,
    /// SQLite: threads that read.
    pub(crate) readers: usize,
    /// PostgreSQL: connections at most.
    pub(crate) connections: usize,
    /// PostgreSQL: the schema of our tables.
    pub(crate) schema: String,
    /// PostgreSQL: the CA that proves the server.
    pub(crate) ca: Option<PathBuf>,
}

/// Which store.
#[derive(Debug)]
pub(crate) enum StoreUrl {
    /// In this file.
    Sqlite(PathBuf),
    /// On a server. The URL may hold a password.
    Postgres(Secret),
}

impl StoreConfig {
    /// The store of this name in a folder of `interzone up`.
    pub(crate) fn of_folder(folder: &Path, name: &str) -> Self {
        Self {
            url: StoreUrl::Sqlite(folder.join(name)),
            readers: 1,
            connections: 1,
            schema: String::new(),
            ca: None,
        }
    }

    /// Reads where a zone of either kind keeps everything, and nothing else: a backup need not be able to
    /// read the other secrets.
    ///
    /// # Errors
    /// The file cannot be read, or something in that section is wrong.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        let store = Layers::read(&text, variables()).and_then(|Layers { table, .. }| {
            Self::read(Section::whole(table, folder).section("store")?, folder)
        });
        store.map_err(|error| error.in_file(file.to_owned()))
    }

    pub(super) fn read(mut section: Section<'_>, folder: &Path) -> Result<Self> {
        let (url, said) = match (section.text("url")?, section.text("url_file")?) {
            (Some(url), Some(_)) if !url.is_default() => {
                return Err(url.refuse("`url_file` is set too; keep one of the two"));
            }
            (_, Some(file)) => {
                let said = section.secret_in(&file)?;
                (file, said)
            }
            (Some(url), None) => {
                let said = Secret::new(url.value.as_str());
                (url, said)
            }
            (None, None) => return Err(section.missing("url", HAS_A_DEFAULT)),
        };
        let checked = match said.expose().split_once(':') {
            Some(("sqlite", path)) => match path.strip_prefix("//").unwrap_or(path) {
                "" => return Err(url.refuse("name a file, as in \"sqlite:interzone.db\"")),
                path => StoreUrl::Sqlite(folder.join(path)),
            },
            Some(("postgres" | "postgresql", _)) => StoreUrl::Postgres(said),
            // The value is not repeated: what was meant to be a URL may hold a password.
            _ => {
                return Err(
                    url.refuse("write \"sqlite:FILE\" or \"postgres://user@host/database\"")
                );
            }
        };
        let config = Self {
            url: checked,
            readers: count(&mut section, "readers", 1)?,
            connections: count(&mut section, "connections", 1)?,
            schema: text(&mut section, "schema")?,
            ca: section.path("ca")?,
        };
        section.end()?;
        Ok(config)
    }
}
