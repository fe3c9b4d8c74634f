//! Configuration errors. Each message names the key, its source and the remedy.

use super::layer::ValueSource;
use crate::printable;
use serde::de::{Expected, Unexpected};
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
    /// The key is complete, and the source is known.
    is_located: bool,
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
        expected: String,
        found: &'static str,
    },
    /// The value has the right type but is invalid.
    InvalidValue(String),
    /// A required value is missing.
    Missing(String),
    /// Lists and tables cannot be set from the environment.
    NotInEnvironment,
}

impl ConfigError {
    pub(super) fn new(key: &str, place: ValueSource, wrong: ConfigErrorKind) -> Self {
        Self {
            key: key.to_owned(),
            source: place,
            kind: wrong,
            is_located: true,
            file: None,
        }
    }

    /// An error that rejects a value.
    pub(super) fn refused(key: &str, source: &ValueSource, reason: impl Into<String>) -> Self {
        let kind = ConfigErrorKind::InvalidValue(reason.into());
        Self::new(key, source.clone(), kind)
    }

    /// An error whose key and source are set by [`with_location`](Self::with_location).
    fn relative(key: &str, kind: ConfigErrorKind) -> Self {
        Self {
            is_located: false,
            ..Self::new(key, ValueSource::Default, kind)
        }
    }

    /// Sets the value or table that the error is about, unless it is known already.
    pub(super) fn with_location(mut self, path: &str, source: &ValueSource) -> Self {
        if self.is_located {
            return self;
        }
        self.key = match (path, self.key.as_str()) {
            (path, "") => path.to_owned(),
            ("", key) => key.to_owned(),
            (path, key) => format!("{path}.{key}"),
        };
        if let ConfigErrorKind::Missing(hint) = &mut self.kind
            && hint.is_empty()
        {
            required_key_hint(&self.key).clone_into(hint);
        }
        self.source = source.clone();
        self.is_located = true;
        self
    }

    /// Returns true if a value of the right type is invalid.
    pub(super) fn is_about_value(&self) -> bool {
        matches!(self.kind, ConfigErrorKind::InvalidValue(_))
    }

    /// Returns true if the value should be a table.
    pub(super) fn expects_table(&self) -> bool {
        matches!(&self.kind, ConfigErrorKind::WrongType { expected, .. } if expected == "a table")
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
                    "no such file; give a configuration file with --config, or use `interzone up`, which needs none",
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

/// Returns what to write for a required key.
fn required_key_hint(key: &str) -> &'static str {
    let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
    match (table.split('[').next().unwrap_or_default(), key) {
        ("agents", "id") if table.contains("skills") => "callers select a skill by its id",
        ("agents", "id") => "callers select an agent by its id",
        ("agents", "kind") => "write \"demo\", \"command\", \"llm\" or \"remote\"",
        ("agents", "command") => {
            "write the program and its arguments, as in [\"python3\", \"agent.py\"]"
        }
        ("agents", "provider") => "write \"openai\", \"anthropic\" or \"bedrock\"",
        ("agents", "model") => "set the provider's model name",
        ("agents", "region") => "set the model's AWS region",
        ("oauth.introspection", "url") => "set the introspection endpoint",
        ("oauth.introspection", _) => "the issuer requires client credentials for introspection",
        _ => "set it, as described in docs/config.md",
    }
}

impl serde::de::Error for ConfigError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::relative("", ConfigErrorKind::InvalidValue(reason.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Str(_) => "a string",
            Unexpected::Signed(_) | Unexpected::Unsigned(_) => "a number",
            Unexpected::Float(_) => "a fraction",
            Unexpected::Bool(_) => "a boolean",
            _ => "another value",
        };
        let expected = expected.to_string();
        Self::relative("", ConfigErrorKind::WrongType { expected, found })
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(match expected.to_string().as_str() {
            "u32" => format!("write a number between 0 and {}", u32::MAX),
            "u64" | "usize" => "write a number of at least 0".to_owned(),
            expected => format!("write {expected}"),
        })
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let quoted: Vec<String> = expected.iter().map(|name| format!("{name:?}")).collect();
        Self::custom(match quoted.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("write {} or {last}", others.join(", "))
            }
            _ => format!("write {}", quoted.concat()),
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::relative(field, ConfigErrorKind::Missing(String::new()))
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

/// Returns the known key closest to `key`, if it is close enough (edit distance of about a third).
pub(super) fn suggest<'k>(
    key: &str,
    known_keys: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    known_keys
        .into_iter()
        .map(|candidate| (distance(key, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = *cell;
            left = change.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, suggest};

    #[test]
    fn edit_distance_is_computed() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lisen", "listen"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn typos_are_suggested_and_other_keys_are_not() {
        let known_keys = ["listen", "public_url", "always_200"];
        assert_eq!(suggest("lisetn", known_keys), Some("listen"));
        assert_eq!(suggest("public-url", known_keys), Some("public_url"));
        assert_eq!(suggest("port", known_keys), None);
    }
}
