//! Members of a JSON object that its type does not define, kept so that they survive a round trip; serde helpers.

use super::VerbatimJson;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Members that ACP callers add to objects, in the order in which they were sent. ACP requires that they survive a
/// round trip; other dialects have places of their own for additions.
///
/// ```
/// use interzone_protocol::vocab::Part;
///
/// let part: Part = serde_json::from_str(r#"{"type":"ImagePart","extra":{"width":640,"alt":"a cat"}}"#)?;
/// assert_eq!(part.extra().get("width").map(|json| json.as_str()), Some("640"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraFields(Vec<(Box<str>, VerbatimJson)>);

impl ExtraFields {
    /// The value of a field; the last one if it occurs twice.
    pub fn get(&self, name: &str) -> Option<&VerbatimJson> {
        self.0
            .iter()
            .rev()
            .find(|(field, _)| **field == *name)
            .map(|(_, value)| value)
    }

    /// Iterates over all fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &VerbatimJson)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields, or `None` if there are none.
    pub(crate) fn non_empty(&self) -> Option<&Self> {
        Some(self).filter(|fields| !fields.is_empty())
    }

    /// Adds fields behind these.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Sets a field unknown to the containing type. Called only by builders, which have checked the name.
    pub(crate) fn set(&mut self, name: &str, value: VerbatimJson) {
        match self.0.iter_mut().find(|(field, _)| **field == *name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.into(), value)),
        }
    }

    /// Removes all occurrences of a field.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(field, _)| **field != *name);
    }

    /// Reads the next map value into an unknown field.
    pub(crate) fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        self.0.push((name.into(), map.next_value()?));
        Ok(())
    }

    /// Serializes all fields as map entries.
    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0
            .iter()
            .try_for_each(|(name, value)| map.serialize_entry(&**name, value))
    }
}

impl Serialize for ExtraFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.write(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ExtraFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ExtraFieldsVisitor;
        impl<'de> Visitor<'de> for ExtraFieldsVisitor {
            type Value = ExtraFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ExtraFields, A::Error> {
                let mut extra = ExtraFields::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    extra.read_field(&name, &mut map)?;
                }
                Ok(extra)
            }
        }
        deserializer.deserialize_map(ExtraFieldsVisitor)
    }
}

/// Name of a field as sent; copied only if it contains an escape.
pub(crate) struct FieldName<'a>(pub(crate) Cow<'a, str>);

/// Hand-written because serde's newtype derive hides the field name from the path in error messages.
impl<'de> Deserialize<'de> for FieldName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldNameVisitor;
        impl<'de> Visitor<'de> for FieldNameVisitor {
            type Value = FieldName<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<FieldName<'de>, E> {
                Ok(FieldName(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<FieldName<'de>, E> {
                Ok(FieldName(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(FieldNameVisitor)
    }
}

/// A known field while an object is read: allowed once, and `null` counts as absent.
pub(crate) struct FieldSlot<T> {
    name: &'static str,
    is_present: bool,
    value: Option<T>,
}

impl<'de, T: Deserialize<'de>> FieldSlot<T> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            is_present: false,
            value: None,
        }
    }

    /// Reads the field's value.
    pub(crate) fn fill<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.is_present {
            return Err(A::Error::duplicate_field(self.name));
        }
        self.is_present = true;
        self.value = map.next_value()?;
        Ok(())
    }

    pub(crate) fn optional(self) -> Option<T> {
        self.value
    }

    pub(crate) fn required<E: serde::de::Error>(self) -> Result<T, E> {
        self.value.ok_or_else(|| E::missing_field(self.name))
    }
}

/// Serializes a field if it is present; an absent one is never sent as `null`.
pub(crate) fn serialize_some<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, value),
        None => Ok(()),
    }
}
