//! Restores offloaded contents from blobs, with memory reserved before they are read.

use super::{Hub, RESTORE_BATCH_SIZE};
use crate::error::HubError;
use crate::limits::size_of_parts;
use crate::offload::{BlobContent, BlobId, HasParts, Offloaded};
use crate::ports::ReadMemory;
use std::collections::HashMap;

impl Hub {
    /// Restores the contents in small batches: all together may exceed the limit.
    pub(super) async fn restore_all<T: HasParts>(
        &self,
        offloaded: Vec<Offloaded<T>>,
    ) -> Result<Vec<T>, HubError> {
        let mut restored = Vec::with_capacity(offloaded.len());
        let mut bytes = 0_usize;
        let mut offloaded = offloaded.into_iter().peekable();
        while offloaded.peek().is_some() {
            let batch: Vec<_> = offloaded.by_ref().take(RESTORE_BATCH_SIZE).collect();
            let ids: Vec<_> = batch.iter().flat_map(Offloaded::blob_ids).collect();
            let blobs = if ids.is_empty() {
                HashMap::new()
            } else {
                let blobs = self.store().blobs(&ids).await?.into_iter();
                let parse = |(id, text): (_, BlobContent)| Some((id, text.into_json()?));
                blobs.filter_map(parse).collect()
            };
            for item in batch {
                let item = item.restore(&blobs);
                bytes = bytes.saturating_add(size_of_parts(item.parts()));
                self.inner.limits.read(bytes)?;
                restored.push(item);
            }
        }
        Ok(restored)
    }

    /// Reserves memory for blobs before they are read: once for each blob, and once more for each place where it is
    /// restored and serialized.
    pub(super) async fn reserve_blobs(
        &self,
        blobs: &[BlobId],
        memory: Option<&dyn ReadMemory>,
    ) -> Result<(), HubError> {
        let (Some(memory), false) = (memory, blobs.is_empty()) else {
            return Ok(());
        };
        let sizes = self.store().blob_sizes(blobs).await?;
        let read_bytes = sizes
            .values()
            .fold(0, |sum: usize, size| sum.saturating_add(*size));
        let sizes = blobs.iter().filter_map(|id| sizes.get(id));
        let restored_bytes = sizes.fold(0, |sum: usize, size| sum.saturating_add(*size));
        match memory
            .reserve(read_bytes.saturating_add(restored_bytes))
            .await
        {
            true => Ok(()),
            false => Err(HubError::NoMemory),
        }
    }

    /// Like [`Hub::restore`], with memory reserved before the blobs are read.
    ///
    /// # Errors
    /// The store operation failed, or the memory budget is used up.
    pub async fn restore_within<T: HasParts>(
        &self,
        offloaded: Offloaded<T>,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<T, HubError> {
        let blobs: Vec<_> = offloaded.blob_ids().collect();
        self.reserve_blobs(&blobs, memory).await?;
        self.restore(offloaded).await
    }

    /// Reads a blob without copying it, with memory reserved before; `None` if it does not exist.
    ///
    /// # Errors
    /// The store operation failed, or the memory budget is used up.
    pub async fn blob_within(
        &self,
        id: BlobId,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Option<BlobContent>, HubError> {
        if let Some(memory) = memory {
            let sizes = self.store().blob_sizes(&[id]).await?;
            let size = sizes.get(&id).copied().unwrap_or(0);
            if !memory.reserve(size).await {
                return Err(HubError::NoMemory);
            }
        }
        Ok(self.store().blobs(&[id]).await?.remove(&id))
    }

    /// Restores the contents of an event's message or artifact.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn restore<T: HasParts>(&self, offloaded: Offloaded<T>) -> Result<T, HubError> {
        let mut restored = self.restore_all(vec![offloaded]).await?;
        restored.pop().ok_or(HubError::Contended)
    }
}
