//! What the tests of the reply share.

use super::shelf::Shelf;
use async_trait::async_trait;
use interzone_hub::{HubError, NewEntry};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A shelf in memory.
#[derive(Default)]
pub(super) struct MemoryShelf {
    notes: Mutex<BTreeMap<(String, String), String>>,
    pub(super) entries: Mutex<Vec<NewEntry>>,
}

#[async_trait]
impl Shelf for MemoryShelf {
    async fn note(&self, kind: &str, key: &str) -> Result<Option<String>, HubError> {
        let notes = self.notes.lock().unwrap();
        Ok(notes.get(&(kind.to_owned(), key.to_owned())).cloned())
    }

    async fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, HubError> {
        let notes = self.notes.lock().unwrap();
        let of_kind = notes.iter().filter(|((other, _), _)| other == kind);
        Ok(of_kind
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    async fn keep(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        _keep: Duration,
    ) -> Result<(), HubError> {
        let mut notes = self.notes.lock().unwrap();
        notes.insert((kind.to_owned(), key.to_owned()), value.to_owned());
        Ok(())
    }

    async fn enqueue(&self, entries: Vec<NewEntry>) -> Result<(), HubError> {
        let mut all = self.entries.lock().unwrap();
        for entry in entries {
            if !all.iter().any(|other| other.key == entry.key) {
                all.push(entry);
            }
        }
        Ok(())
    }
}
