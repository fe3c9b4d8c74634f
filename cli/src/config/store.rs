//! `[store]`: the database.

use super::error::ConfigError;
use super::section::Section;
use super::zone::{DEFAULT_MISSING, required_count, required_text};
use super::{MergedConfig, open, variables};
use interzone_edge::Secret;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, ConfigError>;

/// Database settings.
#[derive(Debug)]
pub(crate) struct StoreConfig {
    pub(crate) url: StoreUrl,
    /// SQLite: reader threads.
    pub(crate) readers: usize,
    /// PostgreSQL: maximum connections.
    pub(crate) connections: usize,
    /// PostgreSQL: schema of the tables.
    pub(crate) schema: String,
    /// PostgreSQL: CA that the server certificate is verified with.
    pub(crate) ca: Option<PathBuf>,
}

/// Database URL.
#[derive(Debug)]
pub(crate) enum StoreUrl {
    /// Path of the SQLite file.
    Sqlite(PathBuf),
    /// PostgreSQL URL, which may contain a password.
    Postgres(Secret),
}

impl StoreConfig {
    /// Returns the store named `name` in a data folder of `interzone up`.
    pub(crate) fn in_data_dir(folder: &Path, name: &str) -> Self {
        Self {
            url: StoreUrl::Sqlite(folder.join(name)),
            readers: 1,
            connections: 1,
            schema: String::new(),
            ca: None,
        }
    }

    /// Reads `[store]` of a zone of either kind, and nothing else: a backup needs no access to the other
    /// secrets.
    ///
    /// # Errors
    /// The file cannot be read, or that section contains an invalid setting.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        let store =
            MergedConfig::read(&text, variables()).and_then(|MergedConfig { table, .. }| {
                Self::read(Section::root(table, folder).section("store")?, folder)
            });
        store.map_err(|error| error.in_file(file.to_owned()))
    }

    pub(super) fn read(mut section: Section<'_>, folder: &Path) -> Result<Self> {
        let (url, database_url) = match (section.text("url")?, section.text("url_file")?) {
            (Some(url), Some(_)) if !url.is_default() => {
                return Err(url.refuse("`url_file` is set too; keep one of the two"));
            }
            (_, Some(file)) => {
                let database_url = section.read_secret_file(&file)?;
                (file, database_url)
            }
            (Some(url), None) => {
                let database_url = Secret::new(url.value.as_str());
                (url, database_url)
            }
            (None, None) => return Err(section.missing("url", DEFAULT_MISSING)),
        };
        let checked = match database_url.expose().split_once(':') {
            Some(("sqlite", path)) => match path.strip_prefix("//").unwrap_or(path) {
                "" => return Err(url.refuse("name a file, as in \"sqlite:interzone.db\"")),
                path => StoreUrl::Sqlite(folder.join(path)),
            },
            Some(("postgres" | "postgresql", _)) => StoreUrl::Postgres(database_url),
            // The value is not included in the message: it may contain a password.
            _ => {
                return Err(
                    url.refuse("write \"sqlite:FILE\" or \"postgres://user@host/database\"")
                );
            }
        };
        let config = Self {
            url: checked,
            readers: required_count(&mut section, "readers", 1)?,
            connections: required_count(&mut section, "connections", 1)?,
            schema: required_text(&mut section, "schema")?,
            ca: section.path("ca")?,
        };
        section.finish()?;
        Ok(config)
    }
}
