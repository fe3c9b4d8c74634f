//! Group of uploads with a total limit and a share of it for each key.

use super::PendingUpload;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// Uploads by id, which grows with time. A key has an entry only while it has uploads.
pub(super) struct UploadGroup<K> {
    total: usize,
    share: usize,
    all: BTreeMap<u64, (K, PendingUpload)>,
    by_key: HashMap<K, BTreeSet<u64>>,
}

impl<K: Clone + Eq + Hash> UploadGroup<K> {
    /// Creates a group of at most `total` uploads, and a part of it for each key: 16 is a sixteenth.
    pub(super) fn new(total: usize, part: usize) -> Self {
        let total = total.max(1);
        Self {
            total,
            share: total.div_ceil(part.max(1)),
            all: BTreeMap::new(),
            by_key: HashMap::new(),
        }
    }

    fn count(&self, key: &K) -> usize {
        self.by_key.get(key).map_or(0, BTreeSet::len)
    }

    /// Returns true if half of the total, or of the key's share, is taken.
    pub(super) fn is_crowded(&self, key: &K) -> bool {
        self.all.len() >= self.total.div_ceil(2) || self.count(key) >= self.share.div_ceil(2)
    }

    /// Returns true if one more of this key is allowed.
    pub(super) fn has_capacity(&self, key: &K) -> bool {
        self.all.len() < self.total && self.count(key) < self.share
    }

    /// Adds an upload. If that exceeds a limit, the oldest of its key or of all is removed and returned.
    pub(super) fn insert(
        &mut self,
        key: K,
        id: u64,
        upload: &PendingUpload,
    ) -> Option<PendingUpload> {
        let of_key = self.by_key.entry(key.clone()).or_default();
        of_key.insert(id);
        let oldest_of_key = of_key.first().copied();
        let over_share = of_key.len() > self.share;
        self.all.insert(id, (key, upload.clone()));
        let oldest = match () {
            () if over_share => oldest_of_key,
            () if self.all.len() > self.total => self.all.keys().next().copied(),
            () => None,
        };
        oldest.and_then(|id| self.take(id))
    }

    /// Removes an upload. Returns true if it was there.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        self.take(id).is_some()
    }

    fn take(&mut self, id: u64) -> Option<PendingUpload> {
        let (key, upload) = self.all.remove(&id)?;
        if let Some(of_key) = self.by_key.get_mut(&key) {
            of_key.remove(&id);
            if of_key.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(upload)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.all.len(), self.by_key.len())
    }
}
