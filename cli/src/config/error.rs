//! What can be wrong with a configuration, in words that name the key, the place and the way out.

use super::layer::Place;
use crate::printable;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug)]
pub(crate) struct ConfigError {
    /// The key, with the names of its tables; empty where there is none to name.
    key: String,
    place: Place,
    wrong: Wrong,
    /// The file that was read, once that is known.
    file: Option<PathBuf>,
}

/// What is wrong.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is no TOML.
    Syntax(String),
    /// No such key; the nearest one there is.
    Unknown(Option<String>),
    /// Another kind of value is needed.
    Kind {
        expected: &'static str,
        found: &'static str,
    },
    /// The value has the right kind and cannot be used all the same.
    Value(String),
    /// There must be a value.
    Missing(&'static str),
    /// A list or a table cannot come from the environment.
    NotInEnvironment,
}

impl ConfigError {
    pub(super) fn new(key: &str, place: Place, wrong: Wrong) -> Self {
        Self {
            key: key.to_owned(),
            place,
            wrong,
            file: None,
        }
    }

    pub(super) fn unreadable(file: PathBuf, error: io::Error) -> Self {
        let error = Self::new("", Place::Default, Wrong::Unreadable(error));
        error.in_file(file)
    }

    pub(super) fn in_file(mut self, file: PathBuf) -> Self {
        self.file = Some(file);
        self
    }

    /// `interzone.toml, line 3: `, or as much of it as is known.
    fn write_place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref();
        let file = file.map(|file| printable::text(&file.to_string_lossy()));
        match (&self.place, file) {
            (Place::Line(line), Some(file)) => write!(f, "{file}, line {line}: "),
            (Place::Line(line), None) => write!(f, "line {line}: "),
            (Place::Variable(name), _) => {
                write!(f, "environment variable {}: ", printable::text(name))
            }
            (Place::Default, Some(file)) => write!(f, "{file}: "),
            (Place::Default, None) => Ok(()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_place(f)?;
        let key = printable::text(&self.key);
        match &self.wrong {
            Wrong::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => f.write_str(
                "no such file; name one with --config, or try `interzone up`, which needs none",
            ),
            Wrong::Unreadable(error) => {
                write!(f, "cannot be read ({error}); name a file that can")
            }
            Wrong::Syntax(message) => {
                // The parser says it in several lines.
                let message: Vec<_> = message.split_whitespace().collect();
                write!(f, "not valid TOML: {}", printable::text(&message.join(" ")))
            }
            Wrong::Unknown(Some(near)) => {
                write!(f, "unknown key `{key}`; did you mean `{near}`?")
            }
            Wrong::Unknown(None) => write!(
                f,
                "unknown key `{key}`; remove it, or see docs/config.md for the keys there are"
            ),
            Wrong::Kind { expected, found } => {
                write!(f, "`{key}` must be {expected}, and this is {found}")
            }
            Wrong::Value(why) => write!(f, "`{key}`: {}", printable::text(why)),
            Wrong::Missing(what) => write!(f, "`{key}` is missing: {what}"),
            Wrong::NotInEnvironment => write!(
                f,
                "`{key}` cannot be set from the environment; set it in the file"
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.wrong {
            Wrong::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
