//! Quotas as a store keeps them.

use super::StoreError;
use crate::quota::{Charge, Rate};
use async_trait::async_trait;
use interzone_protocol::vocab::Timestamp;

type Result<T> = std::result::Result<T, StoreError>;

/// Quotas.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Charges a key by the rule of [`Rate::charge`].
    ///
    /// **Atomic:** charges of one key, from however many nodes, count one after another.
    async fn charge(&self, key: &str, rate: Rate, cost: u32, now: Timestamp) -> Result<Charge>;
}
