//! Reading one table, key by key. What has not been asked for when the reading ends is unknown, and
//! refused by name; so the code that reads the keys is the list of the keys there are.

use super::error::{ConfigError, Wrong};
use super::layer::{Node, Place, Table, Value};
use super::nearest::nearest;
use super::units;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

mod secrets;

pub(crate) use secrets::Elsewhere;

type Result<T> = std::result::Result<T, ConfigError>;

/// What a path looks like, for those who wrote something else.
const A_PATH: &str = "the path of a file";

/// A table that is being read.
pub(super) struct Section<'a> {
    /// With the names of the tables around it.
    path: String,
    place: Place,
    table: Table,
    known: Vec<&'static str>,
    /// What relative paths are relative to.
    folder: &'a Path,
}

/// A value that was found: what came of it, and what to say if it is no good.
pub(super) struct Found<T> {
    pub(super) value: T,
    key: String,
    place: Place,
}

impl<T> Found<T> {
    /// Refuses it.
    pub(super) fn refuse(&self, why: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.key, self.place.clone(), Wrong::Value(why.into()))
    }

    /// Whether nobody said so, and it is as it always is.
    pub(super) fn is_default(&self) -> bool {
        matches!(self.place, Place::Default)
    }
}

impl<'a> Section<'a> {
    /// The whole configuration.
    pub(super) fn whole(table: Table, folder: &'a Path) -> Self {
        Self {
            path: String::new(),
            place: Place::Default,
            table,
            known: Vec::new(),
            folder,
        }
    }

    /// A table in this one; an empty one if it is not there.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Self> {
        Ok(self.optional_section(key)?.unwrap_or_else(|| Section {
            path: self.path_of(key),
            place: self.place.clone(),
            table: Table::new(),
            known: Vec::new(),
            folder: self.folder,
        }))
    }

    /// A table in this one.
    pub(super) fn optional_section(&mut self, key: &'static str) -> Result<Option<Self>> {
        self.take(key, "a table", |value| match value {
            Value::Table(table) => Ok(table),
            other => Err(other),
        })
        .map(|found| {
            found.map(|found| Section {
                path: found.key,
                place: found.place,
                table: found.value,
                known: Vec::new(),
                folder: self.folder,
            })
        })
    }

    /// The tables of a list.
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
                place: node.place,
                table,
                known: Vec::new(),
                folder: self.folder,
            }),
            other => Err(ConfigError::new(
                &format!("{}[{index}]", list.key),
                node.place,
                Wrong::Kind {
                    expected: "a table",
                    found: other.kind(),
                },
            )),
        };
        list.value.into_iter().enumerate().map(section).collect()
    }

    /// A text.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<Found<String>>> {
        self.take(key, "a string", text_of)
    }

    /// A text that stands for something.
    pub(super) fn parsed<T: FromStr>(
        &mut self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<Found<T>>> {
        let Some(found) = self.text(key)? else {
            return Ok(None);
        };
        match found.value.parse() {
            Ok(value) => Ok(Some(Found {
                value,
                key: found.key,
                place: found.place,
            })),
            Err(_) => Err(found.refuse(format!("write {expected}"))),
        }
    }

    /// Texts; a single one counts as a list of one.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<Found<String>>> {
        let found = self.take(key, "a list of strings", |value| match value {
            Value::List(nodes) => Ok(nodes),
            Value::Text(_) => Ok(vec![Node {
                value,
                place: Place::Default,
            }]),
            Value::Word(words) => Ok(words
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(|word| Node {
                    value: Value::Text(word.to_owned()),
                    place: Place::Default,
                })
                .collect()),
            other => Err(other),
        })?;
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        let (key, list_place) = (found.key, found.place);
        let text = |node: Node| {
            let place = match node.place {
                Place::Default => list_place.clone(),
                place => place,
            };
            match node.value {
                Value::Text(value) => Ok(Found {
                    value,
                    key: key.clone(),
                    place,
                }),
                other => Err(ConfigError::new(
                    &key,
                    place,
                    Wrong::Kind {
                        expected: "a list of strings",
                        found: other.kind(),
                    },
                )),
            }
        };
        found.value.into_iter().map(text).collect()
    }

    /// Names with a text each, in the order of the names.
    pub(super) fn named_texts(&mut self, key: &'static str) -> Result<Vec<(String, String)>> {
        #[cfg(test)]
        super::asked::note(self.path_of(key), super::asked::NAMED_STRINGS);
        let Some(mut section) = self.optional_section(key)? else {
            return Ok(Vec::new());
        };
        let path = section.path.clone();
        std::mem::take(&mut section.table)
            .into_iter()
            .map(|(name, node)| match text_of(node.value) {
                Ok(value) => Ok((name, value)),
                Err(other) => Err(ConfigError::new(
                    &format!("{path}.{name}"),
                    node.place,
                    Wrong::Kind {
                        expected: "a string",
                        found: other.kind(),
                    },
                )),
            })
            .collect()
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>> {
        let found = self.take(key, "true or false", |value| match &value {
            Value::Flag(flag) => Ok(*flag),
            Value::Word(word) => word.parse().map_err(|_| value),
            _ => Err(value),
        })?;
        Ok(found.map(|found| found.value))
    }

    /// A number from `least` on.
    pub(super) fn number(&mut self, key: &'static str, least: u32) -> Result<Option<u32>> {
        let found = self.take(key, "a whole number", |value| match &value {
            Value::Number(number) => Ok(*number),
            Value::Word(word) => word.trim().parse().map_err(|_| value),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        match u32::try_from(found.value) {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(found.refuse(format!("write a number between {least} and {}", u32::MAX))),
        }
    }

    /// A fraction between nothing and `most`.
    pub(super) fn fraction(&mut self, key: &'static str, most: f32) -> Result<Option<f32>> {
        let found = self.take(key, "a number", |value| match &value {
            Value::Fraction(number) => Ok(number.to_string()),
            Value::Number(number) => Ok(number.to_string()),
            Value::Word(word) => Ok(word.trim().to_owned()),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        match found.value.parse() {
            Ok(number) if (0.0..=most).contains(&number) => Ok(Some(number)),
            _ => Err(found.refuse(format!("write a number between 0 and {most}"))),
        }
    }

    /// A size in bytes, which is never nothing.
    pub(super) fn size(&mut self, key: &'static str) -> Result<Option<usize>> {
        let found = self.take(key, units::A_SIZE, |value| match &value {
            Value::Number(number) => Ok(u64::try_from(*number).ok()),
            Value::Text(text) | Value::Word(text) => Ok(units::size(text)),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        let size = found.value.and_then(|size| usize::try_from(size).ok());
        match size {
            Some(size) if size > 0 => Ok(Some(size)),
            _ => Err(found.refuse(format!("write {}", units::A_SIZE))),
        }
    }

    /// A time, which is never nothing.
    pub(super) fn time(&mut self, key: &'static str) -> Result<Option<Duration>> {
        let found = self.take(key, units::A_TIME, |value| match &value {
            Value::Text(text) | Value::Word(text) => Ok(units::time(text)),
            _ => Err(value),
        })?;
        let Some(found) = found else { return Ok(None) };
        match found.value {
            Some(time) if !time.is_zero() => Ok(Some(time)),
            _ => Err(found.refuse(format!("write {}", units::A_TIME))),
        }
    }

    /// A path, made whole.
    pub(super) fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>> {
        match self.take(key, A_PATH, text_of)? {
            Some(found) if found.value.is_empty() => Err(found.refuse("name a file")),
            found => Ok(found.map(|found| self.folder.join(found.value))),
        }
    }

    /// A path, made whole, that may turn out to lead nowhere.
    pub(super) fn named_path(&mut self, key: &'static str) -> Result<Option<Found<PathBuf>>> {
        let found = self.take(key, A_PATH, text_of)?;
        Ok(found.map(|found| Found {
            value: self.folder.join(found.value),
            key: found.key,
            place: found.place,
        }))
    }

    /// Says that a key must be there.
    pub(super) fn missing(&self, key: &str, what: &'static str) -> ConfigError {
        ConfigError::new(&self.path_of(key), self.place.clone(), Wrong::Missing(what))
    }

    /// Says that this table cannot be used as it is.
    pub(super) fn refuse(&self, why: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.path, self.place.clone(), Wrong::Value(why.into()))
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// There is a key that nobody asked for.
    pub(super) fn end(self) -> Result<()> {
        let Some((key, node)) = self.table.iter().next() else {
            return Ok(());
        };
        let near = nearest(key, &self.known).map(|near| self.path_of(near));
        Err(ConfigError::new(
            &self.path_of(key),
            node.place.clone(),
            Wrong::Unknown(near),
        ))
    }

    /// Leaves these out: they are somebody else's. They count as known.
    pub(super) fn leave(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
        self.table.retain(|key, _| !keys.contains(&key.as_str()));
    }

    /// Whether a key is there.
    fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn path_of(&self, key: &str) -> String {
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
    ) -> Result<Option<Found<T>>> {
        self.known.push(key);
        #[cfg(test)]
        super::asked::note(self.path_of(key), expected);
        let Some(Node { value, place }) = self.table.remove(key) else {
            return Ok(None);
        };
        let key = self.path_of(key);
        match read(value) {
            Ok(value) => Ok(Some(Found { value, key, place })),
            Err(Value::Word(word)) if word.is_empty() => Ok(None),
            Err(other) => {
                let found = other.kind();
                Err(ConfigError::new(
                    &key,
                    place,
                    Wrong::Kind { expected, found },
                ))
            }
        }
    }
}

fn text_of(value: Value) -> std::result::Result<String, Value> {
    match value {
        Value::Text(text) | Value::Word(text) => Ok(text),
        other => Err(other),
    }
}
