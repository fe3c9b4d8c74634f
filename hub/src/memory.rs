//! Memory for what is read on behalf of a caller. How much of it there is, and for whom, is decided outside.

use async_trait::async_trait;

/// Memory that is reserved before something is read into it, for as long as this lives.
#[async_trait]
pub trait ReadMemory: Send + Sync {
    /// Reserves so many bytes more. It may wait for others to give some back, for a bounded time; says whether
    /// there was that much.
    async fn reserve(&self, bytes: usize) -> bool;
}
