//! User accounts that can consent on the issuer's page.
//!
//! Works on the record store alone, like the clients. A passphrase is generated and shown once.

use super::clients::{AccountError, check_id};
use super::credential;
use super::record_store::{IssuerStore, IssuerStoreError};
use super::revocation_list;
use crate::Secret;
use crate::clock::Clock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Record kind of users.
const USER_KIND: &str = "oauth.person";

/// A user who can sign in and consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthUser {
    /// User name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created_at: u64,
}

/// Manages users: add, list, remove.
#[derive(Clone)]
pub struct OAuthUsers {
    store: Arc<dyn IssuerStore>,
    clock: Clock,
}

#[derive(Serialize, Deserialize)]
struct UserRecord {
    passphrase_sha256: String,
    created_at: u64,
}

impl OAuthUsers {
    /// Returns the users of a record store.
    pub fn new(store: Arc<dyn IssuerStore>, clock: Clock) -> Self {
        Self { store, clock }
    }

    /// Returns the `sub` of tokens on behalf of this user. Client ids have no colon, so the two never collide.
    pub fn subject(name: &str) -> String {
        format!("user:{name}")
    }

    /// Adds a user and returns the passphrase, which cannot be shown again.
    ///
    /// # Errors
    ///
    /// If the name is invalid or in use, or the record store fails.
    pub async fn add(&self, name: &str) -> Result<Secret, AccountError> {
        check_id(name)?;
        let passphrase = credential::generate_secret()?;
        let record = UserRecord {
            passphrase_sha256: credential::hash(passphrase.expose()),
            created_at: self.clock.unix(),
        };
        let value =
            serde_json::to_string(&record).map_err(|error| IssuerStoreError(error.into()))?;
        match self.store.put(USER_KIND, name, &value, None, None).await? {
            true => Ok(passphrase),
            false => Err(AccountError::Taken),
        }
    }

    /// Returns all users, ordered by name.
    ///
    /// # Errors
    ///
    /// If the record store fails.
    pub async fn list(&self) -> Result<Vec<OAuthUser>, AccountError> {
        let all = self.store.list(USER_KIND).await?;
        let users = all.into_iter().filter_map(|stored| {
            let record: UserRecord = serde_json::from_str(&stored.value).ok()?;
            Some(OAuthUser {
                name: stored.key,
                created_at: record.created_at,
            })
        });
        Ok(users.collect())
    }

    /// Removes a user and revokes the tokens on their behalf. Returns false if there was none.
    ///
    /// # Errors
    ///
    /// If the record store fails.
    pub async fn remove(&self, name: &str) -> Result<bool, AccountError> {
        if self.created_at(name).await?.is_none() {
            return Ok(false);
        }
        // Tokens first, so that a removal that fails half-way can be retried.
        let subject = Self::subject(name);
        revocation_list::revoke_account(self.store.as_ref(), &subject, self.clock.unix()).await?;
        Ok(self.store.take(USER_KIND, name).await?.is_some())
    }

    /// Returns the creation time of the user; `None` if there is no such user.
    pub(super) async fn created_at(&self, name: &str) -> Result<Option<u64>, IssuerStoreError> {
        let stored = self.store.get(USER_KIND, name).await?;
        let record =
            stored.and_then(|stored| serde_json::from_str::<UserRecord>(&stored.value).ok());
        Ok(record.map(|record| record.created_at))
    }

    /// Verifies a passphrase. Takes the same time whether the user exists or not.
    pub(super) async fn verify_passphrase(
        &self,
        name: &str,
        passphrase: &str,
    ) -> Result<bool, IssuerStoreError> {
        let stored = match check_id(name) {
            Ok(()) => self.store.get(USER_KIND, name).await?,
            Err(_) => None,
        };
        let record =
            stored.and_then(|stored| serde_json::from_str::<UserRecord>(&stored.value).ok());
        let hash = record
            .as_ref()
            .map(|record| record.passphrase_sha256.as_str());
        Ok(credential::matches(passphrase, hash))
    }
}
