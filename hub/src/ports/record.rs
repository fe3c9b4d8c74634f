//! Records: small facts that somebody keeps by name, such as who may get a token. What is in them is
//! their keeper's business.

use super::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::Timestamp;
use std::sync::Arc;

/// A record, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it says.
    pub value: Arc<str>,
    /// Changes with every write. No record under the same name ever had the same number before, not
    /// even one that was removed since.
    pub revision: u64,
    /// When it ends, if it does. At that moment it is over.
    pub expires_at: Option<Timestamp>,
}

impl Record {
    /// The most bytes of a value.
    pub const LONGEST_VALUE: usize = 64 * 1024;

    /// The most bytes of a kind, and of a key.
    pub const LONGEST_NAME: usize = 256;

    /// Whether a record may be kept.
    ///
    /// # Errors
    /// [`TooLarge`](StoreError::TooLarge).
    pub fn check(kind: &str, key: &str, value: &str) -> Result<(), StoreError> {
        for (what, length, limit) in [
            ("the kind of a record", kind.len(), Self::LONGEST_NAME),
            ("the key of a record", key.len(), Self::LONGEST_NAME),
            ("a record", value.len(), Self::LONGEST_VALUE),
        ] {
            if length > limit {
                return Err(StoreError::TooLarge { what, limit });
            }
        }
        Ok(())
    }
}

/// Records, each under a kind and a key. One that is over counts as not there.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// A record.
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError>;

    /// All records of a kind with their keys, by key in the order of its bytes. Meant for kinds of
    /// which there are few.
    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, Record)>, StoreError>;

    /// Writes a record, if what is there is what was expected: nothing for zero, else the record with
    /// this revision; `None` expects nothing in particular. Answers whether it was written.
    ///
    /// **Atomic:** of many who expect the same, one writes.
    ///
    /// # Errors
    /// [`TooLarge`](StoreError::TooLarge), or the store did not do it.
    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Removes a record and gives it.
    ///
    /// **Atomic:** of many who take it, one gets it.
    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError>;
}
