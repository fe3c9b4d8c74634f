//! Store port for rate quotas.

use super::StoreError;
use crate::gcra::{Charge, Rate};
use async_trait::async_trait;
use interzone_protocol::vocab::Timestamp;

type Result<T> = std::result::Result<T, StoreError>;

/// Rate quotas per key.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Charges a key by [`Rate::charge`].
    ///
    /// **Atomic:** concurrent charges of one key, from any number of nodes, are serialized.
    async fn charge(&self, key: &str, rate: Rate, cost: u32, now: Timestamp) -> Result<Charge>;
}
