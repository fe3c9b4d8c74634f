//! How domain values stand in columns, the same in both engines.

use interzone_hub::ports::StoreError;
use interzone_hub::{EventBody, Packed, Subject, WorkOwner};
use interzone_protocol::vocab::{Json, Message, Metadata, Priority, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How many questions are looked at for one page of conversations.
pub(crate) const LOOKED_AT: i64 = 2_000;

/// A value as JSON text.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unwritten(&error))
}

/// A message as JSON text.
pub(crate) fn message_text(message: &Packed<Message>) -> Result<String, StoreError> {
    message.to_text().map_err(|error| unwritten(&error))
}

/// What happened as JSON text, perhaps with a message whose text is there already.
pub(crate) fn event_text(
    body: &EventBody,
    said: Option<(&Packed<Message>, &str)>,
) -> Result<String, StoreError> {
    body.to_text(said).map_err(|error| unwritten(&error))
}

fn unwritten(error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(error.to_string())
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

/// A priority as a number that sorts as it does.
pub(crate) fn rank(priority: Priority) -> i16 {
    match priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
        Priority::Urgent => 3,
    }
}

/// The priority of this rank.
pub(crate) fn from_rank(rank: i16) -> Result<Priority, StoreError> {
    let place = usize::try_from(rank).ok();
    place
        .and_then(|place| Priority::ALL.get(place).copied())
        .ok_or_else(|| corrupt("a priority", &"an unknown number"))
}

/// The key of the tasks in a queue that follow each other: those of one owner and one priority.
pub(crate) fn flow(owner: &WorkOwner, priority: Priority) -> String {
    let WorkOwner { principal, group } = owner;
    format!("{}:{group:x}{}", principal.as_str(), rank(priority))
}

/// What such a key is made of.
pub(crate) fn from_flow(flow: &str) -> Result<(WorkOwner, Priority), StoreError> {
    let bad = || corrupt("a queue", &"an unknown owner");
    let (principal, rest) = flow.rsplit_once(':').ok_or_else(bad)?;
    let mut digits = rest.chars().map(|digit| digit.to_digit(16));
    let (Some(Some(group)), Some(Some(priority)), None) =
        (digits.next(), digits.next(), digits.next())
    else {
        return Err(bad());
    };
    let owner = WorkOwner {
        principal: word("a queue", principal)?,
        group: u8::try_from(group).map_err(|_| bad())?,
    };
    let priority = i16::try_from(priority).map_err(|_| bad())?;
    Ok((owner, from_rank(priority)?))
}

/// JSON that was kept letter for letter.
pub(crate) fn json(what: &str, text: &str) -> Result<Json, StoreError> {
    Json::parse(text).map_err(|error| corrupt(what, &error))
}

/// An object that was kept letter for letter.
pub(crate) fn metadata(text: Option<&str>) -> Result<Option<Metadata>, StoreError> {
    text.map(|text| Metadata::new(json("metadata", text)?).map_err(|e| corrupt("metadata", &e)))
        .transpose()
}

/// A subject by its key.
pub(crate) fn subject(key: &str) -> Result<Subject, StoreError> {
    Subject::from_key(key).ok_or_else(|| corrupt("a subject", &"not a key"))
}
