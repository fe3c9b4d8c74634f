//! Port for the memory budget of reads made on behalf of a caller. The size of the budget is decided by the caller.

use async_trait::async_trait;

/// Memory reservation, made before data is read; released on drop.
#[async_trait]
pub trait ReadMemory: Send + Sync {
    /// Reserves this many bytes more. May wait, for a bounded time, until others release memory. Returns whether the
    /// reservation succeeded.
    async fn reserve(&self, bytes: usize) -> bool;
}
