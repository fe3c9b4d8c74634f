//! Revocation list for tokens, token families and accounts.
//!
//! Every request is checked against it, so lookups use memory; the record store is read periodically for the
//! revocations of other nodes.

use super::record_store::{IssuerRecords, IssuerStoreError};
use arc_swap::ArcSwap;
use interzone_edge::auth::Identity;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const REVOCATION_KIND: &str = "oauth.revoked";
/// Seconds for which an account's revocation is stored: longer than any token can live.
const ACCOUNT_REVOCATION_TTL: u64 = super::MAX_TOKEN_TTL + 3600;

/// In-memory snapshot of the revocation records.
#[derive(Default)]
pub(super) struct RevocationList(ArcSwap<RevocationTable>);

#[derive(Clone, Default)]
struct RevocationTable {
    tokens: HashSet<String>,
    /// Revoked token families (consents), whenever their tokens were issued.
    families: HashSet<String>,
    /// Clients and subjects, with the time up to which their tokens are revoked.
    accounts: HashMap<String, u64>,
}

impl RevocationTable {
    async fn read(store: &IssuerRecords) -> Result<Self, IssuerStoreError> {
        let mut table = Self::default();
        for record in store.list(REVOCATION_KIND).await? {
            match record.key.split_once('/') {
                Some(("token", id)) => {
                    table.tokens.insert(id.to_owned());
                }
                Some(("family", id)) => {
                    table.families.insert(id.to_owned());
                }
                Some(("account", id)) => {
                    let revoked_at = record.value.parse().unwrap_or(u64::MAX);
                    table.accounts.insert(id.to_owned(), revoked_at);
                }
                _ => {}
            }
        }
        Ok(table)
    }
}

impl RevocationList {
    /// Reloads the list from the record store.
    pub(super) async fn refresh(&self, store: &IssuerRecords) -> Result<(), IssuerStoreError> {
        let before = self.0.load_full();
        let read = RevocationTable::read(store).await?;
        self.0.rcu(|current| {
            let mut table = read.clone();
            // A revocation made here during the read may be missing in its result.
            if !Arc::ptr_eq(current, &before) {
                table.tokens.extend(current.tokens.iter().cloned());
                table.families.extend(current.families.iter().cloned());
            }
            table
        });
        Ok(())
    }

    /// Revokes one token: at once on this node, soon on the others.
    pub(super) async fn revoke_token(
        &self,
        store: &IssuerRecords,
        id: &str,
        expires_at: u64,
    ) -> Result<(), IssuerStoreError> {
        // The record outlives the token a little, for clocks that are behind.
        let until = expires_at.saturating_add(300);
        // False means that the record exists already.
        store
            .put(
                REVOCATION_KIND,
                &format!("token/{id}"),
                "",
                None,
                Some(until),
            )
            .await?;
        self.0.rcu(|table| {
            let mut table = RevocationTable::clone(table);
            table.tokens.insert(id.to_owned());
            table
        });
        Ok(())
    }

    /// Revokes all tokens of a family, including those being issued. One record is written, so that the
    /// revocation is atomic.
    pub(super) async fn revoke_family(
        &self,
        store: &IssuerRecords,
        id: &str,
        until: u64,
    ) -> Result<(), IssuerStoreError> {
        // False means that the record exists already.
        store
            .put(
                REVOCATION_KIND,
                &format!("family/{id}"),
                "",
                None,
                Some(until),
            )
            .await?;
        self.0.rcu(|table| {
            let mut table = RevocationTable::clone(table);
            table.families.insert(id.to_owned());
            table
        });
        Ok(())
    }

    /// Returns true if a family was revoked on any node. Reads the record store.
    pub(super) async fn is_family_revoked(
        store: &IssuerRecords,
        id: &str,
    ) -> Result<bool, IssuerStoreError> {
        let found = store.get(REVOCATION_KIND, &format!("family/{id}")).await?;
        Ok(found.is_some())
    }

    pub(super) fn contains(&self, identity: &Identity) -> bool {
        let table = self.0.load();
        if table.tokens.is_empty() && table.accounts.is_empty() && table.families.is_empty() {
            return false;
        }
        let is_account_revoked = |account: &str| {
            let revoked_at = table.accounts.get(account);
            revoked_at.is_some_and(|revoked_at| identity.issued_at() <= *revoked_at)
        };
        let token = identity.token_id();
        let family = identity.family();
        token.is_some_and(|id| table.tokens.contains(id))
            || family.is_some_and(|id| table.families.contains(id))
            || is_account_revoked(&identity.client)
            || is_account_revoked(&identity.principal)
    }
}

/// Revokes every token issued so far to a client, or on behalf of a subject.
pub(super) async fn revoke_account(
    store: &IssuerRecords,
    id: &str,
    now: u64,
) -> Result<(), IssuerStoreError> {
    let key = format!("account/{id}");
    let until = Some(now.saturating_add(ACCOUNT_REVOCATION_TTL));
    // Another node may write the same record concurrently; both write the current time, so it does not matter
    // which one wins.
    for _ in 0..8 {
        let revision = store
            .get(REVOCATION_KIND, &key)
            .await?
            .map(|record| record.revision);
        if store
            .put(REVOCATION_KIND, &key, &now.to_string(), revision, until)
            .await?
        {
            break;
        }
    }
    Ok(())
}
