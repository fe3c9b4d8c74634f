//! Changes to members of metadata that leave the other members verbatim.

use crate::vocab::{Metadata, VerbatimJson};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Returns the metadata with members set. A member of the same name is replaced. `None` if there are no members, or if
/// the metadata is not an object.
pub fn edit_metadata(
    metadata: Option<&Metadata>,
    added: &[(&str, VerbatimJson)],
) -> Option<Metadata> {
    let mut members = match metadata {
        Some(metadata) => metadata.as_json().decode().ok()?,
        None => OrderedMembers(Vec::new()),
    };
    for (name, value) in added {
        members.0.retain(|(other, _)| other != name);
        members.0.push(((*name).to_owned(), value.clone()));
    }
    members.into_metadata()
}

/// Members removed from metadata.
pub(super) type RemovedMembers<'n> = Vec<(&'n str, VerbatimJson)>;

/// Removes members from metadata. Returns them and what remains, which is absent if it is empty, or `None`
/// if the metadata has none of them.
pub(super) fn take_members<'n>(
    metadata: &Metadata,
    names: &[&'n str],
) -> Option<(RemovedMembers<'n>, Option<Metadata>)> {
    // Metadata is usually short, and nearly always has none of the members.
    if !names.iter().any(|name| metadata.as_str().contains(name)) {
        return None;
    }
    let mut members: OrderedMembers = metadata.as_json().decode().ok()?;
    let mut removed = Vec::new();
    members.0.retain(|(member, value)| {
        let name = names.iter().find(|name| *name == member);
        removed.extend(name.map(|name| (*name, value.clone())));
        name.is_none()
    });
    if removed.is_empty() {
        return None;
    }
    let remaining = if members.0.is_empty() {
        None
    } else {
        members.into_metadata()
    };
    Some((removed, remaining))
}

/// Members of an object in order, each value verbatim.
struct OrderedMembers(Vec<(String, VerbatimJson)>);

impl OrderedMembers {
    fn into_metadata(self) -> Option<Metadata> {
        Metadata::new(VerbatimJson::from_value(&self).ok()?).ok()
    }
}

impl Serialize for OrderedMembers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for OrderedMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = OrderedMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
