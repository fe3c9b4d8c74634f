//! Large contents put back where they belong, with memory for them reserved before they are read.

use super::{Hub, UNPACKED_AT_ONCE};
use crate::error::HubError;
use crate::limits::size_of_parts;
use crate::memory::ReadMemory;
use crate::packed::{BlobId, BlobText, HasParts, Packed};
use std::collections::HashMap;

impl Hub {
    /// Puts the large contents back, a few at a time: all together may be more than there is memory for.
    pub(super) async fn unpack<T: HasParts>(
        &self,
        packed: Vec<Packed<T>>,
    ) -> Result<Vec<T>, HubError> {
        let mut whole = Vec::with_capacity(packed.len());
        let mut bytes = 0_usize;
        let mut packed = packed.into_iter().peekable();
        while packed.peek().is_some() {
            let some: Vec<_> = packed.by_ref().take(UNPACKED_AT_ONCE).collect();
            let ids: Vec<_> = some.iter().flat_map(Packed::blob_ids).collect();
            let blobs = if ids.is_empty() {
                HashMap::new()
            } else {
                let blobs = self.store().blobs(&ids).await?.into_iter();
                let json = |(id, text): (_, BlobText)| Some((id, text.into_json()?));
                blobs.filter_map(json).collect()
            };
            for one in some {
                let one = one.unpack(&blobs);
                bytes = bytes.saturating_add(size_of_parts(one.parts()));
                self.inner.limits.read(bytes)?;
                whole.push(one);
            }
        }
        Ok(whole)
    }

    /// Reserves memory for the large contents of these, before they are read: once for each content, and once more
    /// wherever it is put back and written.
    pub(super) async fn reserve_for(
        &self,
        blobs: &[BlobId],
        memory: Option<&dyn ReadMemory>,
    ) -> Result<(), HubError> {
        let (Some(memory), false) = (memory, blobs.is_empty()) else {
            return Ok(());
        };
        let sizes = self.store().blob_sizes(blobs).await?;
        let read = sizes
            .values()
            .fold(0, |sum: usize, size| sum.saturating_add(*size));
        let sizes = blobs.iter().filter_map(|id| sizes.get(id));
        let written = sizes.fold(0, |sum: usize, size| sum.saturating_add(*size));
        match memory.reserve(read.saturating_add(written)).await {
            true => Ok(()),
            false => Err(HubError::NoMemory),
        }
    }

    /// As [`Hub::unpack_one`], with memory for it reserved before it is read.
    ///
    /// # Errors
    /// The store did not do it, or there is no memory.
    pub async fn unpack_one_within<T: HasParts>(
        &self,
        packed: Packed<T>,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<T, HubError> {
        let blobs: Vec<_> = packed.blob_ids().collect();
        self.reserve_for(&blobs, memory).await?;
        self.unpack_one(packed).await
    }

    /// Reads a large content, with memory for it reserved before; none if it is not there. It is not copied.
    ///
    /// # Errors
    /// The store did not do it, or there is no memory.
    pub async fn blob_within(
        &self,
        id: BlobId,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Option<BlobText>, HubError> {
        if let Some(memory) = memory {
            let sizes = self.store().blob_sizes(&[id]).await?;
            let size = sizes.get(&id).copied().unwrap_or(0);
            if !memory.reserve(size).await {
                return Err(HubError::NoMemory);
            }
        }
        Ok(self.store().blobs(&[id]).await?.remove(&id))
    }

    /// Puts the large contents of an event's message or artifact back.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn unpack_one<T: HasParts>(&self, packed: Packed<T>) -> Result<T, HubError> {
        let mut one = self.unpack(vec![packed]).await?;
        one.pop().ok_or(HubError::Contended)
    }
}
