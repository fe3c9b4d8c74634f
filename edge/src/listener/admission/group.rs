//! Group of uploads with a total limit and a share of it for each key: of their number and of their bytes.

use super::PendingUpload;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// Uploads by id, which grows with time. A key has an entry only while it has uploads.
pub(super) struct UploadGroup<K> {
    total: usize,
    share: usize,
    byte_limit: ByteLimit,
    bytes: u64,
    all: BTreeMap<u64, UploadEntry<K>>,
    by_key: HashMap<K, KeyUploads>,
}

/// Maximum bytes of all uploads of a group, and of those of one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteLimit {
    pub(super) total: u64,
    pub(super) share: u64,
}

impl ByteLimit {
    /// Only the number of uploads is limited.
    pub(super) const NONE: Self = Self {
        total: u64::MAX,
        share: u64::MAX,
    };
}

struct UploadEntry<K> {
    key: K,
    upload: PendingUpload,
    bytes: u64,
}

/// Uploads of one key.
#[derive(Default)]
struct KeyUploads {
    ids: BTreeSet<u64>,
    bytes: u64,
}

impl<K: Clone + Eq + Hash> UploadGroup<K> {
    /// Creates a group of at most `total` uploads, and a part of it for each key: 16 is a sixteenth.
    pub(super) fn new(total: usize, part: usize, byte_limit: ByteLimit) -> Self {
        let total = total.max(1);
        Self {
            total,
            share: total.div_ceil(part.max(1)),
            byte_limit,
            bytes: 0,
            all: BTreeMap::new(),
            by_key: HashMap::new(),
        }
    }

    fn count(&self, key: &K) -> usize {
        self.by_key.get(key).map_or(0, |of_key| of_key.ids.len())
    }

    /// Returns true if half of the total, or of the key's share, is taken.
    pub(super) fn is_crowded(&self, key: &K) -> bool {
        let bytes = self.by_key.get(key).map_or(0, |of_key| of_key.bytes);
        self.all.len() >= self.total.div_ceil(2)
            || self.count(key) >= self.share.div_ceil(2)
            || self.bytes >= self.byte_limit.total / 2
            || bytes >= self.byte_limit.share / 2
    }

    /// Returns true if one more of this key is allowed.
    pub(super) fn has_capacity(&self, key: &K) -> bool {
        self.all.len() < self.total && self.count(key) < self.share
    }

    /// Adds an upload of so many bytes. Removes and returns those that exceed a limit by it: the oldest of its key or
    /// of all for their number, and those of [`grow`](Self::grow) for their bytes.
    pub(super) fn insert(
        &mut self,
        key: K,
        id: u64,
        upload: &PendingUpload,
        bytes: u64,
    ) -> Vec<PendingUpload> {
        let of_key = self.by_key.entry(key.clone()).or_default();
        of_key.ids.insert(id);
        let oldest_of_key = of_key.ids.first().copied();
        let over_share = of_key.ids.len() > self.share;
        let entry = UploadEntry {
            key,
            upload: upload.clone(),
            bytes: 0,
        };
        self.all.insert(id, entry);
        let oldest = match () {
            () if over_share => oldest_of_key,
            () if self.all.len() > self.total => self.all.keys().next().copied(),
            () => None,
        };
        let mut evicted: Vec<_> = oldest.and_then(|id| self.take(id)).into_iter().collect();
        evicted.append(&mut self.grow(id, bytes));
        evicted
    }

    /// Adds bytes to an upload. While the bytes of its key exceed their share, removes and returns the oldest of that
    /// key; while all together exceed the total, the oldest of the key that has most.
    pub(super) fn grow(&mut self, id: u64, bytes: u64) -> Vec<PendingUpload> {
        let Some(entry) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        entry.bytes = entry.bytes.saturating_add(bytes);
        let key = entry.key.clone();
        if let Some(of_key) = self.by_key.get_mut(&key) {
            of_key.bytes = of_key.bytes.saturating_add(bytes);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let mut evicted = Vec::new();
        while let Some(oldest) = self.find_excess(&key) {
            evicted.extend(self.take(oldest));
        }
        evicted
    }

    /// Returns the upload to remove because of the bytes, if there is one, after those of `key` have grown.
    fn find_excess(&self, key: &K) -> Option<u64> {
        let of_key = self.by_key.get(key);
        let over_share = of_key.filter(|of_key| of_key.bytes > self.byte_limit.share);
        let from = match over_share {
            None if self.bytes <= self.byte_limit.total => return None,
            None => self.by_key.values().max_by_key(|of_key| of_key.bytes),
            over_share => over_share,
        };
        from.and_then(|of_key| of_key.ids.first().copied())
    }

    /// Removes an upload. Returns true if it was there.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        self.take(id).is_some()
    }

    fn take(&mut self, id: u64) -> Option<PendingUpload> {
        let UploadEntry { key, upload, bytes } = self.all.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(of_key) = self.by_key.get_mut(&key) {
            of_key.ids.remove(&id);
            of_key.bytes = of_key.bytes.saturating_sub(bytes);
            if of_key.ids.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(upload)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.all.len(), self.by_key.len())
    }
}
