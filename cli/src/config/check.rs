//! Errors about values that are invalid in combination with other keys, with the sources of the values.

use super::error::{ConfigError, ConfigErrorKind};
use super::layer::{Table, Value, ValueSource};

/// An error about a key of the table that is being checked.
#[derive(Debug, thiserror::Error)]
#[error("`{key}`: {reason}")]
pub(crate) struct KeyError {
    key: &'static str,
    reason: &'static str,
    is_missing: bool,
}

impl KeyError {
    pub(super) fn refused(key: &'static str, reason: &'static str) -> Self {
        Self {
            key,
            reason,
            is_missing: false,
        }
    }

    pub(super) fn missing(key: &'static str, reason: &'static str) -> Self {
        Self {
            is_missing: true,
            ..Self::refused(key, reason)
        }
    }
}

/// Creates errors with the source of a value of the merged table.
#[derive(Clone, Copy)]
pub(super) struct Checker<'t>(pub(super) &'t Table);

impl Checker<'_> {
    /// An error that rejects the value of a key.
    pub(super) fn refuse(&self, key: &str, reason: impl Into<String>) -> ConfigError {
        ConfigError::refused(key, self.source(key), reason)
    }

    /// An error for a required key that is missing.
    pub(super) fn missing(&self, key: &str, hint: &str) -> ConfigError {
        let kind = ConfigErrorKind::Missing(hint.to_owned());
        ConfigError::new(key, self.source(key).clone(), kind)
    }

    /// An error about a key of a table.
    pub(super) fn in_table(&self, table: &str, error: &KeyError) -> ConfigError {
        let key = format!("{table}.{}", error.key);
        match error.is_missing {
            true => self.missing(&key, error.reason),
            false => self.refuse(&key, error.reason),
        }
    }

    /// Returns the source of a key, or of the closest table around it.
    fn source(&self, key: &str) -> &ValueSource {
        let mut found = &ValueSource::Default;
        let mut table = Some(self.0);
        for part in key.split('.') {
            let (name, index) = part.split_once('[').unwrap_or((part, ""));
            let index: Option<usize> = index.trim_end_matches(']').parse().ok();
            let Some(mut node) = table.and_then(|table| table.get(name)) else {
                break;
            };
            if let (Value::List(nodes), Some(index)) = (&node.value, index)
                && let Some(element) = nodes.get(index)
            {
                node = element;
            }
            found = &node.source;
            table = match &node.value {
                Value::Table(inner) => Some(inner),
                _ => None,
            };
        }
        found
    }
}
