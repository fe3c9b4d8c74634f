//! Offloading of large part contents to content-addressed blobs, outside the frequently read rows.
//!
//! A part with a large content is stored without it, next to the id of the blob that contains it. The id is
//! the hash of the content, so equal files are stored once. The mapping from parts to blobs is stored outside
//! the message itself, so callers cannot forge it.

use interzone_protocol::vocab::{Artifact, Message, Part, VerbatimJson};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

mod blob_content;

pub use blob_content::BlobContent;

/// Contents longer than this, in bytes of JSON, are offloaded to blobs.
pub const INLINE_LIMIT: usize = 16 * 1024;

/// Part field with the URL from which the content can be fetched. The URL grants access, so it is kept with the
/// message only until the content has been fetched, and never written to the event log.
pub const FETCH_URL_FIELD: &str = "fetch";

/// Returns true if the part has a fetch URL.
pub(crate) fn has_fetch_url(part: &Part) -> bool {
    part.extra().get(FETCH_URL_FIELD).is_some()
}

/// Blob id: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; 32]);

impl BlobId {
    /// Computes the id of these bytes.
    pub fn for_content(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The id with this hash.
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
    type Err = InvalidBlobId;

    fn from_str(text: &str) -> Result<Self, InvalidBlobId> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidBlobId);
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| InvalidBlobId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidBlobId)?;
        }
        Ok(Self(hash))
    }
}

/// Parse error of a blob id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a blob id is 64 hexadecimal digits")]
pub struct InvalidBlobId;

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

/// A blob to store.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// Blob id.
    pub id: BlobId,
    /// The bytes: a part's content as JSON text.
    pub bytes: BlobContent,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<blob {} of {} bytes>", self.id, self.bytes.len())
    }
}

/// A value that consists of parts.
pub trait HasParts: Clone {
    /// Its parts.
    fn parts(&self) -> &[Part];
    /// Replaces the parts with the same number of others.
    #[must_use]
    fn with_same_number_of_parts(self, parts: Vec<Part>) -> Self;
    /// Replaces each part by the mapped one.
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

/// A message or artifact whose large contents are offloaded to blobs. Clones share the value: the same message is
/// in the history, in an event and with the watchers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
pub struct Offloaded<T> {
    /// The value without offloaded contents.
    #[serde(with = "shared")]
    value: Arc<T>,
    /// Blob ids by part index.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    blobs: Vec<(usize, BlobId)>,
}

/// Serializes the shared value as the value itself.
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

impl<T: HasParts> Offloaded<T> {
    /// Moves large contents out of the value and returns them as blobs to store.
    pub fn offload(value: T) -> (Self, Vec<Blob>) {
        let is_large = |part: &Part| {
            part.content()
                .is_some_and(|c| c.as_str().len() > INLINE_LIMIT)
        };
        if !value.parts().iter().any(is_large) {
            return (
                Self {
                    value: Arc::new(value),
                    blobs: Vec::new(),
                },
                Vec::new(),
            );
        }
        let (mut blob_ids, mut blobs) = (Vec::new(), Vec::new());
        let mut indexes = 0..;
        // The content is moved, not copied: it never exists twice in memory.
        let value = value.map_parts(|mut part| {
            let index = indexes.next();
            if is_large(&part)
                && let (Some(index), Some(content)) = (index, part.take_content())
            {
                let bytes = BlobContent::from(content);
                let id = BlobId::for_content(bytes.as_bytes());
                blob_ids.push((index, id));
                blobs.push(Blob { id, bytes });
            }
            part
        });
        (
            Self {
                value: Arc::new(value),
                blobs: blob_ids,
            },
            blobs,
        )
    }

    /// Ids of the blobs that are needed to restore it.
    pub fn blob_ids(&self) -> impl Iterator<Item = BlobId> {
        self.blobs.iter().map(|(_, id)| *id)
    }

    /// Blob of a part's content, if it is offloaded.
    pub fn blob_for_part(&self, part: usize) -> Option<BlobId> {
        let blob = self.blobs.iter().find(|(index, _)| *index == part);
        blob.map(|(_, id)| *id)
    }

    /// Returns true if nothing is offloaded.
    pub fn is_inline(&self) -> bool {
        self.blobs.is_empty()
    }

    /// The value without offloaded contents.
    pub fn inline(&self) -> &T {
        &self.value
    }

    /// Removes an unknown (extra) field from all parts.
    #[must_use]
    pub fn without_field(self, name: &str) -> Self {
        let has_field = |part: &Part| part.extra().get(name).is_some();
        if !self.value.parts().iter().any(has_field) {
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

    /// Restores the contents. A content whose blob is not given stays absent.
    pub fn restore(self, blobs: &HashMap<BlobId, VerbatimJson>) -> T {
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

    fn message(contents: &[&str]) -> Message {
        Message::new(Role::User, contents.iter().map(Part::text).collect()).unwrap()
    }

    #[test]
    fn small_contents_stay_inline() {
        let (offloaded, blobs) = Offloaded::offload(message(&["a", "b"]));
        assert!(blobs.is_empty());
        assert_eq!(offloaded.inline(), &message(&["a", "b"]));
    }

    #[test]
    fn large_contents_are_offloaded_and_restored() {
        let large = "x".repeat(INLINE_LIMIT);
        let original = message(&["a", &large, "b", &large]);
        let (offloaded, blobs) = Offloaded::offload(original.clone());
        assert_eq!(blobs.len(), 2);
        assert_eq!(blobs[0], blobs[1], "equal contents have the same blob id");
        let text = serde_json::to_string(&offloaded).unwrap();
        assert!(text.len() < 1_000, "{}", text.len());
        let read: Offloaded<Message> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, offloaded);
        let blobs = blobs
            .into_iter()
            .filter_map(|blob| Some((blob.id, blob.bytes.into_json()?)))
            .collect();
        assert_eq!(read.restore(&blobs), original);
    }

    #[test]
    fn offload_moves_contents_without_a_copy() {
        let original = message(&["a", &"x".repeat(INLINE_LIMIT)]);
        let content = |message: &Message| message.parts()[1].content().map(|c| c.as_str().as_ptr());
        let address = content(&original);
        let (_, blobs) = Offloaded::offload(original);
        assert_eq!(Some(blobs[0].bytes.as_ptr()), address);
    }

    #[test]
    fn missing_blob_leaves_only_its_content_absent() {
        let (offloaded, _) = Offloaded::offload(message(&["a", &"x".repeat(INLINE_LIMIT)]));
        let restored = offloaded.restore(&HashMap::new());
        assert_eq!(restored.text(), "a");
        assert_eq!(restored.parts().len(), 2);
    }

    #[test]
    fn blob_id_parses_its_display_form() {
        let id = BlobId::for_content(b"abc");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "ab", &"é".repeat(32), &"g".repeat(64), &"+1".repeat(32)] {
            assert_eq!(bad.parse::<BlobId>(), Err(InvalidBlobId), "{bad}");
        }
    }
}
