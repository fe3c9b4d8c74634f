//! The people who may consent.
//!
//! Works on the records alone, like the clients. A passphrase is made by us and shown once.

use super::clients::{AccountError, check_id};
use super::credential;
use super::keep::{Keep, KeepError};
use super::revoked;
use crate::clock::Clock;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind of a person's record.
const KIND: &str = "oauth.person";

/// Somebody who may consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// What they are called.
    pub name: String,
    /// When they were added, in seconds since 1970.
    pub created_at: u64,
}

/// Adds, lists and removes people.
#[derive(Clone)]
pub struct People {
    keep: Arc<dyn Keep>,
    clock: Clock,
}

#[derive(Serialize, Deserialize)]
struct Record {
    passphrase_sha256: String,
    created_at: u64,
}

impl People {
    /// The people in these records.
    pub fn new(keep: Arc<dyn Keep>, clock: Clock) -> Self {
        Self { keep, clock }
    }

    /// The subject of tokens on behalf of this person. No client's id has a colon, so nobody can be
    /// taken for a client.
    pub fn subject(name: &str) -> String {
        format!("person:{name}")
    }

    /// Adds somebody and gives their passphrase, which is not to be had a second time.
    ///
    /// # Errors
    ///
    /// If the name cannot be used or is taken, or the records cannot be reached.
    pub async fn add(&self, name: &str) -> Result<Secret, AccountError> {
        check_id(name)?;
        let passphrase = credential::secret()?;
        let record = Record {
            passphrase_sha256: credential::hash(passphrase.expose()),
            created_at: self.clock.unix(),
        };
        let value = serde_json::to_string(&record).map_err(|error| KeepError(error.into()))?;
        match self.keep.put(KIND, name, &value, None, None).await? {
            true => Ok(passphrase),
            false => Err(AccountError::Taken),
        }
    }

    /// Everybody, by name.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    pub async fn list(&self) -> Result<Vec<Person>, AccountError> {
        let all = self.keep.list(KIND).await?;
        let read = all.into_iter().filter_map(|kept| {
            let record: Record = serde_json::from_str(&kept.value).ok()?;
            Some(Person {
                name: kept.key,
                created_at: record.created_at,
            })
        });
        Ok(read.collect())
    }

    /// Removes somebody and takes back the tokens on their behalf. False if there was nobody.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    pub async fn remove(&self, name: &str) -> Result<bool, AccountError> {
        if self.since(name).await?.is_none() {
            return Ok(false);
        }
        // First the tokens: whoever fails half-way can try again.
        let subject = Self::subject(name);
        revoked::account(self.keep.as_ref(), &subject, self.clock.unix()).await?;
        Ok(self.keep.take(KIND, name).await?.is_some())
    }

    /// Since when there is somebody of this name.
    pub(super) async fn since(&self, name: &str) -> Result<Option<u64>, KeepError> {
        let kept = self.keep.get(KIND, name).await?;
        let record = kept.and_then(|kept| serde_json::from_str::<Record>(&kept.value).ok());
        Ok(record.map(|record| record.created_at))
    }

    /// True if this is their passphrase. Takes the same time whether they exist or not.
    pub(super) async fn prove(&self, name: &str, passphrase: &str) -> Result<bool, KeepError> {
        let kept = match check_id(name) {
            Ok(()) => self.keep.get(KIND, name).await?,
            Err(_) => None,
        };
        let record = kept.and_then(|kept| serde_json::from_str::<Record>(&kept.value).ok());
        let hash = record
            .as_ref()
            .map(|record| record.passphrase_sha256.as_str());
        Ok(credential::matches(passphrase, hash))
    }
}
