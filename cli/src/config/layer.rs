//! One layer of configuration as it was written, with the place of every value; and how one layer is
//! laid over another. What a key means is not known here.

use super::error::{ConfigError, Wrong};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the defaults, which are compiled in.
    Default,
    /// In this line of the file.
    Line(usize),
    /// In this variable of the environment.
    Variable(String),
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
    Fraction(f64),
    /// What TOML knows and no key takes, such as a date.
    Other(&'static str),
    /// From the environment, where everything is text: whoever reads the key decides what it is.
    Word(String),
}

pub(super) type Table = BTreeMap<String, Node>;

impl Value {
    /// What to call this kind of value, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Word(_) => "a string",
            Self::Number(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Fraction(_) => "a fraction",
            Self::Other(kind) => kind,
        }
    }
}

/// Reads a layer from TOML. `place` tells where a line of it is.
pub(super) fn parse(text: &str, place: impl Fn(usize) -> Place) -> Result<Table, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        ConfigError::new(
            "",
            line.map_or(Place::Default, &place),
            Wrong::Syntax(error.message().to_owned()),
        )
    })?;
    Ok(table_of(table.get_ref(), &|at| place(line_of(text, at))))
}

/// Lays `over` on top of `under`: tables are joined, everything else is replaced.
pub(super) fn lay(under: &mut Table, over: Table) {
    for (key, node) in over {
        match (under.get_mut(&key).map(|node| &mut node.value), node.value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay(below, above),
            (_, value) => {
                let place = node.place;
                under.insert(key, Node { value, place });
            }
        }
    }
}

/// Puts a value from the environment where `path` says.
///
/// # Errors
/// Something on the way there is no table.
pub(super) fn put(
    table: &mut Table,
    path: &[String],
    variable: &str,
    word: String,
) -> Result<(), ConfigError> {
    let place = Place::Variable(variable.to_owned());
    match path {
        [] => Ok(()),
        [key] => {
            let value = Value::Word(word);
            table.insert(key.clone(), Node { value, place });
            Ok(())
        }
        [section, rest @ ..] => {
            let node = table.entry(section.clone()).or_insert_with(|| Node {
                value: Value::Table(Table::new()),
                place: place.clone(),
            });
            match &mut node.value {
                Value::Table(inner) => put(inner, rest, variable, word),
                _ => Err(ConfigError::new(section, place, Wrong::NotInEnvironment)),
            }
        }
    }
}

fn table_of(table: &DeTable<'_>, place: &dyn Fn(usize) -> Place) -> Table {
    table
        .iter()
        .map(|(key, value)| {
            let node = Node {
                value: value_of(value.get_ref(), place),
                place: place(key.span().start),
            };
            (key.get_ref().to_string(), node)
        })
        .collect()
}

fn value_of(value: &DeValue<'_>, place: &dyn Fn(usize) -> Place) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let digits: String = number.as_str().chars().filter(|c| *c != '_').collect();
            i64::from_str_radix(&digits, number.radix())
                .map_or(Value::Other("a number that is too large"), Value::Number)
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => {
            let node = |item: &Spanned<DeValue<'_>>| Node {
                value: value_of(item.get_ref(), place),
                place: place(item.span().start),
            };
            Value::List(items.iter().map(node).collect())
        }
        DeValue::Table(table) => Value::Table(table_of(table, place)),
        DeValue::Float(number) => {
            let digits: String = number.as_str().chars().filter(|c| *c != '_').collect();
            digits
                .parse()
                .map_or(Value::Other("a fraction"), Value::Fraction)
        }
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    1 + before.bytes().filter(|byte| *byte == b'\n').count()
}
