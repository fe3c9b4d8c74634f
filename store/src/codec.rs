//! Encoding of domain values in SQL columns, shared by both engines.

use interzone_hub::ports::StoreError;
use interzone_hub::{Subject, WorkOwner};
use interzone_protocol::vocab::{Metadata, Priority, Timestamp, VerbatimJson};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum number of thread tasks scanned for one page of conversations.
pub(crate) const CONVERSATION_SCAN_LIMIT: i64 = 2_000;

/// Encodes a value as JSON text.
pub(crate) fn to_json_text<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Decodes a value from JSON text that this store wrote.
pub(crate) fn from_json_text<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt_column(what, &error))
}

/// Decodes an optional value from JSON text.
pub(crate) fn from_optional_json_text<T: DeserializeOwned>(
    what: &str,
    text: Option<&str>,
) -> Result<Option<T>, StoreError> {
    text.map(|text| from_json_text(what, text)).transpose()
}

/// Parses an id or topic from a column.
pub(crate) fn parse_id<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| corrupt_column(what, &error))
}

/// Parses an enum value from its name.
pub(crate) fn parse_enum<T>(
    what: &str,
    text: &str,
    from_name: impl FnOnce(&str) -> Option<T>,
) -> Result<T, StoreError> {
    from_name(text).ok_or_else(|| corrupt_column(what, &"an unknown name"))
}

/// Reads a counter from a column, where it is stored as a signed integer.
pub(crate) fn int_from_column<T: TryFrom<i64>>(what: &str, number: i64) -> Result<T, StoreError> {
    T::try_from(number).map_err(|_| corrupt_column(what, &"out of range"))
}

/// Converts a counter to a column value. No counter comes near the end of the range.
pub(crate) fn int_to_column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a timestamp from a column of milliseconds.
pub(crate) fn timestamp_from_column(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn corrupt_column(what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{what}: {error}"))
}

/// Returns the number of a priority, in sort order.
pub(crate) fn priority_rank(priority: Priority) -> i16 {
    match priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
        Priority::Urgent => 3,
    }
}

/// Returns the priority with this rank.
pub(crate) fn priority_from_rank(rank: i16) -> Result<Priority, StoreError> {
    let index = usize::try_from(rank).ok();
    index
        .and_then(|index| Priority::ALL.get(index).copied())
        .ok_or_else(|| corrupt_column("a priority", &"an unknown number"))
}

/// Key of a flow: the queued tasks of one owner and one priority, which run in order.
pub(crate) fn flow_key(owner: &WorkOwner, priority: Priority) -> String {
    let WorkOwner { principal, group } = owner;
    format!(
        "{}:{group:x}{}",
        principal.as_str(),
        priority_rank(priority)
    )
}

/// Parses a flow key into owner and priority.
pub(crate) fn parse_flow_key(flow: &str) -> Result<(WorkOwner, Priority), StoreError> {
    let bad = || corrupt_column("a queue", &"an unknown owner");
    let (principal, suffix) = flow.rsplit_once(':').ok_or_else(bad)?;
    let mut digits = suffix.chars().map(|digit| digit.to_digit(16));
    let (Some(Some(group)), Some(Some(priority)), None) =
        (digits.next(), digits.next(), digits.next())
    else {
        return Err(bad());
    };
    let owner = WorkOwner {
        principal: parse_id("a queue", principal)?,
        group: u8::try_from(group).map_err(|_| bad())?,
    };
    let priority = i16::try_from(priority).map_err(|_| bad())?;
    Ok((owner, priority_from_rank(priority)?))
}

/// Parses raw JSON, which is stored verbatim.
pub(crate) fn parse_raw_json(what: &str, text: &str) -> Result<VerbatimJson, StoreError> {
    VerbatimJson::parse(text).map_err(|error| corrupt_column(what, &error))
}

/// Parses metadata, a JSON object that is stored verbatim.
pub(crate) fn parse_metadata(text: Option<&str>) -> Result<Option<Metadata>, StoreError> {
    text.map(|text| {
        Metadata::new(parse_raw_json("metadata", text)?).map_err(|e| corrupt_column("metadata", &e))
    })
    .transpose()
}

/// Parses the key of a subject.
pub(crate) fn parse_subject(key: &str) -> Result<Subject, StoreError> {
    Subject::from_key(key).ok_or_else(|| corrupt_column("a subject", &"not a key"))
}
