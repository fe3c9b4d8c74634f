//! Typed reader of one TOML table. Keys that were not read when the reading ends are rejected as unknown, so
//! the reading code is the list of valid keys.

use super::error::{ConfigError, ConfigErrorKind};
use super::layer::{Node, Table, Value, ValueSource};
use super::suggest::suggest;
use super::units;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

mod secrets;

pub(crate) use secrets::SecretRef;

type Result<T> = std::result::Result<T, ConfigError>;

/// Expected value of a path key, for error messages.
const EXPECTED_PATH: &str = "the path of a file";

/// A table that is being read.
pub(super) struct Section<'a> {
    /// Full name, including the parent tables.
    path: String,
    source: ValueSource,
    table: Table,
    known_keys: Vec<&'static str>,
    /// Base of relative paths.
    folder: &'a Path,
}

/// A parsed value with its key and source, to report errors about it.
pub(super) struct ConfigValue<T> {
    pub(super) value: T,
    key: String,
    source: ValueSource,
}

impl<T> ConfigValue<T> {
    /// Returns an error that rejects this value.
    pub(super) fn refuse(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::new(
            &self.key,
            self.source.clone(),
            ConfigErrorKind::InvalidValue(reason.into()),
        )
    }

    /// Returns true if the value comes from the defaults.
    pub(super) fn is_default(&self) -> bool {
        matches!(self.source, ValueSource::Default)
    }
}

impl<'a> Section<'a> {
    /// Creates the section for the root table.
    pub(super) fn root(table: Table, folder: &'a Path) -> Self {
        Self {
            path: String::new(),
            source: ValueSource::Default,
            table,
            known_keys: Vec::new(),
            folder,
        }
    }

    /// Reads a table; an absent one counts as empty.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Self> {
        Ok(self.optional_section(key)?.unwrap_or_else(|| Section {
            path: self.full_key(key),
            source: self.source.clone(),
            table: Table::new(),
            known_keys: Vec::new(),
            folder: self.folder,
        }))
    }

    /// Reads an optional table.
    pub(super) fn optional_section(&mut self, key: &'static str) -> Result<Option<Self>> {
        self.take(key, "a table", |value| match value {
            Value::Table(table) => Ok(table),
            other => Err(other),
        })
        .map(|found| {
            found.map(|found| Section {
                path: found.key,
                source: found.source,
                table: found.value,
                known_keys: Vec::new(),
                folder: self.folder,
            })
        })
    }

    /// Reads a list of tables.
    pub(super) fn sections(&mut self, key: &'static str) -> Result<Vec<Self>> {
        let list = self.take(key, "a list of tables", |value| match value {
            Value::List(nodes) => Ok(nodes),
            other => Err(other),
        })?;
        let Some(list) = list else {
            return Ok(Vec::new());
        };
        let section = |(index, node): (usize, Node)| match node.value {
            Value::Table(table) => Ok(Section {
                path: format!("{}[{index}]", list.key),
                source: node.source,
                table,
                known_keys: Vec::new(),
                folder: self.folder,
            }),
            other => Err(ConfigError::new(
                &format!("{}[{index}]", list.key),
                node.source,
                ConfigErrorKind::WrongType {
                    expected: "a table",
                    found: other.type_name(),
                },
            )),
        };
        list.value.into_iter().enumerate().map(section).collect()
    }

    /// Reads a string.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<ConfigValue<String>>> {
        self.take(key, "a string", into_text)
    }

    /// Reads a string and parses it.
    pub(super) fn parsed<T: FromStr>(
        &mut self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<ConfigValue<T>>> {
        let Some(found) = self.text(key)? else {
            return Ok(None);
        };
        match found.value.parse() {
            Ok(value) => Ok(Some(ConfigValue {
                value,
                key: found.key,
                source: found.source,
            })),
            Err(_) => Err(found.refuse(format!("write {expected}"))),
        }
    }

    /// Reads a list of strings; a single string counts as a list of one.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<ConfigValue<String>>> {
        let found = self.take(key, "a list of strings", |value| match value {
            Value::List(nodes) => Ok(nodes),
            Value::Text(_) => Ok(vec![Node {
                value,
                source: ValueSource::Default,
            }]),
            Value::EnvString(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Node {
                    value: Value::Text(item.to_owned()),
                    source: ValueSource::Default,
                })
                .collect()),
            other => Err(other),
        })?;
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        let (key, list_place) = (found.key, found.source);
        let text = |node: Node| {
            let place = match node.source {
                ValueSource::Default => list_place.clone(),
                place => place,
            };
            match node.value {
                Value::Text(value) => Ok(ConfigValue {
                    value,
                    key: key.clone(),
                    source: place,
                }),
                other => Err(ConfigError::new(
                    &key,
                    place,
                    ConfigErrorKind::WrongType {
                        expected: "a list of strings",
                        found: other.type_name(),
                    },
                )),
            }
        };
        found.value.into_iter().map(text).collect()
    }

    /// Reads a table of strings with arbitrary names, sorted by name.
    pub(super) fn string_map(&mut self, key: &'static str) -> Result<Vec<(String, String)>> {
        #[cfg(test)]
        super::key_recorder::record(self.full_key(key), super::key_recorder::STRING_MAP);
        let Some(mut section) = self.optional_section(key)? else {
            return Ok(Vec::new());
        };
        let path = section.path.clone();
        std::mem::take(&mut section.table)
            .into_iter()
            .map(|(name, node)| match into_text(node.value) {
                Ok(value) => Ok((name, value)),
                Err(other) => Err(ConfigError::new(
                    &format!("{path}.{name}"),
                    node.source,
                    ConfigErrorKind::WrongType {
                        expected: "a string",
                        found: other.type_name(),
                    },
                )),
            })
            .collect()
    }

    /// Reads a boolean.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>> {
        let found = self.take(key, "true or false", |value| match &value {
            Value::Flag(flag) => Ok(*flag),
            Value::EnvString(text) => text.parse().map_err(|_| value),
            _ => Err(value),
        })?;
        Ok(found.map(|found| found.value))
    }

    /// Reads an integer of at least `min`.
    pub(super) fn number(&mut self, key: &'static str, min: u32) -> Result<Option<u32>> {
        let found = self.take(key, "an integer", |value| match &value {
            Value::Number(number) => Ok(*number),
            Value::EnvString(text) => text.trim().parse().map_err(|_| value),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        match u32::try_from(found.value) {
            Ok(number) if number >= min => Ok(Some(number)),
            _ => Err(found.refuse(format!("write a number between {min} and {}", u32::MAX))),
        }
    }

    /// Reads a number between 0 and `max`.
    pub(super) fn fraction(&mut self, key: &'static str, max: f32) -> Result<Option<f32>> {
        let found = self.take(key, "a number", |value| match &value {
            Value::Fraction(number) => Ok(number.to_string()),
            Value::Number(number) => Ok(number.to_string()),
            Value::EnvString(text) => Ok(text.trim().to_owned()),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        match found.value.parse() {
            Ok(number) if (0.0..=max).contains(&number) => Ok(Some(number)),
            _ => Err(found.refuse(format!("write a number between 0 and {max}"))),
        }
    }

    /// Reads a size in bytes, which must not be zero.
    pub(super) fn size(&mut self, key: &'static str) -> Result<Option<usize>> {
        let found = self.take(key, units::EXPECTED_SIZE, |value| match &value {
            Value::Number(number) => Ok(u64::try_from(*number).ok()),
            Value::Text(text) | Value::EnvString(text) => Ok(units::parse_size(text)),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        let size = found.value.and_then(|size| usize::try_from(size).ok());
        match size {
            Some(size) if size > 0 => Ok(Some(size)),
            _ => Err(found.refuse(format!("write {}", units::EXPECTED_SIZE))),
        }
    }

    /// Reads a duration, which must not be zero.
    pub(super) fn duration(&mut self, key: &'static str) -> Result<Option<Duration>> {
        let found = self.take(key, units::EXPECTED_DURATION, |value| match &value {
            Value::Text(text) | Value::EnvString(text) => Ok(units::parse_duration(text)),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        match found.value {
            Some(time) if !time.is_zero() => Ok(Some(time)),
            _ => Err(found.refuse(format!("write {}", units::EXPECTED_DURATION))),
        }
    }

    /// Reads a path and makes it absolute.
    pub(super) fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>> {
        match self.take(key, EXPECTED_PATH, into_text)? {
            Some(found) if found.value.is_empty() => {
                Err(found.refuse("must not be empty; name a file"))
            }
            found => Ok(found.map(|found| self.folder.join(found.value))),
        }
    }

    /// Reads a path, makes it absolute, and keeps its key for errors about the file.
    pub(super) fn path_value(&mut self, key: &'static str) -> Result<Option<ConfigValue<PathBuf>>> {
        let found = self.take(key, EXPECTED_PATH, into_text)?;
        Ok(found.map(|found| ConfigValue {
            value: self.folder.join(found.value),
            key: found.key,
            source: found.source,
        }))
    }

    /// Returns an error for a required key that is missing.
    pub(super) fn missing(&self, key: &str, hint: &'static str) -> ConfigError {
        ConfigError::new(
            &self.full_key(key),
            self.source.clone(),
            ConfigErrorKind::Missing(hint),
        )
    }

    /// Returns an error that rejects this table.
    pub(super) fn refuse(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::new(
            &self.path,
            self.source.clone(),
            ConfigErrorKind::InvalidValue(reason.into()),
        )
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// There is a key that was not read.
    pub(super) fn finish(self) -> Result<()> {
        let Some((key, node)) = self.table.iter().next() else {
            return Ok(());
        };
        let suggestion = suggest(key, &self.known_keys).map(|near| self.full_key(near));
        Err(ConfigError::new(
            &self.full_key(key),
            node.source.clone(),
            ConfigErrorKind::UnknownKey(suggestion),
        ))
    }

    /// Skips these keys, which another zone uses. They count as known.
    pub(super) fn ignore(&mut self, keys: &[&'static str]) {
        self.known_keys.extend(keys);
        self.table.retain(|key, _| !keys.contains(&key.as_str()));
    }

    /// Returns true if the key is set.
    fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn full_key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(Value) -> std::result::Result<T, Value>,
    ) -> Result<Option<ConfigValue<T>>> {
        self.known_keys.push(key);
        #[cfg(test)]
        super::key_recorder::record(self.full_key(key), expected);
        let Some(Node {
            value,
            source: place,
        }) = self.table.remove(key)
        else {
            return Ok(None);
        };
        let key = self.full_key(key);
        match read(value) {
            Ok(value) => Ok(Some(ConfigValue {
                value,
                key,
                source: place,
            })),
            Err(Value::EnvString(text)) if text.is_empty() => Ok(None),
            Err(other) => {
                let found = other.type_name();
                Err(ConfigError::new(
                    &key,
                    place,
                    ConfigErrorKind::WrongType { expected, found },
                ))
            }
        }
    }
}

fn into_text(value: Value) -> std::result::Result<String, Value> {
    match value {
        Value::Text(text) | Value::EnvString(text) => Ok(text),
        other => Err(other),
    }
}
