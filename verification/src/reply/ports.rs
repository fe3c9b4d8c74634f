//! Ports of the reply module: token lookup, records and outbox.

use crate::slack::ids::TeamId;
use crate::slack::tokens::Installation;
use async_trait::async_trait;
use interzone_hub::{Hub, HubError, NewOutboxEntry};
use std::sync::Arc;
use std::time::Duration;

/// Provides the installation (bot token) of a workspace.
#[async_trait]
pub trait TokenProvider: Send + Sync {
    /// Returns the installation of a workspace, or `None` if the app is not installed there.
    ///
    /// # Errors
    /// The lookup failed temporarily; the text is for the operator.
    async fn installation(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String>;
}

/// Record storage and outbox.
#[async_trait]
pub(super) trait ReplyStore: Send + Sync {
    /// Returns a record.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<String>, HubError>;

    /// Returns all records of a kind, with their keys.
    async fn list(&self, kind: &str) -> Result<Vec<(String, String)>, HubError>;

    /// Stores a record for a limited time, replacing an existing one.
    async fn put(&self, kind: &str, key: &str, value: &str, ttl: Duration) -> Result<(), HubError>;

    /// Adds entries to the outbox.
    async fn enqueue(&self, entries: Vec<NewOutboxEntry>) -> Result<(), HubError>;
}

#[async_trait]
impl ReplyStore for Hub {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<String>, HubError> {
        let record = self.store().record(kind, key, self.now()).await?;
        Ok(record.map(|record| record.value.to_string()))
    }

    async fn list(&self, kind: &str) -> Result<Vec<(String, String)>, HubError> {
        let records = self.store().records(kind, self.now()).await?;
        let to_pair = |(key, record): (String, interzone_hub::ports::StoredRecord)| {
            (key, record.value.to_string())
        };
        Ok(records.into_iter().map(to_pair).collect())
    }

    async fn put(&self, kind: &str, key: &str, value: &str, ttl: Duration) -> Result<(), HubError> {
        let now = self.now();
        let expires_at = Some(now.plus(ttl));
        let store = self.store();
        store
            .put_record(kind, key, value, None, expires_at, now)
            .await?;
        Ok(())
    }

    async fn enqueue(&self, entries: Vec<NewOutboxEntry>) -> Result<(), HubError> {
        Self::enqueue(self, entries).await
    }
}
