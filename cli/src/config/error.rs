//! Configuration errors. Each message names the key, its source and the remedy.

use super::layer::ValueSource;
use crate::printable;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An invalid configuration.
#[derive(Debug)]
pub(crate) struct ConfigError {
    /// Full key, including its tables; empty if the error concerns no key.
    key: String,
    source: ValueSource,
    kind: ConfigErrorKind,
    /// The file that was read, if known.
    file: Option<PathBuf>,
}

/// Kind of configuration error.
#[derive(Debug)]
pub(crate) enum ConfigErrorKind {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is not valid TOML.
    Syntax(String),
    /// Unknown key, with the closest valid key.
    UnknownKey(Option<String>),
    /// The value has the wrong type.
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    /// The value has the right type but is invalid.
    InvalidValue(String),
    /// A required value is missing.
    Missing(&'static str),
    /// Lists and tables cannot be set from the environment.
    NotInEnvironment,
}

impl ConfigError {
    pub(super) fn new(key: &str, place: ValueSource, wrong: ConfigErrorKind) -> Self {
        Self {
            key: key.to_owned(),
            source: place,
            kind: wrong,
            file: None,
        }
    }

    pub(super) fn unreadable(file: PathBuf, error: io::Error) -> Self {
        let error = Self::new("", ValueSource::Default, ConfigErrorKind::Unreadable(error));
        error.in_file(file)
    }

    pub(super) fn in_file(mut self, file: PathBuf) -> Self {
        self.file = Some(file);
        self
    }

    /// Writes the source, as in `interzone.toml, line 3: `, as far as known.
    fn write_source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref();
        let file = file.map(|file| printable::text(&file.to_string_lossy()));
        match (&self.source, file) {
            (ValueSource::Line(line), Some(file)) => write!(f, "{file}, line {line}: "),
            (ValueSource::Line(line), None) => write!(f, "line {line}: "),
            (ValueSource::Variable(name), _) => {
                write!(f, "environment variable {}: ", printable::text(name))
            }
            (ValueSource::Default, Some(file)) => write!(f, "{file}: "),
            (ValueSource::Default, None) => Ok(()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_source(f)?;
        let key = printable::text(&self.key);
        match &self.kind {
            ConfigErrorKind::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => f
                .write_str(
                    "no such file; set one with --config, or use `interzone up`, which needs none",
                ),
            ConfigErrorKind::Unreadable(error) => {
                write!(f, "cannot be read ({error}); use a readable file")
            }
            ConfigErrorKind::Syntax(message) => {
                // The parser's message has several lines.
                let message: Vec<_> = message.split_whitespace().collect();
                write!(f, "not valid TOML: {}", printable::text(&message.join(" ")))
            }
            ConfigErrorKind::UnknownKey(Some(near)) => {
                write!(f, "unknown key `{key}`; did you mean `{near}`?")
            }
            ConfigErrorKind::UnknownKey(None) => write!(
                f,
                "unknown key `{key}`; remove it, or see docs/config.md for the valid keys"
            ),
            ConfigErrorKind::WrongType { expected, found } => {
                write!(f, "`{key}` must be {expected}, not {found}")
            }
            ConfigErrorKind::InvalidValue(why) => write!(f, "`{key}`: {}", printable::text(why)),
            ConfigErrorKind::Missing(what) => write!(f, "`{key}` is missing: {what}"),
            ConfigErrorKind::NotInEnvironment => write!(
                f,
                "`{key}` cannot be set from the environment; set it in the file"
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ConfigErrorKind::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
