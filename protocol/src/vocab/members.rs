//! Members of an object that we do not know, kept so that they survive a round trip.

use super::Json;
use interzone_jsonrpc::write_string;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

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

    /// Takes a member away, however often it stood there.
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

    /// The same at the end of text, behind other members.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            out.push(b',');
            write_string(name, out);
            out.push(b':');
            out.extend_from_slice(value.as_str().as_bytes());
        }
    }
}

/// The name of a member as it stands in what was sent: a copy only if an escape is in it.
pub(super) struct Name<'a>(pub(super) Cow<'a, str>);

/// By hand, for what serde makes of a type around a string hides the name from those who tell where it stood.
impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// A member that the type knows: at most once, and `null` counts as absent.
pub(super) struct Slot<T> {
    name: &'static str,
    seen: bool,
    value: Option<T>,
}

impl<'de, T: Deserialize<'de>> Slot<T> {
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

/// The same at the end of text, behind other members; `name` has the comma, the quotes and the colon.
pub(super) fn entry_to<T: Serialize>(
    out: &mut Vec<u8>,
    name: &[u8],
    value: Option<&T>,
) -> Result<(), serde_json::Error> {
    match value {
        Some(value) => {
            out.extend_from_slice(name);
            serde_json::to_writer(out, value)
        }
        None => Ok(()),
    }
}

/// The same for a value that is JSON already.
pub(super) fn json_to(out: &mut Vec<u8>, name: &[u8], value: Option<&Json>) {
    if let Some(value) = value {
        out.extend_from_slice(name);
        out.extend_from_slice(value.as_str().as_bytes());
    }
}

/// Values one after another, between brackets.
pub(crate) fn list_to<T>(
    out: &mut Vec<u8>,
    values: &[T],
    mut write: impl FnMut(&T, &mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    out.push(b'[');
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(value, out)?;
    }
    out.push(b']');
    Ok(())
}
