//! How domain values stand in columns, the same in both engines.

use interzone_hub::ports::StoreError;
use interzone_protocol::vocab::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as JSON text.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A value from JSON text that we wrote ourselves.
pub(crate) fn from_text<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(what, &error))
}

/// A value that may be absent.
pub(crate) fn from_optional_text<T: DeserializeOwned>(
    what: &str,
    text: Option<&str>,
) -> Result<Option<T>, StoreError> {
    text.map(|text| from_text(what, text)).transpose()
}

/// A checked word (an id, a topic) from a column.
pub(crate) fn word<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| corrupt(what, &error))
}

/// A name that must be one of a fixed set.
pub(crate) fn name<T>(
    what: &str,
    text: &str,
    from_name: impl FnOnce(&str) -> Option<T>,
) -> Result<T, StoreError> {
    from_name(text).ok_or_else(|| corrupt(what, &"an unknown name"))
}

/// A counter, which columns keep as a signed number.
pub(crate) fn count<T: TryFrom<i64>>(what: &str, number: i64) -> Result<T, StoreError> {
    T::try_from(number).map_err(|_| corrupt(what, &"out of range"))
}

/// A counter for a column. None of ours comes near the end of its range.
pub(crate) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A moment from a column of milliseconds.
pub(crate) fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn corrupt(what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{what}: {error}"))
}
