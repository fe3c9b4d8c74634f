//! The values of a configuration with their sources: those of the file, overridden by the environment. The keys are
//! interpreted elsewhere.

use super::error::{ConfigError, ConfigErrorKind};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// Neither the file nor the environment.
    Default,
    /// Line of the file.
    Line(usize),
    /// Environment variable.
    Variable(String),
}

/// A value and its source.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) source: ValueSource,
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
    /// A TOML type that no key accepts, such as a date.
    Other(&'static str),
    /// From the environment, where everything is a string: the reader of the key decides on the type.
    EnvString(String),
}

pub(super) type Table = BTreeMap<String, Node>;

impl Value {
    /// Returns the name of this type of value, with its article.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::EnvString(_) => "a string",
            Self::Number(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Fraction(_) => "a fraction",
            Self::Other(kind) => kind,
        }
    }
}

/// Parses a configuration file.
pub(super) fn parse(text: &str) -> Result<Table, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_number(text, span.start));
        ConfigError::new(
            "",
            line.map_or(ValueSource::Default, ValueSource::Line),
            ConfigErrorKind::Syntax(error.message().to_owned()),
        )
    })?;
    Ok(convert_table(table.get_ref(), &|at| {
        ValueSource::Line(line_number(text, at))
    }))
}

/// Sets the value of an environment variable at `path`.
///
/// # Errors
/// Part of the path exists and is not a table.
pub(super) fn set_env(
    table: &mut Table,
    path: &[String],
    variable: &str,
    text: String,
) -> Result<(), ConfigError> {
    let place = ValueSource::Variable(variable.to_owned());
    match path {
        [] => Ok(()),
        [key] => {
            let value = Value::EnvString(text);
            table.insert(
                key.clone(),
                Node {
                    value,
                    source: place,
                },
            );
            Ok(())
        }
        [section, rest @ ..] => {
            let node = table.entry(section.clone()).or_insert_with(|| Node {
                value: Value::Table(Table::new()),
                source: place.clone(),
            });
            match &mut node.value {
                Value::Table(inner) => set_env(inner, rest, variable, text),
                _ => Err(ConfigError::new(
                    section,
                    place,
                    ConfigErrorKind::NotInEnvironment,
                )),
            }
        }
    }
}

fn convert_table(table: &DeTable<'_>, place: &dyn Fn(usize) -> ValueSource) -> Table {
    table
        .iter()
        .map(|(key, value)| {
            let node = Node {
                value: convert_value(value.get_ref(), place),
                source: place(key.span().start),
            };
            (key.get_ref().to_string(), node)
        })
        .collect()
}

fn convert_value(value: &DeValue<'_>, place: &dyn Fn(usize) -> ValueSource) -> Value {
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
                value: convert_value(item.get_ref(), place),
                source: place(item.span().start),
            };
            Value::List(items.iter().map(node).collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, place)),
        DeValue::Float(number) => {
            let digits: String = number.as_str().chars().filter(|c| *c != '_').collect();
            digits
                .parse()
                .map_or(Value::Other("a fraction"), Value::Fraction)
        }
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}

fn line_number(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    1 + before.bytes().filter(|byte| *byte == b'\n').count()
}
