//! Large contents, kept outside the rows that are read all the time, and stored once each.
//!
//! A part whose content is large is kept without it, beside the name of a blob that holds it. The
//! name is the hash of the content, so the same file is the same blob. Which blob belongs where is
//! noted outside the message itself, where nothing that a caller sends can pretend to be such a
//! note.

use interzone_protocol::vocab::{Artifact, Json, Message, Part};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

mod text;
mod written;

pub use text::BlobText;

/// Contents longer than this, in bytes of JSON, are kept as blobs.
pub const INLINE_LIMIT: usize = 16 * 1024;

/// The member of a part that tells where its content may be fetched. Whoever knows it may fetch, so it
/// is kept with the message until the content is there, and never written into a log of events.
pub const FETCH: &str = "fetch";

/// Whether a part still tells where its content may be fetched.
pub(crate) fn has_address(part: &Part) -> bool {
    part.extra().get(FETCH).is_some()
}

/// The name of a blob: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; 32]);

impl BlobId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The name with this hash.
    pub const fn from_bytes(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for BlobId {
    type Err = NotABlobId;

    fn from_str(text: &str) -> Result<Self, NotABlobId> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotABlobId);
        }
        for (place, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NotABlobId)?;
            *place = u8::from_str_radix(digits, 16).map_err(|_| NotABlobId)?;
        }
        Ok(Self(hash))
    }
}

/// A string is not the name of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a blob's name is 64 hexadecimal digits")]
pub struct NotABlobId;

impl Serialize for BlobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Bytes to keep.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// Their name.
    pub id: BlobId,
    /// The bytes: a part's content as JSON text.
    pub bytes: BlobText,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<blob {} of {} bytes>", self.id, self.bytes.len())
    }
}

/// Something made of parts.
pub trait HasParts: Clone {
    /// Its parts.
    fn parts(&self) -> &[Part];
    /// The same with other parts, as many as before.
    #[must_use]
    fn with_same_number_of_parts(self, parts: Vec<Part>) -> Self;
    /// The same with another part in the place of each.
    #[must_use]
    fn map_parts(self, map: impl FnMut(Part) -> Part) -> Self;
}

impl HasParts for Message {
    fn parts(&self) -> &[Part] {
        Self::parts(self)
    }

    fn with_same_number_of_parts(self, parts: Vec<Part>) -> Self {
        self.replace_parts(parts)
    }

    fn map_parts(self, map: impl FnMut(Part) -> Part) -> Self {
        Self::map_parts(self, map)
    }
}

impl HasParts for Artifact {
    fn parts(&self) -> &[Part] {
        Self::parts(self)
    }

    fn with_same_number_of_parts(self, parts: Vec<Part>) -> Self {
        self.with_parts(parts)
    }

    fn map_parts(self, map: impl FnMut(Part) -> Part) -> Self {
        Self::map_parts(self, map)
    }
}

/// A message or artifact whose large contents are elsewhere. Copies share it: the same message is in the
/// history, in an event and with those who watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
pub struct Packed<T> {
    /// What is left of it.
    #[serde(rename = "v", with = "shared")]
    value: Arc<T>,
    /// Which part's content is which blob.
    #[serde(
        rename = "b",
        default = "Vec::new",
        skip_serializing_if = "Vec::is_empty"
    )]
    blobs: Vec<(usize, BlobId)>,
}

/// A shared value is written as the value, and read into a share of its own.
mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        T::serialize(value, serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

impl<T: HasParts> Packed<T> {
    /// Takes the large contents out, and hands them over to be kept.
    pub fn pack(value: T) -> (Self, Vec<Blob>) {
        let large = |part: &Part| {
            part.content()
                .is_some_and(|c| c.as_str().len() > INLINE_LIMIT)
        };
        if !value.parts().iter().any(large) {
            return (
                Self {
                    value: Arc::new(value),
                    blobs: Vec::new(),
                },
                Vec::new(),
            );
        }
        let (mut names, mut blobs) = (Vec::new(), Vec::new());
        let mut places = 0..;
        // The content itself changes hands: it is never there twice.
        let value = value.map_parts(|mut part| {
            let index = places.next();
            if large(&part)
                && let (Some(index), Some(content)) = (index, part.take_content())
            {
                let bytes = BlobText::from(content);
                let id = BlobId::of(bytes.as_bytes());
                names.push((index, id));
                blobs.push(Blob { id, bytes });
            }
            part
        });
        (
            Self {
                value: Arc::new(value),
                blobs: names,
            },
            blobs,
        )
    }

    /// The names of the blobs that are needed to unpack it.
    pub fn blob_ids(&self) -> impl Iterator<Item = BlobId> {
        self.blobs.iter().map(|(_, id)| *id)
    }

    /// The blob that holds a part's content, if it is elsewhere.
    pub fn blob_of(&self, part: usize) -> Option<BlobId> {
        let blob = self.blobs.iter().find(|(index, _)| *index == part);
        blob.map(|(_, id)| *id)
    }

    /// Whether nothing of it is elsewhere.
    pub fn is_complete(&self) -> bool {
        self.blobs.is_empty()
    }

    /// What is left of it: all but the large contents.
    pub fn without_large(&self) -> &T {
        &self.value
    }

    /// The same without a member of its parts that their type does not know.
    #[must_use]
    pub fn without_member(self, name: &str) -> Self {
        let has = |part: &Part| part.extra().get(name).is_some();
        if !self.value.parts().iter().any(has) {
            return self;
        }
        let parts = self.value.parts().iter();
        let parts = parts.map(|part| part.clone().without_extra(name)).collect();
        let value = Arc::unwrap_or_clone(self.value);
        Self {
            value: Arc::new(value.with_same_number_of_parts(parts)),
            blobs: self.blobs,
        }
    }

    /// Puts the contents back. A content whose blob is not given stays away.
    pub fn unpack(self, blobs: &HashMap<BlobId, Json>) -> T {
        if self.blobs.is_empty() {
            return Arc::unwrap_or_clone(self.value);
        }
        let mut parts = self.value.parts().to_vec();
        for (index, id) in self.blobs {
            let content = blobs.get(&id).cloned();
            if let (Some(part), Some(content)) = (parts.get_mut(index), content) {
                *part = part.clone().with_content(content);
            }
        }
        Arc::unwrap_or_clone(self.value).with_same_number_of_parts(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::Role;

    pub(super) fn message(contents: &[&str]) -> Message {
        Message::new(Role::User, contents.iter().map(Part::text).collect()).unwrap()
    }

    #[test]
    fn small_contents_stay_where_they_are() {
        let (packed, blobs) = Packed::pack(message(&["a", "b"]));
        assert!(blobs.is_empty());
        assert_eq!(packed.without_large(), &message(&["a", "b"]));
    }

    #[test]
    fn large_contents_leave_and_come_back() {
        let large = "x".repeat(INLINE_LIMIT);
        let original = message(&["a", &large, "b", &large]);
        let (packed, blobs) = Packed::pack(original.clone());
        assert_eq!(blobs.len(), 2);
        assert_eq!(blobs[0], blobs[1], "the same content is the same blob");
        let text = serde_json::to_string(&packed).unwrap();
        assert!(text.len() < 1_000, "{}", text.len());
        let read: Packed<Message> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, packed);
        let known = blobs
            .into_iter()
            .filter_map(|blob| Some((blob.id, blob.bytes.into_json()?)))
            .collect();
        assert_eq!(read.unpack(&known), original);
    }

    #[test]
    fn large_contents_leave_without_a_copy() {
        let original = message(&["a", &"x".repeat(INLINE_LIMIT)]);
        let content = |message: &Message| message.parts()[1].content().map(|c| c.as_str().as_ptr());
        let at = content(&original);
        let (_, blobs) = Packed::pack(original);
        assert_eq!(Some(blobs[0].bytes.as_ptr()), at);
    }

    #[test]
    fn a_lost_blob_costs_its_content_and_no_more() {
        let (packed, _) = Packed::pack(message(&["a", &"x".repeat(INLINE_LIMIT)]));
        let left = packed.unpack(&HashMap::new());
        assert_eq!(left.text(), "a");
        assert_eq!(left.parts().len(), 2);
    }

    #[test]
    fn blob_names_are_read_back() {
        let id = BlobId::of(b"abc");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "ab", &"é".repeat(32), &"g".repeat(64), &"+1".repeat(32)] {
            assert_eq!(bad.parse::<BlobId>(), Err(NotABlobId), "{bad}");
        }
    }
}
