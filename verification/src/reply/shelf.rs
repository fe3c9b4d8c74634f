//! What the reply asks of the rest of the zone: tokens, and a place for notes and further entries.

use crate::slack::ids::TeamId;
use crate::slack::tokens::Installation;
use async_trait::async_trait;
use interzone_hub::{Hub, HubError, NewEntry};
use std::sync::Arc;
use std::time::Duration;

/// Whoever knows the way into a workspace.
#[async_trait]
pub trait Ways: Send + Sync {
    /// The way into a workspace, or nothing if there is none.
    ///
    /// # Errors
    /// It cannot be told at the moment; the words are for the operator.
    async fn way(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, String>;
}

/// Where notes are kept and entries added.
#[async_trait]
pub(super) trait Shelf: Send + Sync {
    /// A note.
    async fn note(&self, kind: &str, key: &str) -> Result<Option<String>, HubError>;

    /// All notes of a kind, with their keys.
    async fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, HubError>;

    /// Keeps a note for a while, in place of what was there.
    async fn keep(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        keep: Duration,
    ) -> Result<(), HubError>;

    /// Adds entries to the outbox.
    async fn enqueue(&self, entries: Vec<NewEntry>) -> Result<(), HubError>;
}

#[async_trait]
impl Shelf for Hub {
    async fn note(&self, kind: &str, key: &str) -> Result<Option<String>, HubError> {
        let record = self.store().record(kind, key, self.now()).await?;
        Ok(record.map(|record| record.value.to_string()))
    }

    async fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, HubError> {
        let records = self.store().records(kind, self.now()).await?;
        let read =
            |(key, record): (String, interzone_hub::ports::Record)| (key, record.value.to_string());
        Ok(records.into_iter().map(read).collect())
    }

    async fn keep(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        keep: Duration,
    ) -> Result<(), HubError> {
        let now = self.now();
        let until = Some(now.after(keep));
        let store = self.store();
        store.put_record(kind, key, value, None, until, now).await?;
        Ok(())
    }

    async fn enqueue(&self, entries: Vec<NewEntry>) -> Result<(), HubError> {
        Self::enqueue(self, entries).await
    }
}
