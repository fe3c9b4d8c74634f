//! Members of an object that we do not know, kept so that they survive a round trip.

use super::Json;
use serde::Serialize;
use serde::de::{Error as _, MapAccess};
use serde::ser::SerializeMap;

/// Unknown members in the order of their sending.
///
/// ```
/// use interzone_protocol::vocab::Part;
///
/// let part: Part = serde_json::from_str(r#"{"type":"ImagePart","width":640,"alt":"a cat"}"#)?;
/// assert_eq!(part.extra().get("width").map(|json| json.as_str()), Some("640"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Vec<(Box<str>, Json)>);

impl Members {
    /// The value of a member; the last one if it stood twice.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0
            .iter()
            .rev()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| value)
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a member that the type it belongs to does not know. Only builders call it, with names
    /// that they have checked.
    pub(super) fn set(&mut self, name: &str, value: Json) {
        match self.0.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.into(), value)),
        }
    }

    /// Takes a member away, however often it stood.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| **known != *name);
    }

    /// Reads the value that is due under a name that the type does not know.
    pub(super) fn take_from<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        self.0.push((name.into(), map.next_value()?));
        Ok(())
    }

    /// Writes all members into an object.
    pub(super) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0
            .iter()
            .try_for_each(|(name, value)| map.serialize_entry(&**name, value))
    }
}

/// A member that the type knows: at most once, and `null` counts as absent.
pub(super) struct Slot<T> {
    name: &'static str,
    seen: bool,
    value: Option<T>,
}

impl<'de, T: serde::Deserialize<'de>> Slot<T> {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            seen: false,
            value: None,
        }
    }

    /// Reads the value that is due.
    pub(super) fn fill<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.seen {
            return Err(A::Error::duplicate_field(self.name));
        }
        self.seen = true;
        self.value = map.next_value()?;
        Ok(())
    }

    pub(super) fn optional(self) -> Option<T> {
        self.value
    }

    pub(super) fn required<E: serde::de::Error>(self) -> Result<T, E> {
        self.value.ok_or_else(|| E::missing_field(self.name))
    }
}

/// Writes a member if it is there: an absent one is never sent as `null`.
pub(super) fn entry<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, value),
        None => Ok(()),
    }
}
